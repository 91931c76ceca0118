"""Consumptions that crashed or meet another consumer: retried, taken over, refused."""

from __future__ import annotations

import pytest
from protocol_lab import ProtocolLab
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

from airflow_provider_cdc.engine import (
    ConsumptionOpen,
    ProtocolPoint,
    StatementFailed,
    StreamConflict,
)


def test_delete_that_matches_nothing_is_confirmed_and_not_repeated(three: ProtocolLab) -> None:
    delete = "DELETE FROM {log} WHERE id = 77"
    crash(three, ProtocolPoint.BEFORE_STATEMENT, 1, delete, SUMS)
    three.sql("INSERT INTO {log} VALUES (77, 'later', 'z')")

    outcome = three.consume(delete, SUMS, consumer="first")

    assert outcome.statements[0].result.value == "already_applied"
    assert (77, "later", "z") in three.rows("log")
    assert three.rows("sums") == [(0, 1020), (1, 2010)]


def test_retry_with_changed_statements_undoes_and_begins_again(three: ProtocolLab) -> None:
    crash(three, ProtocolPoint.BEFORE_STATEMENT, 1, LOG, SUMS)

    three.consume(OTHER, SUMS, consumer="first")

    assert three.rows("log") == [(0, "kept", "x")]
    assert len(three.rows("other")) == 3
    assert three.rows("sums") == [(0, 1020), (1, 2010)]


def test_retry_with_changed_statements_commits_a_fully_applied_attempt(
    three: ProtocolLab,
) -> None:
    crash(three, ProtocolPoint.BEFORE_COMMIT, None, LOG)

    three.consume(OTHER, consumer="first")

    assert len(three.rows("log")) == 4
    assert three.rows("other") == []


CREATE = "CREATE TABLE {made} USING delta AS SELECT id, v FROM s"


@pytest.mark.parametrize("point", [ProtocolPoint.BEFORE_STATEMENT, ProtocolPoint.AFTER_STATEMENT])
@pytest.mark.parametrize("consumer", ["first", "second"])
def test_create_table_as_left_by_a_crash_is_retried_or_taken_over(
    lab: ProtocolLab, point: ProtocolPoint, consumer: str
) -> None:
    crash(lab, point, 0, CREATE, LOG)

    lab.consume(CREATE, LOG, consumer=consumer)

    assert lab.rows("made") == [(1, "10"), (2, "20")]
    assert lab.rows("log") == FIRST


def test_two_drivers_of_one_consumer_apply_once(three: ProtocolLab) -> None:
    second = before(
        ProtocolPoint.BEFORE_STATEMENT, lambda: three.consume(LOG, SUMS, consumer="me"), 1
    )

    outcome = three.consume(LOG, SUMS, consumer="me", engine=three.new_engine(second))

    assert [item.result.value for item in outcome.statements] == ["applied", "already_applied"]
    assert len(three.rows("log")) == 4
    assert three.rows("sums") == [(0, 1020), (1, 2010)]
    assert transitions(three) == ["created", "begun", "resumed", "committed"]


def test_failed_driver_fences_another_driver_of_its_consumer(three: ProtocolLab) -> None:
    """One driver waits before the failing statement; the other one runs it, fails and ends the
    consumption.
    """
    failing = [LOG, NUMBERS, OTHER]

    def fail_first() -> None:
        with pytest.raises(StatementFailed):
            three.consume(*failing, consumer="me")
        three.writer.is_ansi = False

    slow = three.new_engine(before(ProtocolPoint.BEFORE_STATEMENT, fail_first, 1))
    with pytest.raises(StreamConflict):
        three.consume(*failing, consumer="me", engine=slow)

    assert contents(three, "log", "numbers", "other") == {
        "log": [(0, "kept", "x")],
        "numbers": [],
        "other": [],
    }
    assert offset(three) == 0


def test_consumer_that_begins_after_another_consumed_gets_a_conflict(lab: ProtocolLab) -> None:
    other = before(ProtocolPoint.BEFORE_BEGIN, lambda: lab.consume(LOG, consumer="second"))

    with pytest.raises(StreamConflict, match="moved by another process first"):
        lab.consume(LOG, consumer="first", engine=lab.new_engine(other))

    assert lab.rows("log") == FIRST
    lab.consume(LOG, consumer="first")
    assert lab.rows("log") == FIRST


def test_consumer_that_was_taken_over_gets_a_conflict_and_changes_nothing(
    three: ProtocolLab,
) -> None:
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


def test_consumer_that_was_committed_by_another_returns_its_outcome(three: ProtocolLab) -> None:
    other = before(ProtocolPoint.BEFORE_COMMIT, lambda: three.consume(OTHER, consumer="second"))

    outcome = three.consume(LOG, consumer="first", engine=three.new_engine(other))

    assert outcome.consumer == "first"
    assert len(three.rows("log")) == 4
    assert three.rows("other") == []


def test_concurrent_takeovers_apply_each_change_once(
    three: ProtocolLab,
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
    three: ProtocolLab, monkeypatch: pytest.MonkeyPatch
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
