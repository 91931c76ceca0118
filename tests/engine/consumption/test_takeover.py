"""Consumptions that crashed or meet another consumer: retried, taken over, refused."""

from __future__ import annotations

import pytest
from scenes import (
    FIRST,
    LOG,
    NUMBERS,
    OTHER,
    SUMS,
    before,
    contents,
    crash,
    offset,
    transitions,
)
from stream_lab import StreamLab

from airflow_provider_cdc.engine import (
    ConsumptionOpen,
    ProtocolPoint,
    StatementFailed,
    StreamConflict,
)


def test_delete_that_matches_nothing_is_confirmed_and_not_repeated(three: StreamLab) -> None:
    delete = "DELETE FROM {log} WHERE id = 77"
    crash(three, ProtocolPoint.BEFORE_STATEMENT, 1, delete, SUMS)
    three.sql("INSERT INTO {log} VALUES (77, 'later', 'z')")

    outcome = three.consume(delete, SUMS, consumer="first")

    assert outcome.statements[0].result.value == "already_applied"
    assert (77, "later", "z") in three.rows("log")
    assert three.rows("sums") == [(0, 1020), (1, 2010)]


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM {log} WHERE id = 77",
        "DELETE FROM {log} WHERE id IN (SELECT id + 77 FROM s)",
        "UPDATE {log} SET v = 'z' WHERE id = 77",
        "MERGE INTO {log} t USING s ON t.id = s.id + 77 WHEN MATCHED THEN DELETE",
        "INSERT INTO {log} SELECT id, v, 'z' FROM s WHERE id = 77",
        "INSERT OVERWRITE {other} SELECT id, v, 'z' FROM s WHERE id = 77",
    ],
)
def test_statement_that_changes_nothing_is_confirmed_as_applied(
    three: StreamLab, statement: str
) -> None:
    outcome = three.consume(statement, SUMS)

    assert [each.result.value for each in outcome.statements] == ["applied", "applied"]
    assert three.rows("log") == [(0, "kept", "x")]


def test_retry_with_changed_statements_undoes_and_begins_again(three: StreamLab) -> None:
    crash(three, ProtocolPoint.BEFORE_STATEMENT, 1, LOG, SUMS)

    three.consume(OTHER, SUMS, consumer="first")

    assert three.rows("log") == [(0, "kept", "x")]
    assert len(three.rows("other")) == 3
    assert three.rows("sums") == [(0, 1020), (1, 2010)]


def test_retry_with_changed_statements_commits_a_fully_applied_attempt(
    three: StreamLab,
) -> None:
    crash(three, ProtocolPoint.BEFORE_COMMIT, None, LOG)

    three.consume(OTHER, consumer="first")

    assert len(three.rows("log")) == 4
    assert three.rows("other") == []


CREATE = "CREATE TABLE {made} USING delta AS SELECT id, v FROM s"


@pytest.mark.parametrize("point", [ProtocolPoint.BEFORE_STATEMENT, ProtocolPoint.AFTER_STATEMENT])
@pytest.mark.parametrize("consumer", ["first", "second"])
def test_create_table_as_left_by_a_crash_is_retried_or_taken_over(
    lab: StreamLab, point: ProtocolPoint, consumer: str
) -> None:
    crash(lab, point, 0, CREATE, LOG)

    lab.consume(CREATE, LOG, consumer=consumer)

    assert lab.rows("made") == [(1, "10"), (2, "20")]
    assert lab.rows("log") == FIRST


def test_create_table_as_with_changed_statements_is_retried(lab: StreamLab) -> None:
    crash(lab, ProtocolPoint.BEFORE_STATEMENT, 1, CREATE, LOG)

    lab.consume(CREATE.replace("id, v", "v, id"), consumer="first")

    assert lab.rows("made") == [("10", 1), ("20", 2)]


def test_two_drivers_of_one_consumer_apply_once(three: StreamLab) -> None:
    second = before(
        ProtocolPoint.BEFORE_STATEMENT, lambda: three.consume(LOG, SUMS, consumer="me"), 1
    )

    outcome = three.consume(LOG, SUMS, consumer="me", engine=three.new_engine(second))

    assert [item.result.value for item in outcome.statements] == ["applied", "already_applied"]
    assert len(three.rows("log")) == 4
    assert three.rows("sums") == [(0, 1020), (1, 2010)]
    assert transitions(three) == ["created", "begun", "resumed", "committed"]


def test_failed_driver_fences_another_driver_of_its_consumer(three: StreamLab) -> None:
    """One driver waits before the failing statement; the other one runs it, fails and ends the
    consumption.
    """
    failing = [LOG, NUMBERS, OTHER]

    def fail_first() -> None:
        with pytest.raises(StatementFailed):
            three.consume(*failing, consumer="me")
        three.spark.conf.set("spark.sql.ansi.enabled", "false")

    slow = three.new_engine(before(ProtocolPoint.BEFORE_STATEMENT, fail_first, 1))
    try:
        with pytest.raises(StreamConflict):
            three.consume(*failing, consumer="me", engine=slow)
    finally:
        three.spark.conf.unset("spark.sql.ansi.enabled")

    assert contents(three, "log", "numbers", "other") == {
        "log": [(0, "kept", "x")],
        "numbers": [],
        "other": [],
    }
    assert offset(three) == 0


