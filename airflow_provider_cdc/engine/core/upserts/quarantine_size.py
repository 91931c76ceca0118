"""The size of a quarantine, from its log, without reading the changes in it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..delta.log_actions import DataFile
from .change_rows import REASON, Reason

# Delta's statistics keep only this many characters of a text.
_LATE = Reason.LATE[:32]


@dataclass(frozen=True, slots=True)
class QuarantineSize:
    """How many ``changes`` a quarantine holds.

    It counts bad changes, changes that wait for them, late changes, and released changes that are
    not applied yet. ``None``: the log does not show it. ``are_late`` is true if all of them are
    certainly late, so that they block no other change.
    """

    changes: int | None
    are_late: bool


def quarantine_size(files: Iterable[DataFile]) -> QuarantineSize:
    """The size of a quarantine, from the statistics of its files.

    The bounds of a file stay the same when a row of it is deleted. So this function may not
    recognise late changes that were written together with others.
    """
    changes = 0
    are_late = True
    for file in files:
        records, vector = file.record_count, file.deletion_vector
        if records is None:
            return QuarantineSize(None, are_late=False)
        left = records - (0 if vector is None else vector.cardinality)
        changes += left
        are_late = are_late and (left == 0 or _is_late(json.loads(file.stats or "{}")))
    return QuarantineSize(changes, are_late)


def _is_late(statistics: Mapping[str, Any]) -> bool:
    bounds = (statistics.get(name, {}).get(REASON) or "" for name in ("minValues", "maxValues"))
    has_none = statistics.get("nullCount", {}).get(REASON) == 0
    return has_none and all(bound.startswith(_LATE) for bound in bounds)
