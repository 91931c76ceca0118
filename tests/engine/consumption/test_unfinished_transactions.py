"""Transactions that do not end well: crashed, interrupted, taken over, or too late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from scenes import DIM, DIM_ROWS, FIRST, LOG, OTHER, before, begun, is_untouched, offset, phase
from stream_lab import Crash, CrashAt, StreamLab

from airflow_provider_cdc.engine import (
    ConsumptionOpen,
    InvalidRequest,
    ProtocolPoint,
    StreamConflict,
    Transaction,
)
from airflow_provider_cdc.engine.consumption.targets import Targets
from airflow_provider_cdc.engine.core.model.stream import Phase


def killed(lab: StreamLab, work: Callable[[Transaction], Any]) -> None:
    """Crash a transaction of consumer ``me`` after ``work``."""
    with pytest.raises(Crash), begun(lab) as tx:
        work(tx)
        raise Crash


def foreign(lab: StreamLab) -> None:
    lab.sql("INSERT INTO {log} VALUES (99, 'foreign', 'y')")


def test_target_that_moved_on_keeps_a_failed_transaction_open_until_abort(lab: StreamLab) -> None:
    with pytest.raises(ConsumptionOpen, match="moved on") as caught, begun(lab) as tx:
        tx.sql(lab.text(LOG))
        foreign(lab)
        raise ValueError("the block failed")
    assert isinstance(caught.value.__context__, ValueError)
    assert "again to finish" not in str(caught.value)
    assert len(lab.rows("log")) == 3

    with pytest.raises(ConsumptionOpen), begun(lab):
        raise AssertionError("it cannot begin before that is settled")
    lab.engine.abort_consumption("s", keep=[lab.path("log")])
    with begun(lab) as tx:
        tx.sql(lab.text(OTHER))

    assert lab.rows("other") == FIRST
    assert len(lab.rows("log")) == 3


# The points that a transaction of two streams and three statements passes, in order.
POINTS: list[tuple[ProtocolPoint, int | None, int]] = [
    (ProtocolPoint.BEFORE_BEGIN, None, 0),
    (ProtocolPoint.AFTER_BEGIN, None, 0),
    (ProtocolPoint.BEFORE_STATEMENT, 0, 0),
    (ProtocolPoint.AFTER_STATEMENT, 0, 1),
    (ProtocolPoint.BEFORE_EXTEND, None, 1),
    (ProtocolPoint.AFTER_EXTEND, None, 1),
    (ProtocolPoint.BEFORE_STATEMENT, 1, 1),
    (ProtocolPoint.AFTER_STATEMENT, 1, 2),
    (ProtocolPoint.BEFORE_COMMIT, None, 2),
]


def both(lab: StreamLab, tx: Transaction) -> None:
    tx.sql(lab.text(LOG))
    tx.sql(lab.text(DIM))


@pytest.mark.in_ci("after_begin-None-0-me")
@pytest.mark.parametrize("consumer", ["me", "another"])
@pytest.mark.parametrize(
    ("point", "index", "applied"), POINTS, ids=lambda value: str(getattr(value, "value", value))
)
def test_transaction_that_crashed_is_undone_before_anything_else(
    lab: StreamLab, point: ProtocolPoint, index: int | None, applied: int, consumer: str
) -> None:
    with pytest.raises(Crash), begun(lab, engine=lab.new_engine(CrashAt(point, index))) as tx:
        both(lab, tx)
    assert (len(lab.rows("log")) > 0, len(lab.rows("other")) > 0) == (applied > 0, applied > 1)

    with begun(lab, consumer) as tx:
        both(lab, tx)

    assert (lab.rows("log"), lab.rows("other")) == (FIRST, DIM_ROWS)
    assert [phase(lab, name) for name in ("s", "d")] == [Phase.IDLE] * 2
    assert [offset(lab, name) for name in ("s", "d")] == [1, 1]


@pytest.mark.thorough
def test_transaction_that_crashed_after_its_commit_is_not_repeated(lab: StreamLab) -> None:
    engine = lab.new_engine(CrashAt(ProtocolPoint.AFTER_COMMIT))
    with pytest.raises(Crash), begun(lab, engine=engine) as tx:
        both(lab, tx)

    with begun(lab) as tx:
        both(lab, tx)

    assert (lab.rows("log"), lab.rows("other")) == (FIRST, DIM_ROWS)


@pytest.mark.thorough
def test_fully_applied_crashed_transaction_is_not_rolled_forward(lab: StreamLab) -> None:
    killed(lab, lambda tx: tx.sql(lab.text(LOG)))

    lab.consume(OTHER, consumer="another")

    assert (lab.rows("log"), lab.rows("other")) == ([], FIRST)


@pytest.mark.thorough
def test_consumption_of_the_same_statement_does_not_resume_a_transaction(lab: StreamLab) -> None:
    killed(lab, lambda tx: tx.sql(lab.text(LOG)))

    outcome = lab.consume(LOG, consumer="me")

    assert [item.result.value for item in outcome.statements] == ["applied"]
    assert lab.rows("log") == FIRST


@pytest.mark.thorough
def test_undo_of_a_write_to_a_source_precedes_the_next_transactions_read(
    lab: StreamLab,
) -> None:
    killed(lab, lambda tx: tx.sql(lab.text("INSERT INTO {src} SELECT id + 10, v FROM s")))

    with begun(lab) as tx:
        tx.sql(lab.text(LOG))

    assert lab.rows("log") == FIRST
    assert lab.engine.stream_has_data("s") is False


@pytest.mark.thorough
def test_interrupt_in_the_block_leaves_the_undo_to_the_next_attempt(lab: StreamLab) -> None:
    with pytest.raises(KeyboardInterrupt), begun(lab) as tx:
        tx.sql(lab.text(LOG))
        raise KeyboardInterrupt
    assert phase(lab) is Phase.APPLYING

    with begun(lab) as tx:
        tx.sql(lab.text(OTHER))

    assert (lab.rows("log"), lab.rows("other")) == ([], FIRST)


def test_interrupt_caught_in_the_block_still_ends_the_transaction(
    lab: StreamLab,
) -> None:
    engine = lab.new_engine(CrashAt(ProtocolPoint.AFTER_STATEMENT, 0))
    with pytest.raises(Crash), begun(lab, engine=engine) as tx:
        with pytest.raises(Crash):
            tx.sql(lab.text(LOG))
        with pytest.raises(InvalidRequest, match="it failed"):
            tx.sql(lab.text(OTHER))

    with begun(lab) as tx:
        tx.sql(lab.text(OTHER))
    assert (lab.rows("log"), lab.rows("other")) == ([], FIRST)


def test_interrupt_turned_into_an_error_fences_the_running_statement(
    lab: StreamLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    late: list[Callable[[], Any]] = []

    def interrupted(targets: Targets, *arguments: Any) -> None:
        # If Spark is another process, the statement goes on there.
        late.append(lambda: apply(targets, *arguments))
        raise KeyboardInterrupt

    apply = Targets.apply
    with (
        monkeypatch.context() as patched,
        pytest.raises(Exception, match="made of it"),
        begun(lab) as tx,
    ):
        tx.sql(lab.text(OTHER))
        patched.setattr(Targets, "apply", interrupted)
        try:
            tx.sql(lab.text("INSERT INTO {log} VALUES (7, 'late', 'x')"))
        except KeyboardInterrupt:
            raise ValueError("made of it") from None

    with pytest.raises(StreamConflict, match="was taken over"):
        late[0]()
    assert (lab.rows("log"), lab.rows("other")) == ([], [])


@pytest.mark.in_ci("before a statement")
@pytest.mark.parametrize("when", ["before a statement", "before the commit"])
def test_transaction_taken_over_by_a_consumer_fails_and_leaves_nothing(
    lab: StreamLab, when: str
) -> None:
    with pytest.raises(StreamConflict), begun(lab) as tx:
        tx.sql(lab.text(LOG))
        lab.consume(OTHER, consumer="another")
        assert lab.rows("log") == []
        if when == "before a statement":
            tx.sql(lab.text(LOG))

    assert (lab.rows("log"), lab.rows("other")) == ([], FIRST)
    assert lab.engine._parts.catalog.get_stream("s").last_consumer == "another"


def test_statement_fenced_just_before_it_runs_is_not_applied(lab: StreamLab) -> None:
    take_over = before(
        ProtocolPoint.BEFORE_STATEMENT, lambda: lab.consume(OTHER, consumer="another"), 1
    )
    with pytest.raises(StreamConflict), begun(lab, engine=lab.new_engine(take_over)) as tx:
        tx.sql(lab.text(LOG))
        tx.sql(lab.text(LOG))

    assert (lab.rows("log"), lab.rows("other")) == ([], FIRST)


@pytest.mark.thorough
def test_takeover_also_ends_streams_that_joined_after_its_read(lab: StreamLab) -> None:
    """The consumer that takes over reads the consumption before ``d`` joins it."""
    with pytest.raises(StreamConflict), begun(lab) as tx:
        tx.sql(lab.text(LOG))
        looked_at = lab.engine._parts.catalog.get_stream("s").consumption
        tx.sql(lab.text(DIM))
        lab.engine._parts.consumption.resolution.take_over(looked_at, "another")

    assert is_untouched(lab)


def test_stream_is_consumed_by_only_one_of_two_transactions(lab: StreamLab) -> None:
    with pytest.raises(StreamConflict), begun(lab, "first") as first:
        first.sql(lab.text(LOG))
        with begun(lab, "second") as second:
            second.sql(lab.text(OTHER))

    assert (lab.rows("log"), lab.rows("other")) == ([], FIRST)


def test_transaction_on_a_stream_consumed_past_its_start_is_refused(lab: StreamLab) -> None:
    with pytest.raises(StreamConflict, match="past the start"), begun(lab) as tx:
        lab.sql("INSERT INTO {src} VALUES (3, '30')")
        lab.consume(OTHER, consumer="another")
        tx.sql(lab.text(LOG))

    assert lab.rows("log") == []


def test_stream_that_was_queried_and_then_consumed_by_another_is_refused(lab: StreamLab) -> None:
    with pytest.raises(StreamConflict, match="was moved while"), begun(lab) as tx:
        assert tx.sql("SELECT * FROM s").count() == 2
        lab.consume(OTHER, consumer="another")
        tx.sql(lab.text(LOG))

    assert lab.rows("log") == []


@pytest.mark.thorough
def test_transaction_that_begins_before_another_commits_sees_its_own_range(lab: StreamLab) -> None:
    with begun(lab, "second") as second:
        lab.consume(OTHER, consumer="first")
        second.sql(lab.text(LOG))

    assert (lab.rows("log"), lab.rows("other")) == ([], FIRST)
    assert second.outcome.streams[0].rows == {"inserted": 0, "updated": 0, "deleted": 0}


def test_create_table_as_can_be_retried_after_a_crash_in_its_undo(
    lab: StreamLab,
) -> None:
    create = lab.text("CREATE TABLE {made} USING delta AS SELECT id, v FROM s")
    engine = lab.new_engine(CrashAt(ProtocolPoint.AFTER_UNDO))
    with pytest.raises(Crash), begun(lab, engine=engine) as tx:
        tx.sql(create)
        tx.sql(lab.text("INSERT INTO {made} SELECT id + 10, v FROM s"))
        _ = 1 / 0
    assert lab.rows("made") == []

    with begun(lab) as tx:
        tx.sql(create)

    assert [row[0] for row in lab.rows("made")] == [1, 2]
