"""The lines that commands print for streams, change streams and upsert tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from airflow_provider_cdc.engine.catalog.change_stream_catalog import ChangeStreamCatalog
from airflow_provider_cdc.engine.catalog.show_streams import shown
from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.core.model.serialization import UnreadableStream
from airflow_provider_cdc.engine.core.monitoring.moves import move_of
from airflow_provider_cdc.engine.core.upserts.job_records import Usage

from .text_tables import bar


def stream_lines(catalog: StreamCatalog, name: str | None) -> list[dict[str, Any]]:
    """Return a line for each stream, or only for ``name``, as in JSON. Times are in ISO 8601.

    :raises StreamNotFound: there is no stream of that name
    """
    statuses = catalog.describe_streams() if name is None else [catalog.describe_stream(name)]
    return [
        {column: _plain(value) for column, value in shown(status).items()} for status in statuses
    ]


def history_lines(catalog: StreamCatalog, name: str) -> list[dict[str, Any]]:
    """Return a line for each move of a stream, as in JSON, the newest first. Times are in ISO 8601.

    :raises StreamNotFound: there is no stream of that name
    """
    found = []
    for record in reversed(catalog.stream_history(name)):
        if isinstance(record.stream, UnreadableStream):
            continue
        move = move_of(record.stream, record.transition, record.at, record.actor)
        if move is not None:
            found.append({column: _plain(value) for column, value in asdict(move).items()})
    return found


def plan_lines(catalog: StreamCatalog, name: str) -> list[dict[str, Any]]:
    """Return how the change set of a stream would be read now, as in JSON: a line for each table.

    :raises StreamNotFound: there is no stream of that name
    :raises StreamUnusable: its change set can no longer be read
    """
    plan = catalog.explain_stream(name)
    tables = [(each.table, each.plan) for each in plan.tables] or [
        (catalog.get_stream(name).table_on, plan)
    ]
    return [
        {
            "table": table,
            "strategy": each.strategy.value,
            "files": each.file_count,
            "bytes": each.size_bytes,
            "commits": each.commit_count,
            "reason": each.reason,
        }
        for table, each in tables
    ]


def moved_line(catalog: StreamCatalog, act: str, name: str) -> dict[str, Any]:
    """Advance or drop a stream, and return what it did, as in JSON.

    :param act: ``advance`` or ``drop``
    :raises StreamNotFound: there is no stream of that name
    :raises StreamConflict: a consumption of it is open
    :raises StreamAccessDenied: the principal may not do that
    """
    before = catalog.get_stream(name)
    found = {"stream": before.name, "did": act}
    if act == "drop":
        catalog.drop_stream(name)
        return found
    after = catalog.advance_stream(name)
    return found | {
        "from": [base.offset.version for base in before.bases],
        "to": [base.offset.version for base in after.bases],
    }


def upsert_lines(catalog: StreamCatalog) -> list[dict[str, Any]]:
    """Return a line for each upsert table, as in JSON. Times are in ISO 8601."""
    return [
        {column: _plain(value) for column, value in asdict(each).items()}
        for each in catalog.upsert_tables()
    ]


def change_stream_lines(catalog: ChangeStreamCatalog) -> list[dict[str, Any]]:
    """Return a line for each change stream, as in JSON. Times are in ISO 8601, lags in seconds."""
    return [
        {
            "name": each.name,
            "tables": list(each.tables),
            "partitions": each.partitions,
            "captured_through": _plain(each.captured_through),
            "lag_seconds": round(each.lag.total_seconds()),
            "sealed_commits": each.sealed_commits,
            "quarantined": each.quarantined,
            "consumers": [asdict(consumer) for consumer in each.consumers],
        }
        for each in catalog.describe_change_streams()
    ]


def checked(catalog: StreamCatalog, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return ``lines``, which were found in a state folder.

    :raises RegistryNotFound: there are no lines, because the folder has no registry
    """
    if not lines:
        catalog.check_begun()
    return lines


def usage_lines(found: Sequence[Usage]) -> list[dict[str, Any]]:
    """Return a line for each period and class of jobs of upsert tables, as in JSON. It has a bar
    for the busy slots.
    """
    most = max((each.slots for each in found), default=0)
    return [
        {
            **{name: _plain(value) for name, value in asdict(each).items()},
            "seconds": round(each.seconds, 1),
            "slots": round(each.slots, 4),
            "plot": bar(each.slots, most),
        }
        for each in found
    ]


def _plain(value: Any) -> Any:
    return value.isoformat(timespec="seconds") if isinstance(value, datetime) else value
