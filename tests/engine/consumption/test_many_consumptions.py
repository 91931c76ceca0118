"""A job that runs many consumptions at once, each on a session of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Barrier

import pytest
import scenes
from pyspark.sql import DataFrame
from stream_lab import Crash, CrashAt, StreamLab
from table_copies import copy_later_commits, copy_tables

from airflow_provider_cdc.engine import ProtocolPoint, Transaction
from airflow_provider_cdc.jobs.model import Answer, ConsumeStream, ConsumeStreams, Request
from airflow_provider_cdc.jobs.run import run

STREAMS = 4
PATIENCE_SECONDS = 60
INTO_OWN = "INSERT INTO {{{0}/log}} SELECT id, v, METADATA$ACTION FROM s{0}"
INTO_ONE = """
    MERGE INTO {{0/log}} t USING (SELECT id, v, METADATA$ACTION AS action FROM s{0}) c
    ON t.id = 10 * {0} + c.id
    WHEN MATCHED THEN UPDATE SET v = c.v
    WHEN NOT MATCHED THEN INSERT (id, v, action) VALUES (10 * {0} + c.id, c.v, c.action)
"""
FAILS = "INSERT INTO {log} SELECT raise_error('no rate'), v, METADATA$ACTION FROM s"
# Where the functions of one job meet, which a test sets.
MEETING: list[Barrier] = []


def answer(lab: StreamLab, *tasks: ConsumeStream, parallelism: int = STREAMS) -> Answer:
    task = ConsumeStreams(tasks, parallelism)
    request = Request("0" * 32, str(lab.root / "state"), task, wants_lineage=True)
    return run(request, lab.spark)


def by_sql(lab: StreamLab, stream: str, *statements: str) -> ConsumeStream:
    texts = tuple(map(lab.text, statements))
    return ConsumeStream(texts, f"d/t/{stream}", streams=(stream,))


def inserted(found: Answer) -> list[int]:
    assert [each.error for each in found.consumptions] == [None] * len(found.consumptions)
    return [each.outcome.streams[0].rows["inserted"] for each in found.consumptions]


@pytest.fixture
def many(template: StreamLab, tmp_path: Path) -> StreamLab:
    """Streams ``s0`` to ``s3``, each on a table of its own with two rows to consume, and as many
    empty targets.
    """
    lab = StreamLab(template.spark, tmp_path)
    for number in range(STREAMS):
        root = tmp_path / str(number)
        copy_tables(template.root, root, {"src": 0, "log": 0})
        lab.engine.create_stream(f"s{number}", on_table=str(root / "src"))
        copy_later_commits(template.root, root, "src", 1)
    return lab


def test_each_of_many_consumptions_applies_its_changes_once(many: StreamLab) -> None:
    tasks = [
        by_sql(many, f"s{number}", INTO_OWN.format(number)) for number in reversed(range(STREAMS))
    ]

    first, again = answer(many, *tasks, parallelism=2), answer(many, *tasks)

    assert (inserted(first), inserted(again)) == ([2] * STREAMS, [0] * STREAMS)
    assert [each.consumer for each in first.consumptions] == [each.consumer for each in tasks]
    for number in range(STREAMS):
        assert many.rows(f"{number}/log") == scenes.FIRST


@pytest.fixture
def meeting() -> Iterator[None]:
    MEETING[:] = [Barrier(STREAMS)]
    yield
    MEETING.clear()


def meets(changes: DataFrame, transaction: Transaction) -> None:
    """Consume once all other functions of the job have begun too."""
    MEETING[0].wait(PATIENCE_SECONDS)
    changes.count()


@pytest.mark.usefixtures("meeting")
def test_many_consumptions_run_at_once(many: StreamLab) -> None:
    tasks = [
        ConsumeStream((), f"c{number}", apply=f"{__name__}:meets", streams=(f"s{number}",))
        for number in range(STREAMS)
    ]

    assert inserted(answer(many, *tasks)) == [2] * STREAMS


def test_consumptions_into_one_table_run_one_after_the_other(many: StreamLab) -> None:
    tasks = [by_sql(many, f"s{number}", INTO_ONE.format(number)) for number in range(STREAMS)]

    assert inserted(answer(many, *tasks)) == [2] * STREAMS
    rows = [
        (10 * number + id, v, kind) for number in range(STREAMS) for id, v, kind in scenes.FIRST
    ]
    assert many.rows("0/log") == sorted(rows, key=repr)


def test_failure_of_one_consumption_leaves_the_others_alone(lab: StreamLab) -> None:
    found = answer(lab, by_sql(lab, "s", FAILS), by_sql(lab, "d", scenes.DIM))

    failed, done = found.consumptions
    assert found.error is None
    assert (failed.outcome, done.error) == (None, None)
    assert (failed.lineage, [*done.lineage.streams]) == (None, ["d"])
    assert [*done.lineage.tables] == [lab.path("other")]
    assert (failed.error.kind, failed.error.retryable) == ("statement_failed", True)
    assert "no rate" in failed.error.message
    assert lab.rows("other") == scenes.DIM_ROWS
    assert [lab.engine.stream_has_data(name) for name in ("s", "d")] == [True, False]


def test_unexpected_error_of_one_consumption_leaves_the_others_alone(lab: StreamLab) -> None:
    broken = ConsumeStream((), "d/t/s", apply="loads:misspell", streams=("s",))
    failed, done = answer(lab, broken, by_sql(lab, "d", scenes.DIM)).consumptions

    assert "UNRESOLVED_COLUMN" in failed.error.message
    assert (failed.error.retryable, done.error) == (True, None)
    assert [lab.engine.stream_has_data(name) for name in ("s", "d")] == [True, False]


def test_missing_stream_and_bad_sql_are_errors_of_their_consumptions(lab: StreamLab) -> None:
    tasks = [
        by_sql(lab, "nope", "INSERT INTO {log} SELECT * FROM nope"),
        by_sql(lab, "s", "SELECT FROM WHERE"),
        by_sql(lab, "d", scenes.DIM),
    ]

    errors = [each.error for each in answer(lab, *tasks).consumptions]

    assert [None if error is None else error.kind for error in errors] == [
        "invalid_statement",
        "invalid_statement",
        None,
    ]


def test_retry_finishes_the_consumption_that_a_killed_job_left_open(lab: StreamLab) -> None:
    tasks = [by_sql(lab, "s", scenes.LOG, scenes.OTHER), by_sql(lab, "d", scenes.DIM)]
    killed = lab.new_engine(CrashAt(ProtocolPoint.AFTER_STATEMENT, 0))
    with pytest.raises(Crash):
        killed.consume(tasks[0].statements, consumer=tasks[0].consumer)

    first, second = answer(lab, *tasks).consumptions

    assert [each.result.value for each in first.outcome.statements] == [
        "already_applied",
        "applied",
    ]
    assert second.error is None
    assert lab.rows("log") == scenes.FIRST
    assert lab.rows("other") == sorted(scenes.FIRST + scenes.DIM_ROWS, key=repr)


def test_job_leaves_the_settings_and_views_of_its_session_alone(many: StreamLab) -> None:
    spark = many.spark
    before = {view.name for view in spark.catalog.listTables() if view.isTemporary}
    identifier = "spark.databricks.delta.write.txnAppId"
    spark.conf.set(identifier, "leftover")
    try:
        found = answer(many, by_sql(many, "s0", INTO_OWN.format(0)))
        assert spark.conf.get(identifier) == "leftover"
    finally:
        spark.conf.unset(identifier)

    assert inserted(found) == [2]
    assert {view.name for view in spark.catalog.listTables() if view.isTemporary} == before
