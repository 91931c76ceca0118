"""Tables for the tests of the engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import quick_restore
from oracle import FILES, MakeTable, SourceTable
from pyspark.sql import SparkSession
from table_copies import TEMPLATES

from airflow_provider_cdc.engine.clock import utc_now
from airflow_provider_cdc.engine.spark.change_sets import table_changes_reader
from airflow_provider_cdc.engine.spark.consumption.statement_writer import SparkWriter
from airflow_provider_cdc.engine.storage.files.scratch import Scratch

TRACKED = "'delta.enableRowTracking' = 'true'"


@pytest.fixture(autouse=True)
def _quick_restore(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo plain tables by delta-rs. Other tables, and all tests of faults, undo by Spark."""
    monkeypatch.setattr(SparkWriter, "restore", quick_restore.restore)


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    return Scratch(str(tmp_path / "state ü"), FILES, utc_now)


@pytest.fixture
def make_table(
    spark: SparkSession, tmp_path: Path, scratch: Scratch, monkeypatch: pytest.MonkeyPatch
) -> MakeTable:
    """Makes a tracked Delta table at a path with a space and an umlaut in it.

    ``columns`` is the list of columns in SQL. ``clause`` is what follows it (PARTITIONED BY ...).
    ``writes`` are statements on ``{t}`` that run after ``values`` are inserted. Change sets of a
    table without deletion vectors read the row ids first, as those of large tables do.
    """

    def make(
        columns: str = "id INT, v STRING",
        *values: str,
        vectors: bool = True,
        clause: str = "",
        properties: str = "",
        folder: str = "täble 1",
        writes: tuple[str, ...] = (),
    ) -> SourceTable:
        if not vectors:
            monkeypatch.setattr(table_changes_reader, "MANY_REWRITTEN_ROWS", 0)
        table = SourceTable(spark, str(tmp_path / folder), scratch)
        vector_setting = f"'delta.enableDeletionVectors' = '{str(vectors).lower()}'"
        settings = ", ".join(filter(None, (TRACKED, vector_setting, properties)))

        def create(place: Path) -> None:
            made = replace(table, location=str(place))
            made.sql(
                f"CREATE TABLE {{t}} ({columns}) USING delta {clause} TBLPROPERTIES ({settings})"
            )
            if values:
                # With all rows in one file, a change of one row carries the others over.
                rows = ", ".join(f"({row})" for row in values)
                made.sql(f"INSERT INTO {{t}} SELECT /*+ COALESCE(1) */ * FROM VALUES {rows}")
            made.sql(*writes)

        what = columns, values, clause, settings, writes
        TEMPLATES.make(spark, Path(table.location), what, create)
        return table

    return make
