"""The exact check whether a stream has data: what it reads, and what the log answers alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from stream_lab import StreamLab

TRACKED = "'delta.enableRowTracking' = 'true'"


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> StreamLab:
    lab = StreamLab(spark, tmp_path)
    lab.make("src", "id INT, v STRING", properties=TRACKED)
    lab.sql("INSERT INTO {src} VALUES (0, 'z')")
    lab.engine.create_stream("s", on_table=lab.path("src"))
    return lab


def jobs_of(spark: SparkSession, work: Callable[[], bool]) -> tuple[bool, int]:
    """The answer of ``work``, and how many Spark jobs ran for it."""
    group = "exact check"
    context = spark.sparkContext
    context.setJobGroup(group, "an exact check")
    try:
        answer = work()
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    return answer, len(context.statusTracker().getJobIdsForGroup(group))


def test_exact_check_of_inserts_runs_no_job(lab: StreamLab) -> None:
    lab.sql("INSERT INTO {src} VALUES (1, 'a')", "INSERT INTO {src} VALUES (2, 'b')")
    assert jobs_of(lab.spark, lambda: lab.engine.stream_has_data("s")) == (True, 0)


def test_exact_check_of_an_update_reads_the_rows(lab: StreamLab) -> None:
    lab.sql("UPDATE {src} SET v = v")
    answer, jobs = jobs_of(lab.spark, lambda: lab.engine.stream_has_data("s"))
    assert not answer
    assert jobs > 0


def test_status_counts_rows_as_a_read_does_without_reading(lab: StreamLab) -> None:
    steps = (
        ("INSERT INTO {src} VALUES (1, 'a'), (2, 'b'), (3, 'c')", 3),
        ("ALTER TABLE {src} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')", 3),
        ("DELETE FROM {src} WHERE id = 1", 2),
        ("UPDATE {src} SET v = 'x' WHERE id = 0", None),
    )
    for statement, rows in steps:
        lab.sql(statement)
        status = lab.engine.describe_stream("s")
        assert status.rows_waiting == rows
        assert status.has_data is not False
        assert rows in (None, len(lab.changes("s")))
    lab.engine.advance_stream("s")
    lab.sql("DELETE FROM {src} WHERE id = 2")
    status = lab.engine.describe_stream("s")
    assert (status.rows_waiting, status.has_data) == (1, True)
    assert lab.engine.show_streams().select("rows_waiting", "has_data").collect() == [(1, True)]
