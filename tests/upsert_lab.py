"""An upsert table for tests, and a clock that tests set."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession
from stream_lab import StreamLab
from streams import register
from table_copies import TEMPLATES

from airflow_provider_cdc.engine import Engine
from airflow_provider_cdc.engine.core.model.json_text import from_json, to_json
from airflow_provider_cdc.engine.core.model.stream import Stream
from airflow_provider_cdc.engine.spark.upserts.changes_stream import create_changes_stream
from airflow_provider_cdc.engine.storage.registry.registry import Registry

SALARIES = "ID INT, Name STRING, Salary INT"
CHANGES = f"{SALARIES}, _CHANGE_TYPE STRING"
NUMBERED = f"{CHANGES}, _CHANGE_SEQUENCE_NUMBER STRING"
PARTIAL = f"{NUMBERED}, _CHANGE_UNCHANGED ARRAY<STRING>"


class UpsertLab(StreamLab):
    """An upsert table ``t`` of ids, names and salaries."""

    @classmethod
    def created(
        cls,
        spark: SparkSession,
        root: Path,
        fill: Callable[[SparkSession, str], None] | None = None,
        **options: Any,
    ) -> Self:
        """A lab with its table.

        :param fill: writes into the base at a path, by a session
        :param options: those of ``create_upsert_table``
        """
        lab = cls(spark, root)

        def create(place: Path) -> None:
            engine = Engine(spark, str(place.with_name("state")))
            engine.create_upsert_table(str(place), SALARIES, "ID", **options)
            if fill is not None:
                fill(spark, str(place))

        what = "upsert table", fill, *sorted(options.items())
        TEMPLATES.make(spark, Path(lab.table()), what, create)
        create_changes_stream(
            lab.engine._parts.creation, lab.engine._parts.upsert_tables.get(lab.table())
        )
        return lab

    def copy(self, root: Path) -> Self:
        """A lab with a copy of the table and of its stream, in a folder of its own."""
        lab = type(self)(self.spark, root)
        shutil.copytree(self.table(), lab.table())
        for stream in Registry(str(self.root / "state")).snapshot().streams():
            text = to_json(stream).replace(str(self.root), str(root))
            register(root / "state", replace(from_json(text, Stream), sequence=0))
        return lab

    def table(self) -> str:
        return self.path("t")

    def changes(self) -> str:
        return f"{self.table()}/_cdc/changes"

    def write(self, *rows: tuple[Any, ...], engine: Engine | None = None) -> None:
        (engine or self.engine).write_changes(self.table(), self.frame(rows))

    def frame(self, rows: Any) -> DataFrame:
        rows = list(rows)
        schema = {5: NUMBERED, 6: PARTIAL}.get(len(rows[0]), CHANGES) if rows else CHANGES
        return self.spark.createDataFrame(rows, schema)

    def apply(self, engine: Engine | None = None) -> Any:
        return (engine or self.engine).apply_upserts(self.table())

    def send_in_batches(self, changes: list[tuple[Any, ...]], chance: Random, least: int) -> None:
        """Write ``changes`` in batches of ``least`` to 29, apply after some of them and at the end,
        and check that each apply gives the rows that a read showed before it.
        """
        while changes:
            size = chance.randrange(least, 30)
            batch, changes = changes[:size], changes[size:]
            self.write(*batch)
            if chance.random() < 0.6:
                pending = self.read()
                self.apply()
                assert self.applied() == pending
        self.apply()

    def read(self, engine: Engine | None = None) -> list[tuple[Any, ...]]:
        rows = (engine or self.engine).read_upsert_table(self.table()).collect()
        return sorted(map(tuple, rows), key=repr)

    def applied(self) -> list[tuple[Any, ...]]:
        """The rows that a reader of the base alone gets."""
        base = self.spark.read.format("delta").load(self.table())
        rows = base.where("_cdc.deleted_at IS NULL").drop("_cdc").collect()
        return sorted(map(tuple, rows), key=repr)


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.now
