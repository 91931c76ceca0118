"""How much of a base is read to apply changes, and what is told of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from upsert_lab import Clock, UpsertLab

from airflow_provider_cdc.engine import Engine
from airflow_provider_cdc.engine.core.upserts.jobs import JobClass
from airflow_provider_cdc.engine.core.upserts.pruning import Interval, Intervals
from airflow_provider_cdc.engine.spark.upserts import pruning
from airflow_provider_cdc.engine.spark.upserts.pruning import BaseShare, Pruning
from airflow_provider_cdc.jobs.metering import slot_meter


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> UpsertLab:
    """A base of four files, of keys 0 to 9, 10 to 19, 20 to 29 and 30 to 39."""
    monkeypatch.setattr(pruning, "WORTH_BYTES", 0)
    lab = UpsertLab(spark, tmp_path)
    lab.engine.create_upsert_table(lab.table(), "ID INT, Name STRING, Salary INT", "ID")
    spark.range(0, 40, 1, numPartitions=4).selectExpr(
        "CAST(id AS INT) AS ID",
        "concat('v', id) AS Name",
        "CAST(id AS INT) AS Salary",
        "named_struct('sequence', repeat('0', 16), 'deleted_at', CAST(NULL AS TIMESTAMP)) AS _cdc",
    ).write.format("delta").mode("append").save(lab.table())
    return lab


def shares(outcome: Any) -> tuple[int, int]:
    metrics = outcome.statements[-1].metrics
    return metrics["baseBytesRead"], metrics["baseBytes"]


def test_files_without_a_key_of_a_change_are_not_read(lab: UpsertLab) -> None:
    lab.write((12, "new", 1, "UPSERT", "2"), (15, None, None, "DELETE", "2"))
    lab.write((99, "added", 99, "UPSERT", "2"))
    expected = lab.read()

    # The file of the first ten keys cannot be read at all.
    (damaged,) = lab.spark.sql(
        f"SELECT DISTINCT _metadata.file_path FROM delta.`{lab.table()}` WHERE ID = 5"
    ).collect()
    file = Path(damaged[0].removeprefix("file:"))
    content = file.read_bytes()
    file.write_bytes(b"damaged")

    read, whole = shares(lab.apply())

    assert 0 < read < whole
    file.write_bytes(content)
    assert lab.applied() == expected
    found = {row[0]: row[2] for row in expected}
    assert (found[12], found[99], 15 in found, len(found)) == (1, 99, False, 40)


def test_braces_in_keys_are_text(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "WORTH_BYTES", 0)
    lab = UpsertLab(spark, tmp_path)
    schema = "`k'ü` STRING, v INT"
    lab.engine.create_upsert_table(lab.table(), schema, "k'ü")
    given = f"{schema}, _CHANGE_TYPE STRING"

    def write(*keys: str) -> None:
        rows = [(key, number, "UPSERT") for number, key in enumerate(keys)]
        lab.engine.write_changes(lab.table(), spark.createDataFrame(rows, given))

    for keys in (("a}b", "a{0}"), ("{550e8400}", "{z"), ("ü{", "ü}")):
        write(*keys)
        lab.apply()
    write("a}b", "new {key}")
    expected = lab.read()
    read, whole = shares(lab.apply())

    assert 0 < read < whole
    assert lab.applied() == expected
    assert len(expected) == 7


def test_base_is_read_whole_where_changes_are_everywhere(lab: UpsertLab) -> None:
    lab.write(*((key, "new", 0, "UPSERT", "2") for key in range(0, 40, 5)))
    expected = lab.read()

    read, whole = shares(lab.apply())

    assert read == whole
    assert lab.applied() == expected


def test_change_that_came_after_the_look_is_applied_all_the_same(
    lab: UpsertLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = Intervals("ID", "int", (Interval(10, 19, 50), Interval(30, 39, 50)))
    monkeypatch.setattr(Pruning, "share", lambda *_: BaseShare(200, 100, wrong))
    lab.write((12, "new", 1, "UPSERT", "2"), (25, "new", 2, "UPSERT", "2"))
    expected = lab.read()

    read, whole = shares(lab.apply())

    assert read == whole
    assert lab.applied() == expected
    assert len(expected) == 40


def test_jobs_are_recorded_by_their_class(lab: UpsertLab, spark: SparkSession) -> None:
    clock = Clock()
    engine = Engine(spark, str(lab.root / "state"), clock=clock, slot_meter=slot_meter(spark))
    engine.alter_upsert_table(lab.table(), max_staleness="PT10M")
    lab.write((1, "new", 1, "UPSERT", "2"))
    since = engine.describe_upsert_table(lab.table()).pending_since
    assert since is not None
    clock.now = since

    assert engine.query_table(lab.table(), lambda rows: rows.count()) == 40
    engine.alter_upsert_table(lab.table(), max_staleness=None)
    assert engine.query_table(lab.table(), lambda rows: rows.where("ID = 1").first()["Salary"]) == 1
    engine.apply_upserts(lab.table())

    jobs = lab.spark.read.format("delta").load(str(lab.root / "state" / "upsert_jobs"))
    lately = jobs.where("slot_ms IS NOT NULL").collect()
    found = {row["job_class"]: row for row in lately}
    assert set(found) == {job_class.value for job_class in JobClass}
    assert [found[each.value]["rows"] for each in JobClass] == [1, 0, 1]
    assert all(row["slot_ms"] > 0 and row["read_bytes"] > 0 for row in lately)
    usage = {each.job_class: each for each in engine.upsert_usage()}
    assert {each.jobs for each in usage.values()} == {1}
    assert usage[JobClass.BACKGROUND_APPLY].slots > 0


def test_query_that_fails_is_no_job(lab: UpsertLab) -> None:
    before = len(lab.engine.upsert_usage())

    def fail(_: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        lab.engine.query_table(lab.table(), fail)
    assert len(lab.engine.upsert_usage()) == before
