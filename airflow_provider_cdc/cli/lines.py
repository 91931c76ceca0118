"""What commands print of streams and upsert tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from airflow_provider_cdc.engine.catalog import StreamCatalog
from airflow_provider_cdc.engine.core.upserts.jobs import Usage
from airflow_provider_cdc.engine.stream_status import shown

OVERVIEW = (
    "name",
    "table_on",
    "mode",
    "phase",
    "offset",
    "commits_behind",
    "bytes_behind",
    "stale",
    "stale_after",
    "kept_until",
)
"""The columns of SHOW that a terminal has room for."""

UPSERTS_OVERVIEW = (
    "name",
    "max_staleness",
    "upsert_stream_apply_watermark",
    "pending_since",
    "pending_commits",
    "pending_bytes",
    "quarantined_changes",
    "stream",
)
"""What a terminal has room for of what is known of an upsert table."""

BAR_CHARACTERS = 40


def stream_lines(catalog: StreamCatalog, name: str | None) -> list[dict[str, Any]]:
    """A line for every stream, or the one of ``name``, as JSON has it: times in ISO 8601.

    :raises StreamNotFound: there is no stream of that name
    """
    statuses = catalog.statuses() if name is None else [catalog.status(name)]
    return [
        {column: _plain(value) for column, value in shown(status).items()} for status in statuses
    ]


def upsert_lines(catalog: StreamCatalog) -> list[dict[str, Any]]:
    """A line for every upsert table, as JSON has it: times in ISO 8601."""
    return [
        {column: _plain(value) for column, value in asdict(each).items()}
        for each in catalog.upsert_tables()
    ]


def nothing_there(catalog: StreamCatalog, state: str) -> str | None:
    """What to say beside an empty list; ``None`` where there are no streams in a registry."""
    if catalog.is_begun:
        return None
    return f"There is no registry in {state}: no stream was created, or it is not mounted."


def overview(line: Mapping[str, Any], columns: Sequence[str] = OVERVIEW) -> dict[str, str]:
    """The ``columns`` of ``line``, which a terminal has room for, as text."""
    return {column: text(line[column]) for column in columns}


def usage_lines(found: Sequence[Usage]) -> list[dict[str, Any]]:
    """A line for each period and class of jobs of upsert tables, as JSON has it, with a bar of the
    slots that were busy, the longest of them as long as ``BAR_CHARACTERS``.
    """
    most = max((each.slots for each in found), default=0) or 1
    return [
        {
            **{name: _plain(value) for name, value in asdict(each).items()},
            "seconds": round(each.seconds, 1),
            "slots": round(each.slots, 4),
            "plot": "█" * round(each.slots / most * BAR_CHARACTERS),
        }
        for each in found
    ]


def text(value: Any) -> str:
    """``value`` as a terminal shows it: nothing where there is none."""
    return "" if value is None else str(value)


def _plain(value: Any) -> Any:
    return value.isoformat(timespec="seconds") if isinstance(value, datetime) else value
