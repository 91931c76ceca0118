"""Consumptions: what consumes, what every statement sees, and what remains after a failure."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from stream_lab import Crash, CrashAt, StreamLab
from table_copies import copy_later_commits, copy_tables

from airflow_provider_cdc.engine import (
    ConsumptionOpen,
    Engine,
    InvalidRequest,
    InvalidStatement,
    OutcomeUnknown,
    Progress,
    ProtocolPoint,
    StatementFailed,
    StreamConflict,
    StreamNotFound,
    StreamStale,
    TableNotFound,
)
from airflow_provider_cdc.engine.core.model import Phase
from airflow_provider_cdc.engine.spark.targets import Targets

TRACKED = "'delta.enableRowTracking' = 'true'"
LOG = "INSERT INTO {log} SELECT id, v, METADATA$ACTION FROM s"
OTHER = "INSERT INTO {other} SELECT id, v, METADATA$ACTION FROM s"
NUMBERS = "INSERT INTO {numbers} SELECT CAST(v AS INT) FROM s"
SUMS = """
    MERGE INTO {sums} t USING (
        SELECT id % 2 AS k, sum(IF(METADATA$ACTION = 'INSERT', 1, -1) * try_cast(v AS INT)) AS d
        FROM s GROUP BY id % 2
    ) c ON t.k = c.k
    WHEN MATCHED THEN UPDATE SET total = t.total + c.d
    WHEN NOT MATCHED THEN INSERT (k, total) VALUES (c.k, c.d)
