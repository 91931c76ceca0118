"""After a failed statement nothing remains, or a consumption that names what it needs."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from delta_rs import DeltaRsWriter
from protocol_lab import ProtocolLab
from scenes import (
    FIRST,
    LOG,
    NUMBERS,
    SUMS,
    before,
    contents,
    crash,
    crash_after_an_undo_that_met_another,
    foreign,
    offset,
    phase,
    transitions,
)
from stream_lab import Crash, CrashAt

from airflow_provider_cdc.engine import (
    ConsumptionOpen,
    InvalidRequest,
    OutcomeUnknown,
    ProtocolPoint,
    StatementFailed,
    StreamConflict,
)
from airflow_provider_cdc.engine.core.model.stream import Phase


def test_failed_second_of_three_statements_undoes_all_and_can_be_retried(
    three: ProtocolLab,
) -> None:
    found = contents(three, "log", "numbers", "sums")

    with pytest.raises(StatementFailed, match="statement 2 of"):
        three.consume(LOG, NUMBERS, SUMS, consumer="me")

    assert contents(three, "log", "numbers", "sums") == found
    assert offset(three) == 0
    assert transitions(three)[-1] == "aborted"
    failed = three.engine._parts.catalog.stream_history("s")[1].stream.consumption
    assert failed is not None
    three.sql("UPDATE {src} SET v = '30' WHERE id = 3")
    outcome = three.consume(LOG, NUMBERS, SUMS, consumer="me")
    assert outcome.consumption_id != failed.consumption_id
    assert three.rows("log") == [(0, "kept", "x"), *FIRST, (3, "30", "INSERT")]
    assert three.rows("numbers") == [(10,), (20,), (30,)]
    assert three.rows("sums") == [(0, 1020), (1, 2040)]


def test_two_statements_on_one_target_are_undone_together(three: ProtocolLab) -> None:
    with pytest.raises(StatementFailed):
        three.consume(LOG, "DELETE FROM {log} WHERE id = 0", LOG, NUMBERS)

    assert three.rows("log") == [(0, "kept", "x")]


def test_create_table_as_beside_a_failing_statement_leaves_an_empty_table(
    three: ProtocolLab,
) -> None:
    create = "CREATE TABLE {made} USING delta AS SELECT id, v FROM s"
    with pytest.raises(StatementFailed):
        three.consume(create, NUMBERS)

    assert three.rows("made") == []
    three.consume(create)
    assert len(three.rows("made")) == 3


def test_create_table_as_is_undone_by_the_next_attempt_after_a_crash(
    three: ProtocolLab,
) -> None:
    create = "CREATE TABLE {made} USING delta AS SELECT id, v FROM s"
    engine = three.new_engine(CrashAt(ProtocolPoint.AFTER_UNDO, 1))
    with pytest.raises(Crash):
        three.consume(LOG, create, NUMBERS, engine=engine)
    assert three.rows("made") == []

    three.consume(create)

    assert len(three.rows("made")) == 3
    assert three.rows("log") == [(0, "kept", "x")]
    assert transitions(three)[-3:] == ["aborted", "begun", "committed"]


def test_create_table_as_that_fails_leaves_an_empty_table(three: ProtocolLab) -> None:
    with pytest.raises(StatementFailed):
        three.consume(LOG, "CREATE TABLE {made} USING delta AS SELECT CAST(v AS INT) AS n FROM s")

    assert three.rows("made") == []
    assert three.rows("log") == [(0, "kept", "x")]


def test_create_or_replace_beside_a_failing_statement_restores_the_table(
    three: ProtocolLab,
) -> None:
    with pytest.raises(StatementFailed):
        three.consume("CREATE OR REPLACE TABLE {log} USING delta AS SELECT id FROM s", NUMBERS)

    assert three.rows("log") == [(0, "kept", "x")]


def left_open(lab: ProtocolLab) -> None:
    """A consumption with statement 0 applied, a foreign commit on its target, and statement 1
    failed.
    """
    engine = lab.new_engine(before(ProtocolPoint.AFTER_STATEMENT, foreign(lab), 0))
    with pytest.raises(ConsumptionOpen) as caught:
        lab.consume(LOG, NUMBERS, SUMS, consumer="me", engine=engine)
    message = str(caught.value)
    assert lab.path("log") in message
    assert "run me again" in message
    assert f"AbortConsumption with keep=['delta.`{lab.path('log')}`']" in message


def test_target_that_moved_on_leaves_the_consumption_open_until_retried(three: ProtocolLab) -> None:
    found = contents(three, "numbers", "sums")
    left_open(three)
    assert contents(three, "numbers", "sums") == found
    assert phase(three) is Phase.APPLYING

    with pytest.raises(ConsumptionOpen):
        three.consume(LOG, NUMBERS, SUMS, consumer="me")
    with three.lenient_casts():
        outcome = three.consume(LOG, NUMBERS, SUMS, consumer="me")

    assert [item.result.value for item in outcome.statements] == [
        "already_applied",
        "applied",
        "applied",
    ]
    expected = [(0, "kept", "x"), *FIRST, (3, "x", "INSERT"), (99, "foreign", "y")]
    assert three.rows("log") == expected
    assert three.rows("sums") == [(0, 1020), (1, 2010)]
    assert three.engine.stream_has_data("s") is False


def test_abort_with_keep_ends_a_consumption_whose_target_moved_on(three: ProtocolLab) -> None:
    left_open(three)
    with pytest.raises(ConsumptionOpen):
        three.engine.abort_consumption("s")
    with pytest.raises(ConsumptionOpen):
        three.consume(SUMS, consumer="another")

    three.engine.abort_consumption("s", keep=[three.path("log")])

    assert transitions(three)[-1] == "aborted"
    assert offset(three) == 0
    assert len(three.rows("log")) == 5
    assert three.rows("sums") == [(0, 1000), (1, 2000)]
    three.consume(SUMS, consumer="another")
    assert three.rows("sums") == [(0, 1020), (1, 2010)]


def test_abort_keep_of_an_unknown_target_is_refused(three: ProtocolLab) -> None:
    crash(three, ProtocolPoint.BEFORE_STATEMENT, 1, LOG, SUMS)

    with pytest.raises(InvalidRequest, match="logg"):
        three.engine.abort_consumption("s", keep=[three.path("logg")])

    assert len(three.rows("log")) == 4
    assert phase(three) is Phase.APPLYING


def test_abort_without_keep_undoes_what_was_applied(three: ProtocolLab) -> None:
    crash(three, ProtocolPoint.BEFORE_STATEMENT, 1, LOG, SUMS)

    three.engine.abort_consumption("s")

    assert three.rows("log") == [(0, "kept", "x")]
    assert offset(three) == 0
    assert phase(three) is Phase.IDLE
    with pytest.raises(StreamConflict, match="has no open consumption"):
        three.engine.abort_consumption("s")


def test_abort_undoes_a_fully_applied_consumption(three: ProtocolLab) -> None:
    crash(three, ProtocolPoint.BEFORE_COMMIT, None, LOG, SUMS)

    three.engine.abort_consumption("s")

    assert three.rows("log") == [(0, "kept", "x")]
    assert three.rows("sums") == [(0, 1000), (1, 2000)]
    assert offset(three) == 0


def test_concurrent_abort_and_commit_let_only_one_succeed(three: ProtocolLab) -> None:
    """The driver waits before its commit while an abort undoes one target, and then goes on."""
    driver_before_commit, abort_before_undo = threading.Event(), threading.Event()
    driver_done = threading.Event()
    raised: list[BaseException] = []

    def driver_waits() -> None:
        driver_before_commit.set()
        assert abort_before_undo.wait(120)

    def drive() -> None:
        engine = three.new_engine(before(ProtocolPoint.BEFORE_COMMIT, driver_waits))
        try:
            three.consume(LOG, SUMS, consumer="me", engine=engine)
        except BaseException as error:
            raised.append(error)
        finally:
            driver_done.set()

    def abort_lets_driver_go() -> None:
        abort_before_undo.set()
        assert driver_done.wait(120)

    thread = threading.Thread(target=drive)
    thread.start()
    assert driver_before_commit.wait(120)
    try:
        three.new_engine(
            before(ProtocolPoint.BEFORE_UNDO, abort_lets_driver_go, 0)
        ).abort_consumption("s")
    finally:
        abort_before_undo.set()
        thread.join()

    assert [type(error) for error in raised] == [StreamConflict]
    assert three.rows("log") == [(0, "kept", "x")]
    assert three.rows("sums") == [(0, 1000), (1, 2000)]
    assert offset(three) == 0


def test_abort_that_crashed_is_not_rolled_forward_by_another_consumer(three: ProtocolLab) -> None:
    """An abort of a fully applied consumption crashes after it has undone the first target."""
    crash(three, ProtocolPoint.BEFORE_COMMIT, None, LOG, SUMS)
    with pytest.raises(Crash):
        three.new_engine(CrashAt(ProtocolPoint.BEFORE_UNDO, 0)).abort_consumption("s")

    three.consume(LOG, SUMS, consumer="second")

    assert three.rows("log") == [(0, "kept", "x"), *FIRST, (3, "x", "INSERT")]
    assert three.rows("sums") == [(0, 1020), (1, 2010)]


def test_foreign_commit_between_check_and_undo_is_not_wiped_out(
    three: ProtocolLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore = DeltaRsWriter.restore
    pending = [foreign(three)]

    def late(writer: DeltaRsWriter, *arguments: Any) -> None:
        if pending:
            pending.pop()()
        restore(writer, *arguments)

    monkeypatch.setattr(DeltaRsWriter, "restore", late)
    with pytest.raises(ConsumptionOpen, match="keep="):
        three.consume(LOG, NUMBERS, consumer="me")

    applied = [(0, "kept", "x"), *FIRST, (3, "x", "INSERT"), (99, "foreign", "y")]
    assert three.rows("log") == applied
    assert phase(three) is Phase.APPLYING
    with three.lenient_casts():
        three.consume(LOG, NUMBERS, consumer="me")
    assert three.rows("log") == applied


def test_undo_done_first_by_another_driver_counts_as_its_own(
    three: ProtocolLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore = DeltaRsWriter.restore

    def refused(writer: DeltaRsWriter, *arguments: Any) -> None:
        restore(writer, *arguments)
        raise RuntimeError("a concurrent write has come first")

    monkeypatch.setattr(DeltaRsWriter, "restore", refused)
    with pytest.raises(StatementFailed):
        three.consume(LOG, NUMBERS)

    assert three.rows("log") == [(0, "kept", "x")]
    assert transitions(three)[-1] == "aborted"


def test_refused_undo_is_continued_by_the_next_attempt(
    three: ProtocolLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> None:
        raise RuntimeError("the store is away")

    monkeypatch.setattr(DeltaRsWriter, "restore", refused)
    with pytest.raises(OutcomeUnknown, match=r"could not be restored.*the store is away"):
        three.consume(LOG, NUMBERS, consumer="me")
    assert phase(three) is Phase.RESOLVING
    monkeypatch.undo()

    three.consume(LOG, SUMS, consumer="me")

    assert len(three.rows("log")) == 4
    assert three.rows("sums") == [(0, 1020), (1, 2010)]


def test_crash_between_undo_and_its_check_does_not_lose_a_foreign_commit(
    three: ProtocolLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash_after_an_undo_that_met_another(three, DeltaRsWriter, monkeypatch)

    with pytest.raises(ConsumptionOpen, match="keep="):
        three.consume(SUMS, consumer="second")

    assert (99, "foreign", "y") in three.rows("log")
    assert (1, "10", "INSERT") in three.rows("log")
    assert phase(three) is Phase.APPLYING


def test_undo_that_removed_too_much_is_reported_until_an_abort(
    three: ProtocolLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash_after_an_undo_that_met_another(three, DeltaRsWriter, monkeypatch)
    three.sql("INSERT INTO {log} VALUES (100, 'later', 'y')")

    for consumer in ("me", "me", "second"):
        with pytest.raises(ConsumptionOpen, match="undid a commit of somebody else") as caught:
            three.consume(LOG, NUMBERS, consumer=consumer)
        assert "apply version" in str(caught.value)
    three.engine.abort_consumption("s", keep=[three.name("log")])

    three.consume(SUMS, consumer="second")
    assert three.rows("log") == [(0, "kept", "x"), (100, "later", "y")]
    assert three.rows("sums") == [(0, 1020), (1, 2010)]
