"""Streams as the registry stores them, and commits, for tests that need no table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow_provider_cdc.engine.core.consumption.source_notes import TakenVersions, noted
from airflow_provider_cdc.engine.core.delta.log_actions import Commit
from airflow_provider_cdc.engine.core.model.lifecycle import Transition
from airflow_provider_cdc.engine.core.model.sources import Base, Offset, Source
from airflow_provider_cdc.engine.core.model.stream import (
    AppendSemantics,
    ColumnStyle,
    Phase,
    Stream,
    StreamMode,
)
from airflow_provider_cdc.engine.storage.delta.delta_log import DeltaLog
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.registry.registry import Registry
from airflow_provider_cdc.engine.storage.registry.registry_snapshot import Change

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

NO_COLUMNS = '{"type": "struct", "fields": []}'


def new_offset(version: int = 0, metadata: Mapping[str, Any] | None = None) -> Offset:
    return Offset(version, "f" * 64, NOON, metadata or {}, {}, -1)


def new_stream(name: str = "s", **fields: Any) -> Stream:
    """An idle standard stream; ``fields`` are those of :class:`Stream` that a test sets."""
    values: dict[str, Any] = {
        "stream_id": f"id of {name}",
        "sequence": 0,
        "phase": Phase.IDLE,
        "source": Source("flights", "/data/flights", "a-table-id"),
        "mode": StreamMode.STANDARD,
        "append_semantics": AppendSemantics.INSERTED,
        "column_style": ColumnStyle.SNOWFLAKE,
        "offset": new_offset(),
        "created_at": NOON,
        "owner": "somebody",
    }
    given = values | fields
    bases = (Base(given.pop("source"), given.pop("offset")),)
    return Stream(name=name, **{"bases": bases} | given)


def register(state: Path, stream: Stream) -> Stream:
    """Write ``stream`` to the registry of a state folder."""
    registry = Registry(str(state))
    changes = [Change(stream, Transition.CREATED)]
    (registered,) = registry.transact(registry.snapshot(), changes, actor="tests")
    return registered


def quiet_stream(state: Path, table: Path, name: str, moment: datetime = NOON) -> Stream:
    """Register a stream at the only commit of a table; :func:`add_file` gives it data."""
    add_file(table, 0, moment, data_change=False)
    source = Source(f"lake.{name}", str(table), "a-table-id")
    return register(
        state, new_stream(name, source=source, offset=offset_at(table, 0), created_at=moment)
    )


def offset_at(table: Path, version: int) -> Offset:
    """The offset at a commit that :func:`add_file` made."""
    metadata = {
        "id": "a-table-id",
        "schemaString": NO_COLUMNS,
        "configuration": {"delta.enableRowTracking": "true"},
    }
    commit = DeltaLog(str(table), Files()).commit(version)
    return replace(new_offset(version, metadata), fingerprint=commit.fingerprint)


def add_file(
    table: Path,
    version: int,
    moment: datetime,
    size: int = 1,
    *,
    data_change: bool = True,
    rows: int | None = None,
    taken: Sequence[TakenVersions] = (),
) -> None:
    """Commit a file that no test reads to the log of a table, which is created if it is missing.

    :param rows: the number of rows by its statistics; ``None``: it has none
    :param taken: a statement of a consumption that took this commits the file
    """
    file = {
        "path": f"f{version}",
        "size": size,
        "dataChange": data_change,
        "stats": None if rows is None else json.dumps({"numRecords": rows}),
        "baseRowId": 0,
        # Without data change, rows keep their earlier commit version.
        "defaultRowCommitVersion": version if data_change else version - 1,
    }
    info = {"timestamp": int(moment.timestamp() * 1000), "userMetadata": noted(None, taken)}
    actions: list[dict[str, Any]] = [{"commitInfo": info}, {"add": file}]
    if taken:
        actions.append({"txn": {"appId": f"cdc/c{version}/0/0", "version": 1}})
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    (log / f"{version:020d}.json").write_text("\n".join(map(json.dumps, actions)), "utf-8")


def new_commit(version: int, operation: str = "WRITE", **fields: Any) -> Commit:
    """A commit without actions; ``fields`` are those of :class:`Commit` that a test sets."""
    values: dict[str, Any] = {
        "timestamp": NOON,
        "fingerprint": f"f{version}",
        "operation_parameters": {},
        "operation_metrics": {},
        "user_metadata": None,
        "adds": (),
        "removes": (),
        "metadata": None,
        "protocol": None,
        "row_id_high_water_mark": None,
        "transactions": {},
    }
    return Commit(version=version, operation=operation, **values | fields)


def delta_row_id(text: str) -> int:
    """Delta's row id from that of a change set: sixteen lower-case digits, the first of them 1."""
    assert len(text) == 16, text
    assert text[0] == "1", text
    assert text == text.lower(), text
    return int(text[1:], 16)