"""
FIRST = [(1, "10", "INSERT"), (2, "20", "INSERT")]


@pytest.fixture(scope="module")
def template(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> StreamLab:
    lab = StreamLab(spark, tmp_path_factory.mktemp("template"))
    lab.make("src", "id INT, v STRING", properties=TRACKED)
    lab.make("log", "id INT, v STRING, action STRING")
    lab.make("other", "id INT, v STRING, action STRING")
    lab.make("sums", "k INT, total BIGINT")
    lab.make("numbers", "n INT")
    lab.make("dim", "id INT, n INT", properties=TRACKED)
    lab.sql(
        "INSERT INTO {src} VALUES (1, '10'), (2, '20')",
        "INSERT INTO {src} VALUES (3, 'x')",
        "INSERT INTO {log} VALUES (0, 'kept', 'x')",
        "INSERT INTO {sums} VALUES (0, 1000), (1, 2000)",
        "INSERT INTO {dim} VALUES (1, 100)",
    )
    return lab


@pytest.fixture
def lab(template: StreamLab, tmp_path: Path) -> StreamLab:
    """Streams ``s`` on ``src`` with two rows and ``d`` on ``dim`` with one row to consume; the
    targets ``log`` and ``other`` are empty.
    """
    lab = StreamLab(template.spark, tmp_path)
    copy_tables(template.root, tmp_path, {"src": 0, "dim": 0, "log": 0, "other": 0})
    lab.engine.create_stream("s", on_table=lab.path("src"))
    lab.engine.create_stream("d", on_table=lab.path("dim"))
    copy_later_commits(template.root, tmp_path, "src", 1)
    copy_later_commits(template.root, tmp_path, "dim", 1)
    return lab


@pytest.fixture
def three(lab: StreamLab, template: StreamLab) -> StreamLab:
    """Targets with rows of their own, and a value in ``src`` that is no number."""
    copy_tables(template.root, lab.root, {"sums": 1, "numbers": 0})
    copy_later_commits(template.root, lab.root, "src", 2)
    copy_later_commits(template.root, lab.root, "log", 1)
    return lab


def before(point: ProtocolPoint, act: Callable[[], Any], index: int | None = None) -> Any:
    """A listener that does ``act`` once, at ``point`` of statement ``index``."""
    pending = [act]

    def listener(progress: Progress) -> None:
        if progress.point is point and progress.statement_index == index and pending:
            pending.pop()()

    return listener


def crash(lab: StreamLab, point: ProtocolPoint, index: int | None, *statements: str) -> None:
    """Leave a consumption of consumer ``first`` standing at ``point``."""
    with pytest.raises(Crash):
        lab.consume(*statements, consumer="first", engine=lab.new_engine(CrashAt(point, index)))


def transitions(lab: StreamLab, stream: str = "s") -> list[str]:
    return [record.transition.value for record in lab.engine._catalog.history(stream)]


def offset(lab: StreamLab, stream: str = "s") -> int:
    return lab.engine.describe_stream(stream).offset_version


def phase(lab: StreamLab, stream: str = "s") -> Phase:
    return lab.engine._catalog.describe(stream).phase


def contents(lab: StreamLab, *tables: str) -> dict[str, list[tuple[Any, ...]]]:
    return {table: lab.rows(table) for table in tables}


# What consumes, and what every statement sees


def test_statements_source_written_in_between_see_the_same_records(lab: StreamLab) -> None:
    write = before(
        ProtocolPoint.BEFORE_STATEMENT,
        lambda: lab.sql("INSERT INTO {src} VALUES (3, '30')", "DELETE FROM {src} WHERE id = 1"),
        1,
    )

    outcome = lab.consume(LOG, OTHER, engine=lab.new_engine(write))

    assert lab.rows("log") == lab.rows("other") == FIRST
    assert outcome.streams[0].rows == {"inserted": 2, "updated": 0, "deleted": 0}
    lab.consume(LOG)
    assert lab.rows("log") == sorted([*FIRST, (1, "10", "DELETE"), (3, "30", "INSERT")], key=repr)


def test_insert_of_no_rows_consumes_the_stream(lab: StreamLab) -> None:
    lab.consume(LOG + " WHERE 0 = 1")

    assert lab.rows("log") == []
    assert lab.engine.has_data("s") is False


def test_statement_without_stream_beside_one_with_stream_takes_part(lab: StreamLab) -> None:
    lab.consume("INSERT INTO {other} VALUES (7, '', '')", LOG)

    assert lab.rows("other") == [(7, "", "")]
    assert lab.rows("log") == FIRST


def test_consuming_an_empty_stream_moves_its_offset(lab: StreamLab) -> None:
    lab.consume(LOG)
    lab.sql("ALTER TABLE {src} SET TBLPROPERTIES ('note' = 'x')")

    lab.consume(LOG)

    assert offset(lab) == lab.version("src") == 2
    assert lab.rows("log") == FIRST
    assert transitions(lab)[-2:] == ["begun", "committed"]


@pytest.fixture(scope="module")
def refusing(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> StreamLab:
    """A lab for calls that write nothing, so that one serves them all."""
    lab = StreamLab(spark, tmp_path_factory.mktemp("refusing"))
    lab.make("src", "id INT, v STRING", properties=TRACKED)
    lab.make("log", "id INT, v STRING, action STRING")
    spark.range(1).write.parquet(lab.path("flat"))
    lab.engine.create_stream("s", on_table=lab.path("src"))
    lab.sql("INSERT INTO {src} VALUES (1, '10'), (2, '20')")
    return lab


@pytest.mark.parametrize(
    ("statements", "error", "message"),
    [
        ([], InvalidStatement, "has no statement"),
        (["SELECT * FROM s"], InvalidStatement, "it is a query"),
        ([LOG, "SELECT * FROM s"], InvalidStatement, "it is a query"),
        (["INSERT INTO {log} VALUES (1, 'a', 'b')"], InvalidStatement, "no statement reads a str"),
        (["INSERT INTO {log} SELECT id, v, 'x' FROM"], InvalidStatement, "cannot be parsed"),
        ([LOG, "INSERT INTO {log} SELECT nope, v, 'x' FROM s"], InvalidStatement, "nope"),
        ([LOG, "INSERT INTO {missing} SELECT id FROM s"], TableNotFound, "does not exist"),
        ([LOG, "INSERT INTO gone SELECT id FROM s"], TableNotFound, "does not exist"),
        ([LOG, "INSERT INTO {flat} SELECT id FROM s"], InvalidStatement, "cannot be the target"),
        (["INSERT INTO s SELECT * FROM s"], InvalidStatement, "writes to stream s"),
        (["TRUNCATE TABLE {log}", LOG], InvalidStatement, "cannot take part"),
        ([LOG, "CREATE TABLE {log} USING delta AS SELECT * FROM s"], InvalidStatement, "exists"),
        (["CREATE TABLE {made} USING delta AS SELECT nope FROM s"], InvalidStatement, "nope"),
        (
            [
                "CREATE TABLE {made} USING delta AS SELECT id FROM s",
                "INSERT INTO {log} SELECT nope, v, 'x' FROM s",
            ],
            InvalidStatement,
            "nope",
        ),
        (["CREATE TABLE {made} USING delta AS SELECT * FROM s"] * 2, InvalidStatement, "exists"),
        (["UPDATE {log} SET v = 'x' WHERE id IN (SELECT id FROM s)"], InvalidStatement, "UPDATE"),
    ],
)
def test_statements_that_cannot_consume_are_refused_before_anything_is_written(
    refusing: StreamLab, statements: list[str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        refusing.consume(*statements)

    assert refusing.version("log") == 0
    assert not Path(refusing.path("made"), "_delta_log").exists()
    assert transitions(refusing) == ["created"]


def test_update_with_a_stream_in_its_assignment_is_refused_or_consumes(lab: StreamLab) -> None:
    lab.make("total", "n INT")
    lab.sql("INSERT INTO {total} VALUES (5)")
    try:
        lab.consume("UPDATE {total} SET n = n + (SELECT CAST(count(*) AS INT) FROM s)")
    except InvalidStatement:
        assert lab.rows("total") == [(5,)]
        assert transitions(lab) == ["created"]
    else:
        assert lab.rows("total") == [(7,)]
        assert lab.engine.has_data("s") is False


def test_stream_names_in_statements_ignore_case(lab: StreamLab) -> None:
    lab.consume(LOG.replace("FROM s", "FROM S"))

    assert lab.rows("log") == FIRST
    assert lab.engine.has_data("S") is False


def test_create_table_as_at_a_path_makes_and_fills_it(lab: StreamLab) -> None:
    outcome = lab.consume("CREATE TABLE {made} USING delta AS SELECT id, v FROM s", LOG)

    assert lab.rows("made") == [(1, "10"), (2, "20")]
    assert outcome.statements[0].metrics["numOutputRows"] == 2
    assert lab.engine.has_data("s") is False


def test_create_table_as_by_name_makes_and_fills_it(lab: StreamLab) -> None:
    spark = lab.spark
    location = f"LOCATION '{lab.path('a place. b')}'"
    try:
        lab.consume(f"CREATE TABLE made_by_name USING delta {location} AS SELECT id, v FROM s")
        assert sorted(map(tuple, spark.table("made_by_name").collect())) == [(1, "10"), (2, "20")]
        lab.sql("DELETE FROM {src} WHERE id = 1")
        lab.consume(
            "MERGE INTO default.made_by_name t USING s ON s.id = t.id"
            " WHEN MATCHED AND METADATA$ACTION = 'DELETE' THEN DELETE"
        )
        assert list(map(tuple, spark.table("made_by_name").collect())) == [(2, "20")]
    finally:
        spark.sql("DROP TABLE IF EXISTS made_by_name")


def test_create_or_replace_table_as_on_an_existing_target_replaces_it(lab: StreamLab) -> None:
    lab.consume("CREATE OR REPLACE TABLE {log} USING delta AS SELECT id FROM s")

    assert lab.rows("log") == [(1,), (2,)]
    assert lab.engine.has_data("s") is False


def test_several_streams_advance_together(lab: StreamLab) -> None:

    outcome = lab.consume(
        "INSERT INTO {log} SELECT s.id, s.v, string(d.n) FROM s JOIN d ON s.id = d.id"
    )

    assert lab.rows("log") == [(1, "10", "100")]
    assert [item.name for item in outcome.streams] == ["s", "d"]
    assert (offset(lab, "s"), offset(lab, "d")) == (1, 1)


def test_several_streams_failing_statement_advances_none(lab: StreamLab) -> None:

    with pytest.raises(StatementFailed):
        lab.consume(LOG, "INSERT INTO {other} SELECT id, raise_error('no'), '' FROM d")

    assert (offset(lab, "s"), offset(lab, "d")) == (0, 0)
    assert (phase(lab, "s"), phase(lab, "d")) == (Phase.IDLE, Phase.IDLE)
    assert lab.rows("log") == []


def test_several_streams_one_of_them_open_elsewhere_are_freed_first(lab: StreamLab) -> None:
    crash(lab, ProtocolPoint.BEFORE_STATEMENT, 1, LOG, OTHER)

    lab.consume(LOG, "INSERT INTO {other} SELECT id, '', '' FROM d", consumer="second")

    assert lab.rows("log") == FIRST
    assert lab.rows("other") == [(1, "", "")]
    assert (offset(lab, "s"), offset(lab, "d")) == (1, 1)


def test_advance_moves_the_offset_without_dml(lab: StreamLab) -> None:
    lab.engine.advance("s")

    assert lab.engine.has_data("s") is False
    assert transitions(lab) == ["created", "advanced"]


def test_advance_with_an_open_consumption_is_refused(lab: StreamLab) -> None:
    crash(lab, ProtocolPoint.AFTER_BEGIN, None, LOG)

    with pytest.raises(StreamConflict, match=r"cannot be advanced while it is applying.*of first"):
        lab.engine.advance("s")


def test_two_streams_on_one_table_do_not_disturb_each_other(lab: StreamLab) -> None:
    lab.engine.create_stream("late", on_table=lab.path("src"))
    lab.consume(LOG)
    lab.sql("UPDATE {src} SET v = '11' WHERE id = 1")

    lab.consume(OTHER.replace("FROM s", "FROM late"), consumer="late")

    update = [(1, "10", "DELETE"), (1, "11", "INSERT")]
    assert lab.rows("other") == update
    assert (offset(lab, "s"), offset(lab, "late")) == (1, 2)
    lab.consume(LOG)
    assert lab.rows("log") == sorted(FIRST + update, key=repr)


def test_session_is_clean_after_success_and_after_failure(three: StreamLab) -> None:
    spark = three.spark
    with pytest.raises(StatementFailed):
        three.consume(LOG, NUMBERS)
    three.consume(LOG)

    for setting in ("write.txnAppId", "write.txnVersion", "commitInfo.userMetadata"):
        assert spark.conf.get(f"spark.databricks.delta.{setting}", None) is None
    assert [table.name for table in spark.catalog.listTables() if table.isTemporary] == []
    assert list((three.root / "state" / "scratch").glob("*")) == []


# A statement that fails


def test_single_statement_that_fails_leaves_target_and_offset(three: StreamLab) -> None:
    found = contents(three, "numbers")

    with pytest.raises(StatementFailed, match=r"statement 0 on .*numbers.*CAST_INVALID_INPUT"):
        three.consume(NUMBERS)

    assert contents(three, "numbers") == found
    assert offset(three) == 0
    assert transitions(three) == ["created", "begun", "resolving", "aborted"]


def test_second_of_three_that_fails_leaves_all_targets_and_a_retry_works(three: StreamLab) -> None:
    found = contents(three, "log", "numbers", "sums")

    with pytest.raises(StatementFailed, match="statement 1 on"):
        three.consume(LOG, NUMBERS, SUMS, consumer="me")

    assert contents(three, "log", "numbers", "sums") == found
    assert offset(three) == 0
    assert transitions(three)[-1] == "aborted"
    failed = three.engine._catalog.history("s")[1].stream.consumption
    assert failed is not None
    three.sql("UPDATE {src} SET v = '30' WHERE id = 3")
    outcome = three.consume(LOG, NUMBERS, SUMS, consumer="me")
    assert outcome.consumption_id != failed.consumption_id
    assert three.rows("log") == [(0, "kept", "x"), *FIRST, (3, "30", "INSERT")]
    assert three.rows("numbers") == [(10,), (20,), (30,)]
    assert three.rows("sums") == [(0, 1020), (1, 2040)]


@pytest.mark.parametrize(
    ("columns", "setup"),
    [
        ("id INT, v STRING NOT NULL", None),
        ("id INT, v STRING", "ALTER TABLE {strict} ADD CONSTRAINT plain CHECK (v <> 'x')"),
    ],
    ids=["not null", "check"],
)
def test_statement_that_breaks_a_constraint_is_undone_like_any(
    three: StreamLab, columns: str, setup: str | None
) -> None:
    three.make("strict", columns)
    if setup:
        three.sql(setup)

    with pytest.raises(StatementFailed, match="statement 1 on"):
        three.consume(
            LOG,
            "INSERT INTO {strict} SELECT id, nullif(v, 'x') FROM s"
            if setup is None
            else "INSERT INTO {strict} SELECT id, v FROM s",
        )

    assert contents(three, "log", "strict") == {"log": [(0, "kept", "x")], "strict": []}
    assert transitions(three)[-1] == "aborted"


def test_two_statements_on_one_target_are_undone_together(three: StreamLab) -> None:
    with pytest.raises(StatementFailed):
        three.consume(LOG, "DELETE FROM {log} WHERE id = 0", LOG, NUMBERS)

    assert three.rows("log") == [(0, "kept", "x")]


def test_create_table_as_beside_a_failing_statement_leaves_no_table(three: StreamLab) -> None:
    create = "CREATE TABLE {made} USING delta AS SELECT id, v FROM s"
    with pytest.raises(StatementFailed):
        three.consume(create, NUMBERS)

    assert not Path(three.path("made")).exists()
    three.consume(create)
    assert len(three.rows("made")) == 3


def test_create_table_as_that_fails_leaves_no_table(three: StreamLab) -> None:
    with pytest.raises(StatementFailed):
        three.consume(LOG, "CREATE TABLE {made} USING delta AS SELECT CAST(v AS INT) AS n FROM s")

    assert not Path(three.path("made")).exists()
    assert three.rows("log") == [(0, "kept", "x")]


def test_create_or_replace_beside_a_failing_statement_brings_the_old_table_back(
    three: StreamLab,
) -> None:
    with pytest.raises(StatementFailed):
        three.consume("CREATE OR REPLACE TABLE {log} USING delta AS SELECT id FROM s", NUMBERS)

    assert three.rows("log") == [(0, "kept", "x")]


def foreign(lab: StreamLab) -> Callable[[], None]:
    return lambda: lab.sql("INSERT INTO {log} VALUES (99, 'foreign', 'y')")


def left_open(lab: StreamLab) -> None:
    """Statement 0 applied, a foreign commit on its target, statement 1 failed."""
    engine = lab.new_engine(before(ProtocolPoint.AFTER_STATEMENT, foreign(lab), 0))
    with pytest.raises(ConsumptionOpen) as caught:
        lab.consume(LOG, NUMBERS, SUMS, consumer="me", engine=engine)
    message = str(caught.value)
    assert lab.path("log") in message
    assert "run me again" in message
    assert f"keep=['delta.`{lab.path('log')}`']" in message


def test_target_that_moved_on_leaves_the_consumption_open_until_retried(three: StreamLab) -> None:
    found = contents(three, "numbers", "sums")
    left_open(three)
    assert contents(three, "numbers", "sums") == found
    assert phase(three) is Phase.APPLYING

    with pytest.raises(ConsumptionOpen):
        three.consume(LOG, NUMBERS, SUMS, consumer="me")
    three.spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        outcome = three.consume(LOG, NUMBERS, SUMS, consumer="me")
    finally:
        three.spark.conf.unset("spark.sql.ansi.enabled")

    assert [item.result.value for item in outcome.statements] == [
        "already_applied",
        "applied",
        "applied",
    ]
    expected = [(0, "kept", "x"), *FIRST, (3, "x", "INSERT"), (99, "foreign", "y")]
    assert three.rows("log") == expected
    assert three.rows("sums") == [(0, 1020), (1, 2010)]
    assert three.engine.has_data("s") is False


def test_target_that_moved_on_is_ended_by_abort_with_keep(three: StreamLab) -> None:
    left_open(three)
    with pytest.raises(ConsumptionOpen):
        three.engine.abort("s")
    with pytest.raises(ConsumptionOpen):
        three.consume(SUMS, consumer="another")

    three.engine.abort("s", keep=[three.path("log")])

    assert transitions(three)[-1] == "aborted"
    assert offset(three) == 0
    assert len(three.rows("log")) == 5
    assert three.rows("sums") == [(0, 1000), (1, 2000)]
    three.consume(SUMS, consumer="another")
    assert three.rows("sums") == [(0, 1020), (1, 2010)]


def test_abort_keep_of_no_target_is_refused(three: StreamLab) -> None:
    crash(three, ProtocolPoint.BEFORE_STATEMENT, 1, LOG, SUMS)

    with pytest.raises(InvalidRequest, match="logg"):
        three.engine.abort("s", keep=[three.path("logg")])

    assert len(three.rows("log")) == 4
    assert phase(three) is Phase.APPLYING


def test_abort_without_keep_undoes_what_was_applied(three: StreamLab) -> None:
    crash(three, ProtocolPoint.BEFORE_STATEMENT, 1, LOG, SUMS)

    three.engine.abort("s")

    assert three.rows("log") == [(0, "kept", "x")]
    assert offset(three) == 0
    assert phase(three) is Phase.IDLE
    with pytest.raises(StreamConflict, match="has no open consumption"):
        three.engine.abort("s")


def test_abort_of_what_is_fully_applied_undoes_it(three: StreamLab) -> None:
    crash(three, ProtocolPoint.BEFORE_COMMIT, None, LOG, SUMS)

    three.engine.abort("s")

    assert three.rows("log") == [(0, "kept", "x")]
    assert three.rows("sums") == [(0, 1000), (1, 2000)]
    assert offset(three) == 0


def test_abort_while_its_driver_commits_lets_only_one_of_them_win(three: StreamLab) -> None:
    """The driver stands before its commit; an abort undoes one target; then the driver goes on."""
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
        three.new_engine(before(ProtocolPoint.BEFORE_UNDO, abort_lets_driver_go, 0)).abort("s")
    finally:
        abort_before_undo.set()
        thread.join()

    assert [type(error) for error in raised] == [StreamConflict]
    assert three.rows("log") == [(0, "kept", "x")]
    assert three.rows("sums") == [(0, 1000), (1, 2000)]
    assert offset(three) == 0


def test_abort_that_crashed_is_not_rolled_forward_by_another_consumer(three: StreamLab) -> None:
    """An abort of what was wholly applied crashes after the first target was undone."""
    crash(three, ProtocolPoint.BEFORE_COMMIT, None, LOG, SUMS)
    with pytest.raises(Crash):
        three.new_engine(CrashAt(ProtocolPoint.BEFORE_UNDO, 0)).abort("s")

    three.consume(LOG, SUMS, consumer="second")

    assert three.rows("log") == [(0, "kept", "x"), *FIRST, (3, "x", "INSERT")]
    assert three.rows("sums") == [(0, 1020), (1, 2010)]


@pytest.mark.parametrize("replace", ["dropped", "recreated"])
def test_target_that_was_replaced_can_be_given_up_with_keep(three: StreamLab, replace: str) -> None:
    three.spark.sql("CREATE TABLE vanishing (id INT, v STRING, action STRING) USING delta")
    statement = LOG.replace("{log}", "vanishing")
    crash(three, ProtocolPoint.AFTER_STATEMENT, 1, SUMS, statement, NUMBERS)
    three.spark.sql("DROP TABLE vanishing")
    if replace == "recreated":
        three.spark.sql("CREATE TABLE vanishing (id INT, v STRING, action STRING) USING delta")
    try:
        if replace == "dropped":
            with pytest.raises(ConsumptionOpen, match="keep="):
                three.consume(SUMS, consumer="second")
        three.engine.abort("s", keep=["vanishing"])
        assert three.rows("sums") == [(0, 1000), (1, 2000)]
        assert phase(three) is Phase.IDLE
    finally:
        three.spark.sql("DROP TABLE IF EXISTS vanishing")


def test_neutral_commit_in_between_does_not_block_the_undo(three: StreamLab) -> None:
    engine = three.new_engine(
        before(ProtocolPoint.AFTER_STATEMENT, lambda: three.sql("OPTIMIZE {log}"), 0)
    )
    with pytest.raises(StatementFailed):
        three.consume(LOG, NUMBERS, engine=engine)

    assert three.rows("log") == [(0, "kept", "x")]
    assert phase(three) is Phase.IDLE


def test_foreign_commit_between_check_and_undo_is_not_wiped_out(
    three: StreamLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore = Targets._restore
    pending = [foreign(three)]

    def late(targets: Targets, *arguments: Any) -> None:
        if pending:
            pending.pop()()
        restore(targets, *arguments)

    monkeypatch.setattr(Targets, "_restore", late)
    with pytest.raises(ConsumptionOpen, match="keep="):
        three.consume(LOG, NUMBERS, consumer="me")

    applied = [(0, "kept", "x"), *FIRST, (3, "x", "INSERT"), (99, "foreign", "y")]
    assert three.rows("log") == applied
    assert phase(three) is Phase.APPLYING
    three.spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        three.consume(LOG, NUMBERS, consumer="me")
    finally:
        three.spark.conf.unset("spark.sql.ansi.enabled")
    assert three.rows("log") == applied


def test_undo_that_another_driver_did_first_is_taken_for_its_own(
    three: StreamLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore = Targets._restore

    def refused(targets: Targets, *arguments: Any) -> None:
        restore(targets, *arguments)
        raise RuntimeError("a concurrent write has come first")

    monkeypatch.setattr(Targets, "_restore", refused)
    with pytest.raises(StatementFailed):
        three.consume(LOG, NUMBERS)

    assert three.rows("log") == [(0, "kept", "x")]
    assert transitions(three)[-1] == "aborted"


def test_undo_that_is_refused_is_gone_on_with_by_the_next_attempt(
    three: StreamLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> None:
        raise RuntimeError("the store is away")

    monkeypatch.setattr(Targets, "_restore", refused)
    with pytest.raises(OutcomeUnknown, match=r"could not be restored.*the store is away"):
        three.consume(LOG, NUMBERS, consumer="me")
    assert phase(three) is Phase.RESOLVING
    monkeypatch.undo()

    three.consume(LOG, SUMS, consumer="me")

    assert len(three.rows("log")) == 4
    assert three.rows("sums") == [(0, 1020), (1, 2010)]


def test_crash_between_undo_and_its_check_does_not_lose_a_foreign_commit(
    three: StreamLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore = Targets._restore

    def late(targets: Targets, *arguments: Any) -> None:
        foreign(three)()
        restore(targets, *arguments)
        raise Crash("right after the RESTORE")

    monkeypatch.setattr(Targets, "_restore", late)
    with pytest.raises(Crash):
        three.consume(LOG, NUMBERS, consumer="me")
    monkeypatch.undo()

    with pytest.raises(ConsumptionOpen, match="keep="):
        three.consume(SUMS, consumer="second")

    assert (99, "foreign", "y") in three.rows("log")
    assert (1, "10", "INSERT") in three.rows("log")
    assert phase(three) is Phase.APPLYING


# Crashes, retries, takeovers


def test_delete_that_matches_nothing_is_confirmed_and_not_repeated(three: StreamLab) -> None:
    delete = "DELETE FROM {log} WHERE id = 77"
    crash(three, ProtocolPoint.BEFORE_STATEMENT, 1, delete, SUMS)
    three.sql("INSERT INTO {log} VALUES (77, 'later', 'z')")

    outcome = three.consume(delete, SUMS, consumer="first")

    assert outcome.statements[0].result.value == "already_applied"
    assert (77, "later", "z") in three.rows("log")
    assert three.rows("sums") == [(0, 1020), (1, 2010)]


def test_retry_with_changed_statements_undoes_and_begins_anew(three: StreamLab) -> None:
    crash(three, ProtocolPoint.BEFORE_STATEMENT, 1, LOG, SUMS)

    three.consume(OTHER, SUMS, consumer="first")

    assert three.rows("log") == [(0, "kept", "x")]
    assert len(three.rows("other")) == 3
    assert three.rows("sums") == [(0, 1020), (1, 2010)]


def test_retry_with_changed_statements_after_all_were_applied_commits_the_old(
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


def test_driver_that_fails_beside_another_one_of_its_consumer_fences_it(three: StreamLab) -> None:
    """One driver waits before the statement that fails; the other one fails it and ends all."""
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


# Several consumers


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


def test_consumer_begins_while_another_resolves_ends_with_each_change_once(
    three: StreamLab,
) -> None:
    """Two consumers take over the same open consumption, one inside the other's undo."""
    crash(three, ProtocolPoint.BEFORE_STATEMENT, 1, LOG, SUMS)
    inner = before(ProtocolPoint.BEFORE_UNDO, lambda: three.consume(LOG, SUMS, consumer="third"), 0)

    with pytest.raises((StreamConflict, ConsumptionOpen)):
        three.consume(LOG, SUMS, consumer="second", engine=three.new_engine(inner))

    three.consume(LOG, SUMS, consumer="second")
    assert len(three.rows("log")) == 4
    assert three.rows("sums") == [(0, 1020), (1, 2010)]