@pytest.mark.parametrize(
    ("columns", "clause", "properties"),
    [
        (
            "n BIGINT GENERATED ALWAYS AS IDENTITY, id INT, v STRING,"
            " twice INT GENERATED ALWAYS AS (id * 2)",
            "",
            "",
        ),
        (
            "id INT NOT NULL, v STRING NOT NULL, note STRING DEFAULT 'd'",
            "",
            "'delta.feature.allowColumnDefaults' = 'supported'",
        ),
        ("id INT, v STRING", "PARTITIONED BY (id)", ""),
        ("id INT, v STRING", "", "'delta.appendOnly' = 'true'"),
        ("id INT, `odd, v` STRING", "", "'delta.columnMapping.mode' = 'name'"),
    ],
    ids=["identity and generated", "not null and default", "partitioned", "append only", "mapped"],
)
def test_target_of_any_kind_can_be_fenced_and_undone(
    lab: StreamLab, columns: str, clause: str, properties: str
) -> None:
    value = "`odd, v`" if "odd" in columns else "v"
    lab.make("odd", columns, clause=clause, properties=properties)
    insert = f"INSERT INTO {{odd}} (id, {value}) SELECT id, v FROM s"
    crash(lab, ProtocolPoint.BEFORE_STATEMENT, 1, LOG, insert)

    lab.consume(LOG, insert, consumer="second")

    assert lab.rows("log") == FIRST
    read = f"SELECT id, {value} FROM {{odd}} ORDER BY id"
    assert [tuple(row) for row in lab.spark.sql(lab.text(read)).collect()] == [
        (1, "10"),
        (2, "20"),
    ]
    lab.sql("UPDATE {src} SET v = '11' WHERE id = 1")
    with pytest.raises(StatementFailed):
        lab.consume(insert, "INSERT INTO {log} SELECT raise_error('no'), '', '' FROM s")
    assert lab.spark.sql(lab.text(read)).count() == 2


def test_consumer_that_begins_after_another_consumed_gets_a_conflict(lab: StreamLab) -> None:
    other = before(ProtocolPoint.BEFORE_BEGIN, lambda: lab.consume(LOG, consumer="second"))

    with pytest.raises(StreamConflict, match="moved by another process first"):
        lab.consume(LOG, consumer="first", engine=lab.new_engine(other))

    assert lab.rows("log") == FIRST
    lab.consume(LOG, consumer="first")
    assert lab.rows("log") == FIRST


def test_consumer_that_was_taken_over_gets_a_conflict_and_changes_nothing(three: StreamLab) -> None:
    other = before(
        ProtocolPoint.BEFORE_STATEMENT, lambda: three.consume(LOG, SUMS, consumer="second"), 1
    )

    with pytest.raises(StreamConflict, match="of first was taken over"):
        three.consume(LOG, SUMS, consumer="first", engine=three.new_engine(other))

    assert len(three.rows("log")) == 4
    assert three.rows("sums") == [(0, 1020), (1, 2010)]
    assert transitions(three) == [
        "created",
        "begun",
        "resolving",
        "aborted",
        "begun",
        "committed",
    ]


def test_consumer_that_was_committed_by_another_returns_its_outcome(three: StreamLab) -> None:
    other = before(ProtocolPoint.BEFORE_COMMIT, lambda: three.consume(OTHER, consumer="second"))

    outcome = three.consume(LOG, consumer="first", engine=three.new_engine(other))

    assert outcome.consumer == "first"
    assert len(three.rows("log")) == 4
    assert three.rows("other") == []


def test_concurrent_takeovers_apply_each_change_once(
    three: StreamLab,
) -> None:
    """Two consumers take over the same open consumption, one during the other's undo."""
    crash(three, ProtocolPoint.BEFORE_STATEMENT, 1, LOG, SUMS)
    inner = before(ProtocolPoint.BEFORE_UNDO, lambda: three.consume(LOG, SUMS, consumer="third"), 0)

    with pytest.raises((StreamConflict, ConsumptionOpen)):
        three.consume(LOG, SUMS, consumer="second", engine=three.new_engine(inner))

    three.consume(LOG, SUMS, consumer="second")
    assert len(three.rows("log")) == 4
    assert three.rows("sums") == [(0, 1020), (1, 2010)]


def test_fence_already_written_by_another_consumer_is_accepted(
    three: StreamLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both consumers decide to fence, and the later one finds the fence already written."""
    crash(three, ProtocolPoint.BEFORE_STATEMENT, 1, LOG, SUMS)
    inner = before(
        ProtocolPoint.BEFORE_FENCE, lambda: three.consume(LOG, SUMS, consumer="third"), 1
    )

    with pytest.raises((StreamConflict, ConsumptionOpen)):
        three.consume(LOG, SUMS, consumer="second", engine=three.new_engine(inner))

    assert len(three.rows("log")) == 4
    assert three.rows("sums") == [(0, 1020), (1, 2010)]
