"""What the log of a quarantine tells of the changes in it, before anybody reads them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..log_actions import DataFile
from .changes import REASON, Reason

# Statistics of Delta keep no more of a text.
_LATE = Reason.LATE[:32]


@dataclass(frozen=True, slots=True)
class QuarantineSize:
    """How many ``changes`` a quarantine holds: bad ones, those that wait for them, late ones, and
    what was released and is not applied yet; ``None``: the log does not tell. ``are_late`` says
    that certainly all of them are late, and hold nobody up.
    """

    changes: int | None
    are_late: bool


def quarantine_size(files: Iterable[DataFile]) -> QuarantineSize:
    """What the statistics of the files of a quarantine tell.

    Bounds of a file stay as they are when a row of it is deleted, so late changes that came beside
    others may not be known as such.
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
