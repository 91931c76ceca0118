"""What the records of a change stream hold of a changed row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class ValueCaptureType(StrEnum):
    """How much of a changed row a record holds (Spanner)."""

    OLD_AND_NEW_VALUES = "OLD_AND_NEW_VALUES"
    NEW_VALUES = "NEW_VALUES"
    NEW_ROW = "NEW_ROW"
    NEW_ROW_AND_OLD_VALUES = "NEW_ROW_AND_OLD_VALUES"


class ModType(StrEnum):
    """How a row changed."""

    INSERT = "INSERT"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


class Shown(StrEnum):
    """Which of the watched columns that are not in the key."""

    NONE = "none"
    MODIFIED = "modified"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class CapturedValues:
    """What a record holds: the columns in ``new_values``, in ``old_values`` and, beside the key, in
    ``column_types``.
    """

    new: Shown
    old: Shown
    types: Shown


_INSERTED = CapturedValues(Shown.ALL, Shown.NONE, Shown.ALL)
_DELETED = CapturedValues(Shown.NONE, Shown.ALL, Shown.ALL)
_DELETED_KEY = CapturedValues(Shown.NONE, Shown.NONE, Shown.ALL)
_UPDATED: Mapping[ValueCaptureType, CapturedValues] = {
    ValueCaptureType.OLD_AND_NEW_VALUES: CapturedValues(
        Shown.MODIFIED, Shown.MODIFIED, Shown.MODIFIED
    ),
    ValueCaptureType.NEW_VALUES: CapturedValues(Shown.MODIFIED, Shown.NONE, Shown.MODIFIED),
    ValueCaptureType.NEW_ROW: CapturedValues(Shown.ALL, Shown.NONE, Shown.ALL),
    ValueCaptureType.NEW_ROW_AND_OLD_VALUES: CapturedValues(Shown.ALL, Shown.MODIFIED, Shown.ALL),
}
_KEEPS_OLD = (ValueCaptureType.OLD_AND_NEW_VALUES, ValueCaptureType.NEW_ROW_AND_OLD_VALUES)


def captured_values(capture: ValueCaptureType, mod: ModType) -> CapturedValues:
    """What a record holds of a row that changed.

    Spanner: an update that modifies no watched column gives no record. A delete has old values only
    if the type captures old values.
    """
    match mod:
        case ModType.INSERT:
            return _INSERTED
        case ModType.UPDATE:
            return _UPDATED[capture]
        case ModType.DELETE:
            return _DELETED if capture in _KEEPS_OLD else _DELETED_KEY
