"""Consuming by a query returns each row once, even if the driver crashes at any point."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from scenes import LOG, before, offset
from stream_lab import PASSED_POINTS, Crash, CrashAt, StreamLab

from airflow_provider_cdc.engine import (
    Engine,
    InvalidStatement,
    ProtocolPoint,
    StatementFailed,
    StreamAccessDenied,
)
from airflow_provider_cdc.engine.clock import utc_now
from airflow_provider_cdc.engine.storage.state.query_results import Results

QUERY = "SELECT id, v, METADATA$ACTION FROM s"
FIRST = [(1, "10", "INSERT"), (2, "20", "INSERT")]


def taken(lab: StreamLab, query: str = QUERY, engine: Engine | None = None, **given: Any) -> Any:
    """The rows that one call returns."""
    given = {"consumer": "me"} | given
    return contents((engine or lab.engine).read_and_consume(lab.text(query), **given))


def contents(rows: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in rows.collect())


def result_tables(lab: StreamLab) -> list[str]:
    folder = lab.root / "state" / "results"
    return sorted(path.name for path in folder.iterdir() if path.is_dir())


@pytest.mark.thorough
def test_rows_are_handed_out_once_and_the_stream_is_consumed(lab: StreamLab) -> None:
    assert taken(lab) == FIRST
    assert lab.engine.stream_has_data("s") is False
    assert taken(lab) == []

    lab.sql("INSERT INTO {src} VALUES (3, '30')")
    assert taken(lab) == [(3, "30", "INSERT")]


@pytest.mark.thorough
def test_returned_rows_stay_the_same_after_later_consumptions(lab: StreamLab) -> None:
    rows = lab.engine.read_and_consume(QUERY, consumer="me")
    lab.sql("DELETE FROM {src} WHERE id = 1")
    assert taken(lab) == [(1, "10", "DELETE")]

    assert contents(rows) == FIRST


@pytest.mark.thorough
def test_columns_of_a_query_may_have_any_name(lab: StreamLab) -> None:
    rows = lab.engine.read_and_consume("SELECT count(*), max(id) AS `a b;c` FROM s", consumer="me")

    assert rows.columns == ["count(1)", "a b;c"]
    assert contents(rows) == [(2, 2)]


@pytest.mark.thorough
def test_query_within_bounds_takes_whole_commits(lab: StreamLab) -> None:
    lab.sql("INSERT INTO {src} VALUES (3, '30')")

    assert taken(lab, max_commits=1) == FIRST
    assert taken(lab, max_commits=1) == [(3, "30", "INSERT")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LOG, "is not a query"),
        ("SELECT * FROM {log}", "consumes nothing"),
        ("SELECT nope FROM s", "nope"),
        ("SELECT id FROM s; SELECT v FROM s", "several statements"),
    ],
)
def test_invalid_query_is_refused_and_moves_no_offset(
    lab: StreamLab, text: str, message: str
) -> None:
    with pytest.raises(InvalidStatement, match=message):
        taken(lab, text)

    assert offset(lab) == 0


@pytest.mark.thorough
def test_query_with_a_type_that_delta_refuses_leaves_no_table(lab: StreamLab) -> None:
    with pytest.raises(InvalidStatement, match="CONTAINS_NULL_TYPE"):
        taken(lab, "SELECT id, array() AS a FROM s")

    folder = lab.root / "state" / "results"
    assert not folder.exists() or result_tables(lab) == []
    assert taken(lab) == FIRST


@pytest.mark.thorough
def test_query_that_fails_consumes_nothing_and_hands_out_nothing(lab: StreamLab) -> None:
    with pytest.raises(StatementFailed, match="DIVIDE_BY_ZERO"):
        taken(lab, "SELECT 1 / (id - id) FROM s")

    assert offset(lab) == 0
    assert taken(lab) == FIRST


def crash(lab: StreamLab, point: ProtocolPoint) -> None:
    with pytest.raises(Crash):
        taken(lab, engine=lab.new_engine(CrashAt(point)))


@pytest.mark.in_ci("before_commit")
@pytest.mark.parametrize("point", PASSED_POINTS)
def test_rows_of_a_crashed_call_are_handed_out_by_the_next_call(
    lab: StreamLab, point: ProtocolPoint
) -> None:
    crash(lab, point)
    lab.sql("INSERT INTO {src} VALUES (3, '30')")

    found = taken(lab)

    third = [(3, "30", "INSERT")]
    assert found == (FIRST + third if point is ProtocolPoint.BEFORE_BEGIN else FIRST)
    assert taken(lab) == ([] if point is ProtocolPoint.BEFORE_BEGIN else third)
    assert len(result_tables(lab)) == 2


@pytest.mark.in_ci("after_begin", "before_begin")
@pytest.mark.parametrize("point", PASSED_POINTS)
def test_rows_of_a_crashed_call_reach_only_its_retry_or_another_consumer(
    lab: StreamLab, point: ProtocolPoint
) -> None:
    crash(lab, point)
    lab.consume(LOG, consumer="another")

    applied = point in (
        ProtocolPoint.AFTER_STATEMENT,
        ProtocolPoint.BEFORE_COMMIT,
        ProtocolPoint.AFTER_COMMIT,
    )
    assert lab.rows("log") == ([] if applied else FIRST)
    assert taken(lab) == (FIRST if applied else [])
    assert taken(lab) == []


def test_call_that_crashes_after_its_rows_are_marked_is_not_repeated(
    lab: StreamLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    marking = Results.hand_out

    def dying(results: Results, root: str) -> bool:
        marking(results, root)
        raise Crash

    monkeypatch.setattr(Results, "hand_out", dying)
    with pytest.raises(Crash):
        taken(lab)
    monkeypatch.undo()

    assert taken(lab) == []


@pytest.mark.thorough
def test_other_queries_and_consumers_do_not_get_waiting_rows(lab: StreamLab) -> None:
    crash(lab, ProtocolPoint.AFTER_COMMIT)

    assert taken(lab, "SELECT id FROM s") == []
    assert taken(lab, consumer="another") == []
    assert taken(lab) == FIRST


def test_principal_that_may_not_consume_does_not_get_waiting_rows(lab: StreamLab) -> None:
    crash(lab, ProtocolPoint.AFTER_COMMIT)
    lab.engine.alter_stream("s", consumers=[])
    stranger = Engine(lab.spark, str(lab.root / "state"), principal="stranger")

    with pytest.raises(StreamAccessDenied, match="stranger may not consume"):
        taken(lab, engine=stranger)

    assert taken(lab) == FIRST


def test_concurrent_calls_of_one_consumer_do_not_get_the_same_rows(lab: StreamLab) -> None:
    second: list[Any] = []
    listener = before(ProtocolPoint.AFTER_COMMIT, lambda: second.append(taken(lab)))

    found = taken(lab, engine=lab.new_engine(listener))

    assert sorted([*found, *second[0]]) == FIRST


def test_result_table_is_handed_out_by_only_one_of_many_threads(lab: StreamLab) -> None:
    results = lab.engine._parts.results
    root = results.new("me", QUERY)
    won: list[bool] = []
    threads = [
        threading.Thread(target=lambda: won.append(results.hand_out(root))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert won.count(True) == 1


def test_sweep_removes_only_results_handed_out_a_day_ago(lab: StreamLab) -> None:
    taken(lab)
    lab.sql("INSERT INTO {src} VALUES (3, '30')")
    crash(lab, ProtocolPoint.AFTER_COMMIT)
    for hours, left in ((23, 2), (25, 1)):
        state = str(lab.root / "state")
        Engine(lab.spark, state, clock=lambda ago=hours: utc_now() + timedelta(hours=ago))
        assert len(result_tables(lab)) == left

    assert taken(lab) == [(3, "30", "INSERT")]
    assert not list(Path(lab.root, "state", "results").glob("*.draft"))
