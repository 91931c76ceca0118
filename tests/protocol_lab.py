"""Streams, sources and targets without Spark, for tests of the consumption protocol."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
from delta_rs import DUCKDB, DeltaRsWriter, PathTables, RowDifferences, Views, rows_after, target_of
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from sqlglot import parse_one
from stream_lab import StreamLab
from streams import new_stream, register

from airflow_provider_cdc.engine import Engine, Strategy
from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.clock import utc_now
from airflow_provider_cdc.engine.consumption.attempts import ConsumptionServices
from airflow_provider_cdc.engine.consumption.planning import Planner
from airflow_provider_cdc.engine.consumption.resolution import Resolution
from airflow_provider_cdc.engine.consumption.targets import Targets
from airflow_provider_cdc.engine.core.model.sources import Source
from airflow_provider_cdc.engine.core.progress import Listener
from airflow_provider_cdc.engine.spark.consumption.stream_consumption import StreamConsumption
from airflow_provider_cdc.engine.spark.reading.stream_reading import StreamReading
from airflow_provider_cdc.engine.spark.streams.administration import StreamAdministration
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.registry.consumptions import Consumptions
from airflow_provider_cdc.engine.storage.registry.registry import Registry
from airflow_provider_cdc.engine.storage.sources.source_log import SourceLog

_FEATURES = ["rowTracking", "domainMetadata", "appendOnly", "invariants"]
_NO_SESSION = cast(SparkSession, None)


class ProtocolEngine(Engine):
    """An engine that can consume, but has no session of Spark."""

    def __init__(self, state: str, writer: DeltaRsWriter, listener: Listener | None) -> None:
        files, registry = Files(), Registry(state)
        catalog, sources = StreamCatalog(state), SourceLog(files)
        consumptions, targets = Consumptions(registry, utc_now), Targets(writer, files)
        reports: Listener = listener or (lambda _: None)
        services = ConsumptionServices(
            registry=registry,
            consumptions=consumptions,
            sources=sources,
            change_sets=RowDifferences(writer.views),
            planner=Planner(PathTables(), targets),
            targets=targets,
            resolution=Resolution(consumptions, writer, files, reports),
            listener=reports,
            principal=catalog.principal,
        )
        self._parts: Any = SimpleNamespace(catalog=catalog, sources=sources, consumption=services)
        none: Any = None
        self._services: Any = SimpleNamespace(
            administration=StreamAdministration(none, catalog, *[none] * 5),
            reading=StreamReading(catalog, sources, *[none] * 4),
            consumption=StreamConsumption(none, catalog, services, none, none, none, none),
        )


@dataclass(eq=False)
class ProtocolLab(StreamLab):
    """A :class:`StreamLab` whose statements DuckDB runs and delta-rs commits."""

    spark: SparkSession = field(default=_NO_SESSION)
    root: Path = field(default_factory=Path)
    writer: DeltaRsWriter = field(default_factory=lambda: DeltaRsWriter(Views()))

    def new_engine(self, listener: Any = None, strategy: Strategy | None = None) -> Engine:
        return ProtocolEngine(str(self.root / "state"), self.writer, listener)

    def make(self, table: str, columns: str, *statements: str, **_: str) -> None:
        DeltaTable.create(self.path(table), _no_rows(columns).schema)
        self.sql(*(text.replace("{t}", f"{{{table}}}") for text in statements))

    def make_source(self, table: str, columns: str) -> None:
        """Make a table with row tracking, which delta-rs reads but does not write."""
        commit_rows(Path(self.path(table)), _no_rows(columns))

    def create_stream(self, name: str, table: str) -> None:
        """Register a stream at the newest version of a source."""
        offset = self.engine._parts.sources.newest_offset(self.path(table))
        source = Source(self.name(table), self.path(table), offset.table_id)
        owner = self.engine._parts.catalog.principal
        stream = new_stream(name, source=source, offset=offset, created_at=utc_now(), owner=owner)
        register(self.root / "state", stream)

    def sql(self, *statements: str) -> None:
        for text in map(self.text, statements):
            tree = parse_one(text, dialect="spark")
            folder = Path(target_of(tree).name)
            if DeltaTable(folder).protocol().min_writer_version < 7:
                self.writer.execute(text)
            else:
                held = DeltaTable(folder).to_pyarrow_table()
                with DUCKDB.cursor() as db:
                    commit_rows(folder, rows_after(db, tree, held, Views()))

    @contextmanager
    def lenient_casts(self) -> Iterator[None]:
        self.writer.is_ansi = False
        try:
            yield
        finally:
            self.writer.is_ansi = True


def _no_rows(columns: str) -> pa.Table:
    with DUCKDB.cursor() as db:
        db.execute(f"CREATE TEMP TABLE made ({columns})")
        return db.sql("FROM made").to_arrow_table()


def commit_rows(folder: Path, rows: pa.Table) -> None:
    """Commit a version of a table with row tracking in which one file holds all ``rows``."""
    log = folder / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    version = len(list(log.glob("*.json")))
    milliseconds = int(time.time() * 1000)
    actions: list[dict[str, Any]] = [{"commitInfo": {"timestamp": milliseconds, "operation": "W"}}]
    if version == 0:
        actions += _creation(rows.schema)
    else:
        old = DeltaTable(folder).get_add_actions()["path"].to_pylist()
        actions += [
            {"remove": {"path": path, "deletionTimestamp": milliseconds, "dataChange": True}}
            for path in old
        ]
    if rows.num_rows:
        name = f"part-{uuid.uuid4()}.parquet"
        pq.write_table(rows, folder / name)
        file = {
            "path": name,
            "partitionValues": {},
            "size": (folder / name).stat().st_size,
            "modificationTime": milliseconds,
            "dataChange": True,
            "stats": json.dumps({"numRecords": rows.num_rows}),
            "baseRowId": version * 1000,
            "defaultRowCommitVersion": version,
        }
        mark = json.dumps({"rowIdHighWaterMark": version * 1000 + rows.num_rows})
        domain = {"domain": "delta.rowTracking", "configuration": mark, "removed": False}
        actions += [{"add": file}, {"domainMetadata": domain}]
    text = "\n".join(map(json.dumps, actions))
    (log / f"{version:020d}.json").write_text(text, encoding="utf-8")


def _creation(schema: pa.Schema) -> list[dict[str, Any]]:
    fields = [
        {"name": each.name, "type": kind, "nullable": True, "metadata": {}}
        for each, kind in ((each, _KINDS[str(each.type)]) for each in schema)
    ]
    metadata = {
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {
            "delta.enableRowTracking": "true",
            "delta.rowTracking.materializedRowIdColumnName": "_row-id-col",
            "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-version-col",
        },
        "createdTime": int(time.time() * 1000),
    }
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": _FEATURES}
    return [{"protocol": protocol}, {"metaData": metadata}]


_KINDS = {"int32": "integer", "int64": "long", "string": "string"}
