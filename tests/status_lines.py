"""Lines of status snapshots, for tests that need no stream."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from streams import NOON

from airflow_provider_cdc.engine.core.monitoring.conditions import Condition
from airflow_provider_cdc.engine.core.monitoring.status_snapshot import (
    StatusSnapshot,
    StreamLine,
    TableLine,
)


def new_line(name: str = "s", **fields: Any) -> StreamLine:
    """The line of a stream that is current; ``fields`` are those of the line that a test sets."""
    values: dict[str, Any] = {
        "stream_id": f"id of {name}",
        "source": "lake.orders",
        "mode": "standard",
        "condition": Condition.CURRENT,
        "condition_since": NOON,
        "problem": None,
        "advice": None,
        "commits_behind": 0,
        "bytes_behind": 0,
        "waiting_since": None,
        "max_lag_seconds": None,
        "stale_after": NOON + timedelta(days=7),
        "kept_until": NOON + timedelta(days=7),
        "complete_through": NOON,
        "created_at": NOON,
        "last_consumed_at": NOON,
        "last_consumer": "orders/consume",
        "owner": "somebody",
        "comment": None,
        "consumption": None,
        "upsert_table": None,
        "change_stream": None,
        "tables": (TableLine("lake.orders", "/data/orders", 3, 3, 0, 0, None),),
    }
    return StreamLine(name=name, **values | fields)


def new_snapshot(*lines: StreamLine, as_of: datetime = NOON) -> StatusSnapshot:
    """A snapshot of ``lines`` without alerts."""
    return StatusSnapshot(as_of, lines, alerts=())
