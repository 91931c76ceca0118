"""Drivers that go on after another consumer has ended their consumption."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from scenes import FIRST, LOG, NUMBERS, OTHER, SUMS, before, crash, offset, phase, transitions
from stream_lab import StreamLab

from airflow_provider_cdc.engine import (
    ConsumptionOpen,
    InvalidStatement,
    OutcomeUnknown,
    ProtocolPoint,
    StatementFailed,
    StreamConflict,
    StreamStale,
)
from airflow_provider_cdc.engine.consumption import attempts
from airflow_provider_cdc.engine.consumption.targets import Targets
from airflow_provider_cdc.engine.core.model.stream import Phase
from airflow_provider_cdc.engine.spark.consumption import statement_writer
from airflow_provider_cdc.engine.spark.consumption.statement_writer import SparkWriter
from airflow_provider_cdc.engine.storage.registry.consumptions import Consumptions

ALL = [(0, "kept", "x"), *FIRST, (3, "x", "INSERT")]
CREATE = "CREATE TABLE {made} USING delta AS SELECT id, v FROM s"
FOREIGN = "INSERT INTO {made} VALUES (9, 'foreign')"


def once(monkeypatch: pytest.MonkeyPatch, kind: type, name: str, act: Callable[[], Any]) -> None:
    """Call ``act`` right before the first call of a method of ``kind``."""
    method = getattr(kind, name)
    pending = [act]

    def late(found: Any, *arguments: Any, **named: Any) -> Any:
        if pending:
            pending.pop()()
        return method(found, *arguments, **named)

    monkeypatch.setattr(kind, name, late)


def leave_empty(lab: StreamLab, monkeypatch: pytest.MonkeyPatch, consumer: str = "first") -> None:
    """Let the CREATE TABLE AS of ``consumer`` fail after it has created the empty table."""

    def refused(*_: Any, **__: Any) -> None:
        raise StreamConflict("stream s", "was moved first")

    with monkeypatch.context() as patched:
        patched.setattr(Consumptions, "begin", refused)
        with pytest.raises(StreamConflict):
            lab.consume(CREATE, consumer=consumer)
    assert lab.rows("made") == []


@pytest.mark.thorough
def test_undo_after_a_later_consumption_is_reverted(
    three: StreamLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash(three, ProtocolPoint.BEFORE_STATEMENT, 1, LOG, SUMS)
    once(monkeypatch, SparkWriter, "restore", lambda: three.consume(LOG, SUMS, consumer="third"))

    with pytest.raises(StreamConflict):
        three.consume(LOG, SUMS, consumer="second")

    assert three.rows("log") == ALL
    assert three.rows("sums") == [(0, 1020), (1, 2010)]
    assert (offset(three), phase(three)) == (2, Phase.IDLE)


def test_undo_after_a_commit_that_followed_another_undo_is_reverted(
    three: StreamLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash(three, ProtocolPoint.BEFORE_STATEMENT, 1, LOG, SUMS)

    def undone_and_written() -> None:
        three.consume(OTHER, consumer="third")
        three.sql("INSERT INTO {log} VALUES (99, 'foreign', 'y')")

    once(monkeypatch, SparkWriter, "restore", undone_and_written)

    with pytest.raises(StreamConflict):
        three.consume(LOG, SUMS, consumer="second")

    assert three.rows("log") == [(0, "kept", "x"), (99, "foreign", "y")]


def test_undo_of_a_consumption_ended_by_another_does_not_begin(three: StreamLab) -> None:
    crash(three, ProtocolPoint.BEFORE_STATEMENT, 1, LOG, SUMS)
    found: list[int] = []

    def look() -> None:
        three.consume(OTHER, consumer="third")
        found.append(three.version("log"))

    ended = before(ProtocolPoint.BEFORE_UNDO, look, 0)
    with pytest.raises(StreamConflict):
        three.consume(LOG, SUMS, consumer="second", engine=three.new_engine(ended))

    assert found == [three.version("log")]
    assert three.rows("log") == [(0, "kept", "x")]
    assert len(three.rows("other")) == 3


def test_leftover_empty_table_is_not_touched_by_a_driver_that_cannot_begin(
    lab: StreamLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_empty(lab, monkeypatch, "tests")
    found = Targets.is_leftover
    pending = [lambda: lab.consume(CREATE)]

    def looked(*arguments: Any) -> bool:
        is_leftover = found(*arguments)
        if pending:
            pending.pop()()
        return is_leftover

    monkeypatch.setattr(Targets, "is_leftover", looked)

    with pytest.raises(StreamConflict):
        lab.consume(CREATE)

    assert lab.rows("made") == [(1, "10"), (2, "20")]
    assert offset(lab) == 1


def test_leftover_table_filled_by_another_is_not_replaced_by_a_retry(
    lab: StreamLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_empty(lab, monkeypatch)
    crash(lab, ProtocolPoint.BEFORE_STATEMENT, 0, CREATE)
    lab.sql(FOREIGN)

    with pytest.raises(StatementFailed, match="somebody else has written version"):
        lab.consume(CREATE, consumer="first")

    assert lab.rows("made") == [(9, "foreign")]
    assert (offset(lab), phase(lab)) == (0, Phase.IDLE)
    with pytest.raises(InvalidStatement, match="exists already"):
        lab.consume(CREATE, consumer="first")


@pytest.mark.in_ci("alive")
@pytest.mark.parametrize("is_killed", [False, True], ids=["alive", "killed"])
def test_table_filled_during_its_replacement_gets_its_rows_back(
    lab: StreamLab, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    leave_empty(lab, monkeypatch)
    once(monkeypatch, Targets, "apply", lambda: lab.sql(FOREIGN))
    if is_killed:
        checked = attempts._check_empty
        with monkeypatch.context() as patched:
            patched.setattr(attempts, "_check_empty", lambda *_: None)
            crash(lab, ProtocolPoint.AFTER_STATEMENT, 0, CREATE)
        assert (lab.rows("made"), attempts._check_empty) == ([(1, "10"), (2, "20")], checked)

    with pytest.raises(StatementFailed, match="somebody else has written version"):
        lab.consume(CREATE, consumer="first")

    assert lab.rows("made") == [(9, "foreign")]
    assert (offset(lab), phase(lab)) == (0, Phase.IDLE)


@pytest.mark.thorough
def test_leftover_table_filled_by_another_keeps_its_rows_after_takeover(
    lab: StreamLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_empty(lab, monkeypatch)
    with monkeypatch.context() as patched:
        once(patched, Targets, "apply", lambda: lab.sql(FOREIGN))
        patched.setattr(attempts, "_check_empty", lambda *_: None)
        crash(lab, ProtocolPoint.AFTER_STATEMENT, 0, CREATE)

    lab.consume(OTHER, consumer="another")

    assert lab.rows("made") == [(9, "foreign")]
    assert lab.rows("other") == FIRST


@pytest.mark.in_ci("CREATE TABLE")
@pytest.mark.parametrize(
    "create", ["CREATE TABLE", "CREATE TABLE IF NOT EXISTS", "CREATE OR REPLACE TABLE"]
)
def test_table_that_appears_just_before_its_creation_is_not_touched(
    lab: StreamLab, monkeypatch: pytest.MonkeyPatch, create: str
) -> None:
    text = f"{create} {{made}} USING delta AS SELECT id, v FROM s"
    once(monkeypatch, Targets, "create", lambda: lab.consume(text))

    with pytest.raises(StreamConflict, match="was created by somebody else"):
        lab.consume(text)

    assert lab.rows("made") == [(1, "10"), (2, "20")]
    assert offset(lab) == 1


def test_table_taken_by_another_consumer_during_its_undo_keeps_the_rows(
    three: StreamLab,
) -> None:
    taken = before(ProtocolPoint.BEFORE_UNDO, lambda: three.consume(CREATE, consumer="second"), 0)

    with pytest.raises((StreamConflict, ConsumptionOpen)):
        three.consume(CREATE, NUMBERS, consumer="me", engine=three.new_engine(taken))

    assert len(three.rows("made")) == 3
    assert (offset(three), transitions(three)[-1]) == (2, "committed")


@pytest.mark.parametrize("version", [1, 2], ids=["its first commit", "its last commit"])
def test_applied_consumption_is_committed_despite_missing_source_commits(
    three: StreamLab, version: int
) -> None:
    crash(three, ProtocolPoint.BEFORE_COMMIT, None, LOG)
    Path(three.path("src"), "_delta_log", f"{version:020}.json").unlink()

    outcome = three.consume(LOG, consumer="first")

    assert outcome.statements[0].result.value == "already_applied"
    assert three.rows("log") == ALL
    assert (offset(three), phase(three)) == (2, Phase.IDLE)


@pytest.mark.thorough
def test_partly_applied_consumption_is_undone_if_source_commits_are_lost(
    three: StreamLab,
) -> None:
    crash(three, ProtocolPoint.BEFORE_STATEMENT, 1, LOG, SUMS)
    Path(three.path("src"), "_delta_log", f"{1:020}.json").unlink()

    with pytest.raises(StreamStale):
        three.consume(LOG, SUMS, consumer="first")

    assert three.rows("log") == [(0, "kept", "x")]
    assert (offset(three), phase(three)) == (0, Phase.IDLE)


def test_retry_does_not_write_to_another_table_under_its_targets_name(
    three: StreamLab,
) -> None:
    def name(table: str) -> None:
        three.spark.sql("DROP TABLE IF EXISTS renamed")
        three.spark.sql(f"CREATE TABLE renamed USING delta LOCATION '{three.path(table)}'")

    statement = "INSERT INTO renamed SELECT id, v, METADATA$ACTION FROM s"
    name("log")
    try:
        crash(three, ProtocolPoint.BEFORE_STATEMENT, 0, statement, SUMS)
        name("other")
        with pytest.raises(ConsumptionOpen, match="is a different table than"):
            three.consume(statement, SUMS, consumer="first")
        assert three.rows("other") == []

        name("log")
        three.consume(statement, SUMS, consumer="first")
    finally:
        three.spark.sql("DROP TABLE IF EXISTS renamed")
    assert three.rows("log") == ALL
    assert three.rows("sums") == [(0, 1020), (1, 2010)]


def test_statement_without_a_commit_in_the_log_does_not_count_as_applied(
    three: StreamLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = statement_writer.idempotent_write
    pending = [nullcontext()]
    monkeypatch.setattr(
        statement_writer, "idempotent_write", lambda *how: pending.pop() if pending else write(*how)
    )

    with pytest.raises(OutcomeUnknown, match="does not show a statement that returned"):
        three.consume(LOG)

    assert phase(three) is Phase.APPLYING
