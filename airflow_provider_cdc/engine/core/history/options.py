"""The options of a history target: what a caller asks for, and what its Delta table remembers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any

import msgspec

from ..debezium.envelope import UNAVAILABLE, Payload
from ..errors import InvalidRequest
from ..model.json_text import from_json, to_json

START, END, DELETED = "__START_AT", "__END_AT", "__DELETED"
TOMBSTONE_HORIZON = timedelta(days=2)
PROPERTY = "airflow_provider_cdc.history"

NEWEST_ONLY, WITH_HISTORY = 1, 2
"""The values of ``scd_type``."""


class Deleted(StrEnum):
    """What a delete does to the history of its key.

    ``close`` ends the open interval. ``row`` also begins an interval that is marked as deleted
    (dbt: ``hard_deletes='new_record'``).
    """

    CLOSE = "close"
    ROW = "row"


class OnTie(StrEnum):
    """What happens if two events have one key and one sequence, and different values.

    ``last`` keeps the one that comes later in the source. ``fail`` refuses the whole batch.
    ``quarantine`` keeps the earlier one and moves the new ones to the quarantine.
    """

    LAST = "last"
    FAIL = "fail"
    QUARANTINE = "quarantine"


class OnNull(StrEnum):
    """What happens to an event whose key or sequence is NULL."""

    FAIL = "fail"
    QUARANTINE = "quarantine"


class Absent(StrEnum):
    """What it means that a key is not in a snapshot."""

    DELETE = "delete"
    IGNORE = "ignore"


class SourceKind(StrEnum):
    """Where the events of a history target come from."""

    STREAM = "stream"
    QUERY = "query"
    SNAPSHOT = "snapshot"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryOptions:
    """The options of a history target; see ``Engine.apply_changes``.

    ``filled`` are the columns in which NULL means unchanged; ``fills_all``: all columns that are
    not in the key. ``open_end`` is a value of the sequence as text.
    """

    source: SourceKind
    keys: tuple[str, ...]
    scd_type: int = 1
    sequence_by: tuple[str, ...] = ()
    apply_as_deletes: str | None = None
    apply_as_truncates: str | None = None
    columns: tuple[str, ...] | None = None
    except_columns: tuple[str, ...] = ()
    tracked: tuple[str, ...] | None = None
    except_tracked: tuple[str, ...] = ()
    filled: tuple[str, ...] = ()
    fills_all: bool = False
    start_column: str = START
    end_column: str = END
    open_end: str | None = None
    current_column: str | None = None
    current_view: str | None = None
    deleted: Deleted = Deleted.CLOSE
    tombstone_horizon: timedelta | None = TOMBSTONE_HORIZON
    on_tie: OnTie = OnTie.LAST
    on_null: OnNull = OnNull.FAIL
    absent: Absent = Absent.DELETE
    absent_scope: tuple[str, ...] = ()
    payload: Payload | None = None
    payload_schema: str | None = None
    unavailable_value: str = UNAVAILABLE

    @property
    def is_type_2(self) -> bool:
        """Whether the target keeps every version of a row."""
        return self.scd_type == WITH_HISTORY

    @property
    def is_in_order(self) -> bool:
        """Whether no event can be late: events are in the order of the commits of a stream, or of
        snapshots.
        """
        return self.source is not SourceKind.QUERY and not self.has_sequence

    @property
    def has_sequence(self) -> bool:
        """Whether an event has a sequence of its own, besides its place in the source."""
        return bool(self.sequence_by) or self.payload is not None

    @property
    def has_truncates(self) -> bool:
        """Whether an event may end the rows of all keys."""
        has_own = self.payload is not None and self.deleted is Deleted.CLOSE
        return has_own or self.apply_as_truncates is not None

    @property
    def fills(self) -> bool:
        """Whether NULL means unchanged in some columns."""
        return self.fills_all or bool(self.filled)

    @property
    def needs_intervals(self) -> bool:
        """Whether an event has to be compared with the history of its key."""
        return self.is_type_2 or self.has_sequence or self.fills

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of ``Engine.apply_changes`` for these options, except its source."""
        return {
            "keys": self.keys,
            "scd_type": self.scd_type,
            "sequence_by": self.sequence_by or None,
            "apply_as_deletes": self.apply_as_deletes,
            "apply_as_truncates": self.apply_as_truncates,
            "column_list": self.columns,
            "except_column_list": self.except_columns or None,
            "track_history_column_list": self.tracked,
            "track_history_except_column_list": self.except_tracked or None,
            "ignore_null_updates": self.fills_all or self.filled,
            "start_column": self.start_column,
            "end_column": self.end_column if self.is_type_2 else None,
            "open_end": self.open_end,
            "current_column": self.current_column,
            "current_view": self.current_view,
            "deleted": self.deleted,
            "tombstone_horizon": self.tombstone_horizon,
            "on_tie": self.on_tie,
            "on_null": self.on_null,
            "absent": self.absent,
            "absent_scope": self.absent_scope or None,
            "payload": self.payload,
            "payload_schema": self.payload_schema,
            "unavailable_value": self.unavailable_value,
        }

    def as_property(self) -> str:
        """The value of the table property that remembers the options."""
        return to_json(self)


# The arguments of Engine.apply_changes by the fields that hold them, where the names differ.
_ARGUMENTS: Mapping[str, str] = {
    "source": "stream, query or snapshot",
    "columns": "column_list",
    "except_columns": "except_column_list",
    "tracked": "track_history_column_list",
    "except_tracked": "track_history_except_column_list",
    "filled": "ignore_null_updates",
    "fills_all": "ignore_null_updates",
}
# What a later call may change, because it does not change what was applied before.
_ALTERABLE = frozenset(
    {
        "tombstone_horizon",
        "on_tie",
        "on_null",
        "absent",
        "absent_scope",
        "apply_as_deletes",
        "current_view",
        "payload_schema",
    }
)


def stored_options(subject: str, text: str) -> HistoryOptions:
    """The options that a table property holds.

    :raises InvalidRequest: it was damaged
    """
    try:
        return from_json(text, HistoryOptions)
    except msgspec.MsgspecError as error:
        raise InvalidRequest(
            subject,
            "has a property that cannot be read",
            cause=f"{PROPERTY}: {error}",
            fix=f"give the property the value that the table's history shows, with ALTER TABLE ..."
            f" SET TBLPROPERTIES ('{PROPERTY}' = ...)",
        ) from None


def check_unchanged(subject: str, stored: HistoryOptions, given: HistoryOptions) -> None:
    """Refuse options that contradict those of an existing target.

    :raises InvalidRequest: names the first such option
    """
    for field in fields(HistoryOptions):
        before, now = getattr(stored, field.name), getattr(given, field.name)
        if before != now and field.name not in _ALTERABLE:
            argument = _ARGUMENTS.get(field.name, field.name)
            raise InvalidRequest(
                subject,
                f"has another {argument}",
                cause=f"it was created with {before!r}, found {now!r}",
                fix=f"pass the {argument} with which it was created, or name another target",
            )


def with_alterations(stored: HistoryOptions, given: HistoryOptions) -> HistoryOptions:
    """The stored options with what a later call may change."""
    return replace(stored, **{name: getattr(given, name) for name in _ALTERABLE})
