"""Exporting changes as the job of an operator does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from stream_lab import StreamLab

from airflow_provider_cdc.jobs.model import (
    Answer,
    ExportChanges,
    ExportFormat,
    ExportMode,
    JobKind,
    Request,
)
from airflow_provider_cdc.jobs.run import run


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> StreamLab:
    lab = StreamLab(spark, tmp_path)
    lab.make("src", "id INT, v STRING", properties="'delta.enableRowTracking' = 'true'")
    lab.sql("INSERT INTO {src} VALUES (1, 'a')", "UPDATE {src} SET v = 'b'")
    return lab


def export(lab: StreamLab, target: str, export_id: str = "run 1", **fields: Any) -> Answer:
    task = ExportChanges(lab.path("src"), target, export_id, **{"at": {"version": 0}} | fields)
    state = str(lab.root / "state")
    return run(Request("r", state, JobKind.EXPORT_CHANGES, export_changes=task), lab.spark)


def test_export_that_is_repeated_overwrites_what_it_wrote(lab: StreamLab) -> None:
    for version in (1, 2, 2):
        assert export(lab, lab.path("out"), end={"version": version}).error is None
    assert [row[:4] for row in lab.rows("out")] == [(1, "b", "INSERT", False)]


def test_append_lands_once_for_each_run(lab: StreamLab) -> None:
    for run_id in ("run 1", "run 1", "run 2"):
        assert export(lab, lab.path("out"), run_id, mode=ExportMode.APPEND).error is None
    assert [row[0] for row in lab.rows("out")] == [1, 1]


def test_export_to_a_name_creates_its_table_and_to_files_a_folder(lab: StreamLab) -> None:
    lab.sql("DROP TABLE IF EXISTS exported")
    assert export(lab, "exported", mode=ExportMode.ERROR).error is None
    assert lab.spark.table("exported").count() == 1
    again = export(lab, "exported", mode=ExportMode.ERROR).error
    assert again is not None
    assert "table that exists" in again.message
    lab.sql("DROP TABLE exported")

    folder = str(lab.root / "files")
    assert export(lab, folder, format=ExportFormat.JSON).error is None
    (row,) = lab.spark.read.json(folder).collect()
    assert (row["id"], row["v"], row["METADATA$ACTION"]) == (1, "b", "INSERT")
