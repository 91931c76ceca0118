"""How changes get into an upsert table: each is written once, and some are refused."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from upsert_lab import CHANGES, NUMBERED, SALARIES, UpsertLab

from airflow_provider_cdc.engine import (
    InvalidRequest,
)
from airflow_provider_cdc.engine.core.model.lifecycle import Transition
from airflow_provider_cdc.engine.core.upserts.definition import OnBadRows
from airflow_provider_cdc.engine.core.upserts.write_result import WriteResult
from airflow_provider_cdc.engine.spark.session.session_settings import settings
from airflow_provider_cdc.jobs.model import Answer, Request, Task
from airflow_provider_cdc.jobs.run import run
from airflow_provider_cdc.jobs.upsert_tasks import ApplyUpserts, WriteChanges


@pytest.mark.thorough
def test_writes_are_not_skipped_by_a_leftover_session_transaction_id(lab: UpsertLab) -> None:
    left = {
        "spark.databricks.delta.write.txnAppId": "left by another",
        "spark.databricks.delta.write.txnVersion": "1",
    }
    with settings(lab.spark, left):
        lab.write((1, "a", 10, "UPSERT"))
        lab.write((2, "b", 20, "UPSERT"))
        lab.apply()
        lab.write((3, "c", 30, "UPSERT"))
        assert lab.spark.conf.get("spark.databricks.delta.write.txnAppId") == "left by another"

    assert lab.read() == [(1, "a", 10), (2, "b", 20), (3, "c", 30)]


@pytest.mark.thorough
def test_concurrent_writes_and_applies_apply_each_change_once(lab: UpsertLab) -> None:
    """Two writers count up keys of their own, and a third writer counts up one key."""

    def write(first: int) -> None:
        for step in range(1, 6):
            lab.write(*((first + key, f"w{first}", step, "UPSERT") for key in range(5)))

    def write_numbered() -> None:
        for step in range(5):
            lab.write((100, "numbered", step, "UPSERT", f"{step:X}"))

    with ThreadPoolExecutor(3) as pool:
        writers = [pool.submit(write, 0), pool.submit(write, 10), pool.submit(write_numbered)]
        while not all(writer.done() for writer in writers):
            lab.apply()
        for writer in writers:
            writer.result()
    lab.apply()

    assert lab.spark.read.format("delta").load(lab.changes()).count() == 55
    keys = [*range(5), *range(10, 15)]
    assert lab.applied() == sorted(
        [(key, f"w{key // 10 * 10}", 5) for key in keys] + [(100, "numbered", 4)], key=repr
    )
    history = lab.engine.stream_history(lab.engine.describe_upsert_table(lab.table()).stream)
    applied = [record for record in history if record.transition is Transition.COMMITTED]
    counts = [record.stream.last_outcome.streams[0].rows["inserted"] for record in applied]
    assert sum(counts) == 55


def test_repeated_batch_of_a_streaming_query_is_written_once(lab: UpsertLab) -> None:
    sink = lab.engine.change_sink(lab.table(), query="orders")
    other = lab.engine.change_sink(lab.table(), query="refunds")
    batch = lab.frame([(1, "a", 1, "UPSERT")])
    for write, batch_id in ((sink, 0), (sink, 0), (sink, 1), (other, 0), (other, 0)):
        write(batch, batch_id)

    assert lab.spark.read.format("delta").load(lab.changes()).count() == 3


@pytest.mark.thorough
def test_streaming_query_writes_changes(lab: UpsertLab) -> None:
    lab.make("src", CHANGES)
    lab.sql("INSERT INTO {src} VALUES (1, 'a', 1, 'UPSERT'), (2, 'b', 2, 'UPSERT')")
    query = (
        lab.spark.readStream.format("delta")
        .load(lab.path("src"))
        .writeStream.foreachBatch(lab.engine.change_sink(lab.table(), query="src"))
        .option("checkpointLocation", lab.path("checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    lab.apply()

    assert lab.applied() == [(1, "a", 1), (2, "b", 2)]


@pytest.fixture(scope="module")
def untouched(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> UpsertLab:
    """A table that must stay empty, because it refuses each write of the tests."""
    lab = UpsertLab(spark, tmp_path_factory.mktemp("untouched"))
    lab.engine.create_upsert_table(lab.table(), SALARIES, "ID")
    return lab


@pytest.mark.parametrize(
    ("schema", "row", "message"),
    [
        (CHANGES, (1, "a", 1, "INSERT"), "not a valid CHANGE_TYPE"),
        (CHANGES, (1, "a", 1, None), "not a valid CHANGE_TYPE"),
        (CHANGES, (1, "a", 1, "upsert"), "not a valid CHANGE_TYPE"),
        (CHANGES, (None, "a", 1, "DELETE"), "a column of the primary key is NULL"),
        (SALARIES, (1, "a", 1), "lack the column _CHANGE_TYPE"),
        ("Name STRING, _CHANGE_TYPE STRING", ("a", "UPSERT"), "lack the column ID"),
        (f"{CHANGES}, id INT", (1, "a", 1, "UPSERT", 1), "hold a column twice"),
        (f"{CHANGES}, extra INT", (1, "a", 1, "UPSERT", 1), "hold a column extra"),
        (f"{CHANGES}, _cdc_order INT", (1, "a", 1, "UPSERT", 1), "the engine reserves it"),
        ("ID STRING, _CHANGE_TYPE STRING", ("1", "DELETE"), "hold ID as string"),
        ("ID BIGINT, _CHANGE_TYPE STRING", (1, "DELETE"), "hold ID as bigint"),
        (
            f"{CHANGES}, _CHANGE_SEQUENCE_NUMBER BIGINT",
            (1, "a", 1, "UPSERT", 1714475984000),
            "hold _CHANGE_SEQUENCE_NUMBER as bigint",
        ),
        *[
            (NUMBERED, (1, "a", 1, "UPSERT", number), "malformed sequence number")
            for number in ("", "G", "1/", "/1", "1//2", "1/2/3/4/5", "1" * 17, " 1", "1\n", "-1")
        ],
    ],
)
def test_changes_that_do_not_fit_are_refused_and_nothing_is_written(
    untouched: UpsertLab, schema: str, row: tuple[Any, ...], message: str
) -> None:
    good = untouched.frame([(9, "good", 9, "UPSERT")])
    bad = untouched.spark.createDataFrame([row], schema)
    if set(good.columns) == set(bad.columns):
        bad = good.union(bad)
    with pytest.raises(InvalidRequest, match=message) as caught:
        untouched.engine.write_changes(untouched.table(), bad)
    assert "nothing was written" in str(caught.value)
    assert untouched.spark.read.format("delta").load(untouched.changes()).count() == 0


def test_refused_row_is_named_in_the_error(lab: UpsertLab) -> None:
    with pytest.raises(InvalidRequest) as caught:
        lab.write((1, "a", 1, "UPSERT", "1"), (42, "b", 2, "DELETE", "xyz"))
    assert '"ID":42' in str(caught.value)
    assert '"_CHANGE_SEQUENCE_NUMBER":"xyz"' in str(caught.value)


@pytest.mark.thorough
def test_changes_may_have_fewer_and_narrower_columns(lab: UpsertLab) -> None:
    rows = lab.spark.createDataFrame([(1, "UPSERT")], "id SMALLINT, _change_type STRING")
    lab.engine.write_changes(lab.table(), rows)
    lab.apply()

    assert lab.applied() == [(1, None, None)]


def test_jobs_write_once_and_apply(lab: UpsertLab) -> None:
    """The jobs that the operators submit: a repeated write writes nothing."""

    def answer(task: Task) -> Answer:
        state = str(lab.root / "state")
        found = run(Request(uuid.uuid4().hex, state, task), lab.spark)
        assert found.error is None, found.error
        return found

    query = "SELECT 1 AS ID, 'a' AS Name, 2 AS Salary, 'UPSERT' AS _CHANGE_TYPE"
    write = WriteChanges(lab.table(), query, "a-run")
    first = answer(write).written
    assert first == WriteResult(changes=1, bad=0, version=1, is_repeated=False)
    bad = "SELECT * FROM VALUES (2, 'MOVE'), (3, 'UPSERT') AS t(ID, _CHANGE_TYPE)"
    other = WriteChanges(lab.table(), bad, "other", OnBadRows.QUARANTINE)
    assert answer(other).written == WriteResult(changes=2, bad=1, version=2, is_repeated=False)
    assert answer(write).written == replace(first, is_repeated=True)
    assert lab.spark.read.format("delta").load(lab.changes()).count() == 3
    applied = answer(ApplyUpserts(lab.table()))
    assert applied.outcome is not None
    assert lab.applied() == [(1, "a", 2), (3, None, None)]
    assert answer(ApplyUpserts(lab.table())).outcome is None

    for query, problem in (
        ("SELECT 1 AS ID, 'MOVE' AS _CHANGE_TYPE", "hold a row with an invalid _CHANGE_TYPE"),
        (f"INSERT INTO delta.`{lab.table()}` (ID) VALUES (7)", "is not a query"),
    ):
        bad = WriteChanges(lab.table(), query, "b")
        request = Request(uuid.uuid4().hex, str(lab.root / "state"), bad)
        error = run(request, lab.spark).error
        assert error is not None
        assert not error.retryable
        assert problem in error.message
    assert lab.applied() == [(1, "a", 2), (3, None, None)]
