"""The results of operators: the engine's dataclasses as plain JSON, for XCom."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from airflow_provider_cdc.engine.core.change_streams.definition import ChangeStream
from airflow_provider_cdc.engine.core.change_streams.stamps import stamp_text
from airflow_provider_cdc.engine.core.model.json_text import to_json
from airflow_provider_cdc.engine.core.model.outcomes import Outcome
from airflow_provider_cdc.engine.core.model.stream import Stream
from airflow_provider_cdc.engine.core.upserts.definition import UpsertTable
from airflow_provider_cdc.engine.core.upserts.write_result import WriteResult
from airflow_provider_cdc.hooks.failures import CdcJobFailed


def stream_result(stream: Stream | None) -> dict[str, Any]:
    """Name, id, source, mode and offset of a stream.

    :raises CdcJobFailed: the job answered without a stream
    """
    if stream is None:
        raise CdcJobFailed("stream job: answered without a stream. Fix: run the task again.")
    return {
        "stream": stream.name,
        "stream_id": stream.stream_id,
        "source": stream.table_on,
        "mode": stream.mode.value,
        "offset_version": stream.offset.version,
    }


def change_stream_result(found: ChangeStream | None) -> dict[str, Any]:
    """Name, tables, creation, progress and number of open partitions of a change stream.

    :raises CdcJobFailed: the job answered without a change stream
    """
    if found is None:
        raise CdcJobFailed("change stream: answered without a state. Fix: run the task again.")
    return {
        "change_stream": found.name,
        "tables": [table.name for table in found.tables],
        "created": stamp_text(found.created_at),
        "captured_through": stamp_text(found.captured),
        "partitions": len(found.layout.open),
    }


def upsert_table_result(table: UpsertTable | None) -> dict[str, Any]:
    """Name, location, stream, key and ``max_staleness`` (seconds) of an upsert table.

    :raises CdcJobFailed: the job answered without a table
    """
    if table is None:
        raise CdcJobFailed("upsert table job: answered without a table. Fix: run the task again.")
    longest = table.max_staleness
    return {
        "table": table.name,
        "location": table.location,
        "stream": table.stream,
        "primary_key": list(table.primary_key),
        "max_staleness": None if longest is None else longest.total_seconds(),
    }


def write_result(written: WriteResult | None) -> dict[str, Any]:
    """The numbers of changes that a write wrote, and the version that holds them.

    :raises CdcJobFailed: the job answered without a result
    """
    if written is None:
        raise CdcJobFailed("write changes job: answered without a result. Fix: run the task again.")
    return asdict(written)


def outcome_result(outcome: Outcome | None) -> dict[str, Any]:
    """Every field of a consumption's outcome.

    :raises CdcJobFailed: the job answered without an outcome
    """
    if outcome is None:
        raise CdcJobFailed("consume job: answered without an outcome. Fix: run the task again.")
    # The result goes through JSON, because XCom would store a tuple as a separate class.
    result: dict[str, Any] = json.loads(to_json(outcome))
    return result
