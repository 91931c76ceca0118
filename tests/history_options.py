"""Valid options of ``apply_changes``, for tests that replace one of them."""

from __future__ import annotations

from typing import Any

HISTORY_OPTIONS: dict[str, Any] = {
    "keys": "id",
    "scd_type": 2,
    "apply_as_deletes": None,
    "apply_as_truncates": None,
    "column_list": None,
    "except_column_list": None,
    "track_history_column_list": None,
    "track_history_except_column_list": None,
    "ignore_null_updates": False,
    "start_column": None,
    "end_column": None,
    "open_end": None,
    "current_column": None,
    "current_view": None,
    "deleted": "close",
    "on_tie": None,
    "on_null": "fail",
    "absent": "delete",
    "absent_scope": None,
    "payload": None,
    "payload_schema": None,
    "unavailable_value": "__debezium_unavailable_value",
}
"""The options that a target stores, each with its default."""

APPLY_OPTIONS: dict[str, Any] = {
    **HISTORY_OPTIONS,
    "stream": "s",
    "query": None,
    "snapshot": None,
    "sequence_by": "id",
    "tombstone_horizon": "P2D",
    "snapshot_at": None,
    "cluster_by": None,
    "consumer": "c",
    "max_commits": None,
    "max_bytes": None,
}
"""The arguments of ``apply_changes``, each valid. ``target`` is left out."""
