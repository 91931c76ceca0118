"""Actions from the Parquet files of checkpoints, in the form that they have in commits."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import date
from typing import Any

from .log_actions import DeletionVector

_MAPS = ("partitionValues", "tags", "configuration")
_AS_COLUMNS = "stats_parsed"


def plain_action(row: Mapping[str, Any]) -> dict[str, Any]:
    """An action without its empty fields, with its maps as objects and its statistics as text."""
    action = {name: value for name, value in row.items() if value is not None}
    # Parquet returns maps as lists of pairs. The configuration of a domain is a text.
    action |= {name: dict(action[name]) for name in _MAPS if isinstance(action.get(name), list)}
    if "format" in action:
        action["format"] = {**action["format"], "options": dict(action["format"]["options"] or ())}
    vector = DeletionVector.of(action.get("deletionVector"))
    if vector is not None:
        action["deletionVector"] = vector.as_action()
    if _AS_COLUMNS in action:
        action.setdefault("stats", _stats_text(action.pop(_AS_COLUMNS)))
    return action


def _stats_text(columns: Mapping[str, Any]) -> str:
    """The statistics as text, without bounds that have no exact text.

    Bounds only make it possible to skip files.
    """
    return json.dumps(_exact(columns), separators=(",", ":"))


def _exact(value: Any) -> Any:
    if isinstance(value, Mapping):
        found = {name: _exact(item) for name, item in value.items()}
        return {name: item for name, item in found.items() if item is not None}
    if type(value) is date:
        return value.isoformat()
    is_exact = isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))
    return value if is_exact else None