def test_fence_beside_the_same_fence_of_another_goes_on(
    three: StreamLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both consumers decide to fence; the later one finds the fence written already."""
    crash(three, ProtocolPoint.BEFORE_STATEMENT, 1, LOG, SUMS)
    inner = before(
        ProtocolPoint.BEFORE_FENCE, lambda: three.consume(LOG, SUMS, consumer="third"), 1
    )

    with pytest.raises((StreamConflict, ConsumptionOpen)):
        three.consume(LOG, SUMS, consumer="second", engine=three.new_engine(inner))

    assert len(three.rows("log")) == 4
    assert three.rows("sums") == [(0, 1020), (1, 2010)]


# Sources that change under the consumer


def test_source_dropped_and_recreated_makes_the_stream_stale(lab: StreamLab) -> None:
    spark = lab.spark
    spark.sql("CREATE TABLE born_twice (id INT) USING delta")
    try:
        lab.engine.create_stream("t", on_table="born_twice")
        spark.sql("DROP TABLE born_twice")
        with pytest.raises(StreamStale, match="is gone"):
            lab.consume("INSERT INTO {log} SELECT id, '', '' FROM t")
        spark.sql(f"CREATE TABLE born_twice (id INT) USING delta TBLPROPERTIES ({TRACKED})")
        for value in range(4):
            spark.sql(f"INSERT INTO born_twice VALUES ({value})")
        with pytest.raises(StreamStale, match="was replaced"):
            lab.consume("INSERT INTO {log} SELECT id, '', '' FROM t")
    finally:
        spark.sql("DROP TABLE IF EXISTS born_twice")
    assert lab.engine.describe_stream("t").stale
    assert lab.rows("log") == []


def test_stream_that_does_not_exist_is_a_table_like_any_other(lab: StreamLab) -> None:
    with pytest.raises(StreamNotFound):
        lab.engine.read_stream("gone")
    with pytest.raises(InvalidStatement, match="no statement reads a stream"):
        lab.consume("INSERT INTO {log} SELECT id, v, '' FROM gone")


def test_engine_with_another_state_folder_knows_no_stream_of_this_one(lab: StreamLab) -> None:
    elsewhere = Engine(lab.spark, str(lab.root / "elsewhere"))

    with pytest.raises(InvalidStatement):
        lab.consume(LOG, engine=elsewhere)
    assert elsewhere.show_streams() == []
