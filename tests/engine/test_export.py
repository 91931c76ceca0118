"""Exporting changes as the job of an operator does."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from stream_lab import StreamLab

from airflow_provider_cdc.engine.spark.session.session_settings import settings
from airflow_provider_cdc.jobs.model import (
    Answer,
    ExportChanges,
    ExportFormat,
    ExportMode,
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
    given: dict[str, Any] = {"name": lab.path("src"), "at": {"version": 0}} | fields
    task = ExportChanges(target=target, export_id=export_id, **given)
    state = str(lab.root / "state")
    return run(Request("r", state, task, wants_lineage=True), lab.spark)


@pytest.mark.thorough
def test_export_that_is_repeated_overwrites_what_it_wrote(lab: StreamLab) -> None:
    for version in (1, 2, 2):
        assert export(lab, lab.path("out"), end={"version": version}).error is None
    assert [row[:4] for row in lab.rows("out")] == [(1, "b", "INSERT", False)]


@pytest.mark.thorough
def test_overwrite_by_an_export_removes_all_previous_rows(lab: StreamLab) -> None:
    metadata = "`METADATA$ACTION` STRING, `METADATA$ISUPDATE` BOOLEAN, `METADATA$ROW_ID` STRING"
    lab.make("out", f"id INT, v STRING, {metadata}", clause="PARTITIONED BY (v)")
    lab.sql("INSERT INTO {out} VALUES (7, 'replaced', 'INSERT', false, 'x')")
    left = {
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
        "spark.databricks.delta.write.txnAppId": "left by another",
        "spark.databricks.delta.write.txnVersion": "1",
    }
    with settings(lab.spark, left):
        for _ in range(2):
            assert export(lab, lab.path("out")).error is None
    assert {row[0] for row in lab.rows("out")} == {1}


def test_export_stores_fields_by_their_names_or_is_refused(lab: StreamLab) -> None:
    metadata = "`METADATA$ACTION` STRING, `METADATA$ISUPDATE` BOOLEAN, `METADATA$ROW_ID` STRING"
    tracked = "'delta.enableRowTracking' = 'true'"
    lab.make("places", "id INT, p STRUCT<street: STRING, city: STRING>", properties=tracked)
    lab.sql("INSERT INTO {places} VALUES (1, struct('a', 'b'))")
    lab.make("out", f"id INT, p STRUCT<city: STRING, street: STRING>, {metadata}")
    lab.make("less", f"id INT, p STRUCT<city: STRING>, {metadata}")
    given = {"name": lab.path("places"), "mode": ExportMode.APPEND}

    assert export(lab, lab.path("out"), **given).error is None
    assert [row[1].asDict() for row in lab.rows("out")] == [{"city": "b", "street": "a"}]
    refused = export(lab, lab.path("less"), **given).error
    assert refused is not None
    assert "found street too" in refused.message
    assert lab.rows("less") == []


@pytest.mark.thorough
def test_append_is_written_once_for_each_run(lab: StreamLab) -> None:
    for run_id in ("run 1", "run 1", "run 2"):
        assert export(lab, lab.path("out"), run_id, mode=ExportMode.APPEND).error is None
    assert [row[0] for row in lab.rows("out")] == [1, 1]


def test_export_creates_a_table_for_a_name_and_a_folder_for_files(lab: StreamLab) -> None:
    lab.sql("DROP TABLE IF EXISTS exported")
    created = export(lab, "exported", mode=ExportMode.ERROR)
    assert created.error is None
    assert lab.spark.table("exported").count() == 1
    place = created.lineage.target
    assert (created.lineage.source, created.lineage.target_version) == (lab.path("src"), 1)
    assert created.lineage.tables == {
        lab.path("src"): ("id", "v"),
        place: ("id", "v", "METADATA$ACTION", "METADATA$ISUPDATE", "METADATA$ROW_ID"),
    }
    assert place.endswith("/exported")
    again = export(lab, "exported", "run 2", mode=ExportMode.ERROR).error
    assert again is not None
    assert "table that exists" in again.message
    lab.sql("DROP TABLE exported")

    folder = str(lab.root / "files")
    written = export(lab, folder, format=ExportFormat.JSON)
    assert written.error is None
    assert (written.lineage.target, written.lineage.target_version) == (folder, None)
    (row,) = lab.spark.read.json(folder).collect()
    assert (row["id"], row["v"], row["METADATA$ACTION"]) == (1, "b", "INSERT")


@pytest.mark.in_ci("out")
@pytest.mark.parametrize("target", ["exported", "out"])
def test_killed_export_to_a_new_table_is_finished_by_its_retry(
    lab: StreamLab, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.sql("DROP TABLE IF EXISTS exported")
    target = target if target == "exported" else lab.path(target)
    name = target if target == "exported" else f"delta.`{target}`"

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("airflow_provider_cdc.jobs.export.idempotent_write", killed)
        with pytest.raises(KeyboardInterrupt):
            export(lab, target, mode=ExportMode.ERROR)
    assert lab.spark.table(name).count() == 0

    other = export(lab, target, "run 2", mode=ExportMode.ERROR).error
    assert other is not None
    assert "table that exists" in other.message
    for _ in range(2):
        assert export(lab, target, mode=ExportMode.ERROR).error is None
        assert lab.spark.table(name).count() == 1
    lab.sql("DROP TABLE IF EXISTS exported")


@pytest.mark.thorough
def test_exports_of_intervals_before_the_first_commit_have_each_row_once(
    lab: StreamLab,
) -> None:
    first, last = (lab.committed_at("src", version) for version in (0, 2))
    times = [first - timedelta(days=2), first - timedelta(days=1), first, last]
    for number, (start, end) in enumerate(pairwise(map(datetime.isoformat, times))):
        interval = {"at": {"timestamp": start}, "end": {"timestamp": end}}
        answer = export(lab, lab.path("out"), f"run {number}", mode=ExportMode.APPEND, **interval)
        assert answer.error is None
    assert [row[:4] for row in lab.rows("out")] == [(1, "b", "INSERT", False)]


def test_export_from_version_0_includes_the_rows_of_version_0(lab: StreamLab) -> None:
    lab.sql(
        "CREATE TABLE {made} USING delta TBLPROPERTIES ('delta.enableRowTracking' = 'true')"
        " AS SELECT 7 AS id, 'z' AS v"
    )
    before = {"at": None, "before": {"version": "0"}, "end": {"version": 0}}
    assert export(lab, lab.path("out"), name=lab.path("made"), **before).error is None
    assert [row[:4] for row in lab.rows("out")] == [(7, "z", "INSERT", False)]
