"""Which statements consume a stream, and which changes each statement of a consumption sees."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from scenes import (
    FIRST,
    LOG,
    NUMBERS,
    OTHER,
    TRACKED,
    before,
    crash,
    offset,
    phase,
    transitions,
)
from stream_lab import StreamLab

from airflow_provider_cdc.engine import (
    Engine,
    InvalidStatement,
    ProtocolPoint,
    StatementFailed,
    StreamConflict,
    StreamNotFound,
    StreamStale,
    TableNotFound,
)
from airflow_provider_cdc.engine.core.model.stream import Phase
from airflow_provider_cdc.engine.spark.consumption import stream_views


@pytest.mark.thorough
def test_statements_see_the_same_records_if_the_source_changes_between(lab: StreamLab) -> None:
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


@pytest.mark.thorough
@pytest.mark.parametrize("targets", [("log",), ("log", "other")], ids=["once", "twice"])
def test_outcome_of_an_append_only_stream_counts_only_inserts(
    lab: StreamLab, targets: tuple[str, ...]
) -> None:
    lab.engine.create_stream("a", on_table=lab.path("src"), mode="append_only")
    steps = [
        ("INSERT INTO {src} VALUES (10, 'a'), (11, 'b')", "INSERT INTO {src} VALUES (12, 'c')"),
        ("INSERT INTO {src} VALUES (13, 'd')", "UPDATE {src} SET v = 'e' WHERE id = 13"),
        (
            "MERGE INTO {src} t USING (SELECT 10 AS id UNION ALL SELECT 14 AS id) c ON t.id = c.id"
            " WHEN MATCHED THEN UPDATE SET v = 'f' WHEN NOT MATCHED THEN INSERT (id) VALUES (c.id)",
        ),
        ("INSERT INTO {src} VALUES (15, 'g')", "DELETE FROM {src} WHERE id IN (10, 15)"),
    ]
    for inserted, statements in zip((3, 1, 1, 1), steps, strict=True):
        lab.sql(*statements, "DELETE FROM {log}", "DELETE FROM {other}")
        texts = [f"INSERT INTO {{{name}}} SELECT id, v, METADATA$ACTION FROM a" for name in targets]
        outcome = lab.consume(*texts)
        assert outcome.streams[0].rows == {"inserted": inserted, "updated": 0, "deleted": 0}
        assert [len(lab.rows(name)) for name in targets] == [inserted] * len(targets)


def test_inserts_of_a_standard_stream_are_counted_by_the_log(
    lab: StreamLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing may be kept or counted by reading.
    monkeypatch.delattr(stream_views, "_kept")
    monkeypatch.delattr(stream_views, "_kinds")

    outcome = lab.consume(LOG)

    assert outcome.streams[0].rows == {"inserted": 2, "updated": 0, "deleted": 0}
    assert lab.rows("log") == FIRST


def test_rows_that_a_restore_brings_back_are_counted_beside_new_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    lab = StreamLab(spark, tmp_path)
    lab.make(
        "src",
        "id INT, v STRING",
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, 'v' FROM range(5)",
        properties=f"{TRACKED}, 'delta.enableDeletionVectors' = 'true'",
    )
    lab.make("log", "id INT, v STRING, action STRING")
    lab.sql("DELETE FROM {src} WHERE id < 2")
    lab.engine.create_stream("s", on_table=lab.path("src"))
    lab.sql("RESTORE {src} TO VERSION AS OF 1", "INSERT INTO {src} VALUES (7, 'new')")

    outcome = lab.consume(LOG)

    assert outcome.streams[0].rows == {"inserted": 3, "updated": 0, "deleted": 0}
    assert [row[0] for row in lab.rows("log")] == [0, 1, 7]


@pytest.mark.thorough
def test_insert_of_no_rows_consumes_the_stream(lab: StreamLab) -> None:
    lab.consume(LOG + " WHERE 0 = 1")

    assert lab.rows("log") == []
    assert lab.engine.stream_has_data("s") is False


@pytest.mark.thorough
def test_statement_without_a_stream_runs_beside_one_with_a_stream(lab: StreamLab) -> None:
    lab.consume("INSERT INTO {other} VALUES (7, '', '')", LOG)

    assert lab.rows("other") == [(7, "", "")]
    assert lab.rows("log") == FIRST


def test_delete_and_update_by_rows_of_a_stream_run_as_merges(lab: StreamLab) -> None:
    lab.sql(
        "INSERT INTO {log} VALUES (1, 'in', 'x'), (2, 'kept', 'x'), (3, 'out', 'x')",
        "INSERT INTO {log} VALUES (NULL, 'n', 'x')",
        "INSERT INTO {other} VALUES (1, '10', 'x'), (1, '11', 'x'), (2, NULL, 'x'), (3, '30', 'x')",
    )

    outcome = lab.consume(
        "DELETE FROM {log} AS t WHERE t.id IN (SELECT id FROM s) AND v <> 'kept'",
        "UPDATE {other} SET action = concat(v, '!') WHERE (id, v) IN (SELECT id, v FROM s)",
    )

    assert lab.rows("log") == [(2, "kept", "x"), (3, "out", "x"), (None, "n", "x")]
    assert lab.rows("other") == [
        (1, "10", "10!"),
        (1, "11", "x"),
        (2, None, "x"),
        (3, "30", "x"),
    ]
    assert [str(each.rewritten_as)[:10] for each in outcome.statements] == ["MERGE INTO"] * 2
    assert lab.engine.stream_has_data("s") is False


@pytest.mark.thorough
def test_consuming_an_empty_stream_moves_its_offset(lab: StreamLab) -> None:
    lab.consume(LOG)
    lab.sql("ALTER TABLE {src} SET TBLPROPERTIES ('note' = 'x')")

    lab.consume(LOG)

    assert offset(lab) == lab.version("src") == 2
    assert lab.rows("log") == FIRST
    assert transitions(lab)[-2:] == ["begun", "committed"]


@pytest.fixture(scope="module")
def refusing(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> StreamLab:
    """A lab for calls that write nothing, so that all of them can share it."""
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
        (["FROM s INSERT INTO {log} SELECT id,\n v, nope"], InvalidStatement, "line 2 pos 4"),
        (["INSERT INTO {log} SELECT * FROM ss"], InvalidStatement, "did you mean s instead of"),
        (
            ["CREATE TABLE {made} USING delta AS SELECT * FROM s", "INSERT INTO {made} TABLE s"],
            TableNotFound,
            "an earlier statement of the consumption creates it",
        ),
        ([LOG, "INSERT INTO {missing} SELECT id FROM s"], TableNotFound, "does not exist"),
        ([LOG, "INSERT INTO missing SELECT id FROM s"], TableNotFound, "does not exist"),
        ([LOG, "INSERT INTO {flat} SELECT id FROM s"], InvalidStatement, "cannot be the target"),
        (["INSERT INTO s SELECT * FROM s"], InvalidStatement, "writes to stream s"),
        (["TRUNCATE TABLE {log}", LOG], InvalidStatement, "cannot take part"),
        ([LOG, "CREATE TABLE {log} USING delta AS SELECT * FROM s"], InvalidStatement, "exists"),
        (["CREATE TABLE {made} USING delta AS SELECT nope FROM s"], InvalidStatement, "nope"),
        (["CREATE TABLE made AS SELECT * FROM s"], InvalidStatement, "of the format parquet"),
        (["CREATE TABLE made USING csv AS TABLE s"], InvalidStatement, "of the format csv"),
        (
            [
                "CREATE TABLE {made} USING delta AS SELECT id FROM s",
                "INSERT INTO {log} SELECT nope, v, 'x' FROM s",
            ],
            InvalidStatement,
            "nope",
        ),
        (
            ["CREATE TABLE {made} USING delta AS SELECT * FROM s"] * 2,
            InvalidStatement,
            "2 statements create it",
        ),
        (
            ["UPDATE {log} SET v = 'x' WHERE id NOT IN (SELECT id FROM s)"],
            InvalidStatement,
            "UPDATE",
        ),
    ],
)
def test_statements_that_cannot_consume_are_refused_before_any_write(
    refusing: StreamLab, statements: list[str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        refusing.consume(*statements)

    # Spark appends its plan to its message, which does not help a user.
    assert "\n" not in str(caught.value)
    assert refusing.version("log") == 0
    assert not Path(refusing.path("made"), "_delta_log").exists()
    assert transitions(refusing) == ["created"]


@pytest.mark.thorough
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
        assert lab.engine.stream_has_data("s") is False


def test_stream_names_in_statements_ignore_case(lab: StreamLab) -> None:
    lab.consume(LOG.replace("FROM s", "FROM S"))

    assert lab.rows("log") == FIRST
    assert lab.engine.stream_has_data("S") is False


def test_insert_after_its_from_clause_in_one_text_consumes(lab: StreamLab) -> None:
    text = lab.text("FROM s INSERT INTO {log} SELECT id, v, METADATA$ACTION WHERE id < 3")

    outcome = lab.engine.consume(text, consumer="one")

    assert lab.rows("log") == FIRST
    assert [each.metrics["numOutputRows"] for each in outcome.statements] == [2]
    assert lab.engine.stream_has_data("s") is False


@pytest.mark.thorough
def test_create_table_as_at_a_path_fills_the_table_and_logs_its_steps(
    lab: StreamLab, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "airflow_provider_cdc")

    outcome = lab.consume(
        "CREATE TABLE {made} USING delta AS SELECT id, v FROM s", LOG, consumer="me"
    )

    assert lab.rows("made") == [(1, "10"), (2, "20")]
    assert outcome.statements[0].metrics["numOutputRows"] == 2
    assert lab.engine.stream_has_data("s") is False
    # Seconds, bytes and files differ in each run.
    lines = [re.sub(r"[0-9.]+ (s\b|kB|files?)", r"#", message) for message in caplog.messages]
    assert lines == [
        f"stream s: reads version 1 of {lab.name('src')} (1 commit, # in #) by file difference:"
        " no commit has change files",
        "stream s: 2 rows inserted, counted in #",
        f"statement 1 of 2 on {lab.name('made')}: 2 rows inserted in #, version 1; 50% done",
        f"statement 2 of 2 on {lab.name('log')}: 2 rows inserted in #, version 1; 100% done",
        "me: consumed s up to version 1 by 2 statements in #",
    ]


@pytest.mark.thorough
def test_create_table_as_by_name_creates_and_fills_the_table(lab: StreamLab) -> None:
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


@pytest.mark.thorough
def test_create_or_replace_table_as_on_an_existing_target_replaces_it(lab: StreamLab) -> None:
    lab.consume("CREATE OR REPLACE TABLE {log} USING delta AS SELECT id FROM s")

    assert lab.rows("log") == [(1,), (2,)]
    assert lab.engine.stream_has_data("s") is False


@pytest.mark.thorough
def test_several_streams_advance_together(lab: StreamLab) -> None:

    outcome = lab.consume(
        "INSERT INTO {log} SELECT s.id, s.v, string(d.n) FROM s JOIN d ON s.id = d.id"
    )

    assert lab.rows("log") == [(1, "10", "100")]
    assert [item.name for item in outcome.streams] == ["s", "d"]
    assert (offset(lab, "s"), offset(lab, "d")) == (1, 1)


@pytest.mark.thorough
def test_failing_statement_advances_none_of_several_streams(lab: StreamLab) -> None:

    with pytest.raises(StatementFailed):
        lab.consume(LOG, "INSERT INTO {other} SELECT id, raise_error('no'), '' FROM d")

    assert (offset(lab, "s"), offset(lab, "d")) == (0, 0)
    assert (phase(lab, "s"), phase(lab, "d")) == (Phase.IDLE, Phase.IDLE)
    assert lab.rows("log") == []


@pytest.mark.thorough
def test_consumption_of_several_streams_first_frees_one_open_elsewhere(lab: StreamLab) -> None:
    crash(lab, ProtocolPoint.BEFORE_STATEMENT, 1, LOG, OTHER)

    lab.consume(LOG, "INSERT INTO {other} SELECT id, '', '' FROM d", consumer="second")

    assert lab.rows("log") == FIRST
    assert lab.rows("other") == [(1, "", "")]
    assert (offset(lab, "s"), offset(lab, "d")) == (1, 1)


def test_advance_moves_the_offset_without_dml(lab: StreamLab) -> None:
    lab.engine.advance_stream("s")

    assert lab.engine.stream_has_data("s") is False
    assert transitions(lab) == ["created", "advanced"]


def test_advance_with_an_open_consumption_is_refused(lab: StreamLab) -> None:
    crash(lab, ProtocolPoint.AFTER_BEGIN, None, LOG)

    with pytest.raises(StreamConflict, match=r"cannot be advanced while it is applying.*of first"):
        lab.engine.advance_stream("s")


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_session_is_clean_after_success_and_after_failure(three: StreamLab) -> None:
    spark = three.spark
    with pytest.raises(StatementFailed):
        three.consume(LOG, NUMBERS)
    three.consume(LOG)

    for setting in ("write.txnAppId", "write.txnVersion", "commitInfo.userMetadata"):
        assert spark.conf.get(f"spark.databricks.delta.{setting}", None) is None
    views = spark.sql("SHOW VIEWS").collect()
    assert [view.viewName for view in views if view.isTemporary] == []
    assert list((three.root / "state" / "scratch").glob("*")) == []


@pytest.mark.thorough
def test_source_dropped_and_recreated_makes_the_stream_stale(lab: StreamLab) -> None:
    spark = lab.spark
    spark.sql("CREATE TABLE born_twice (id INT) USING delta")
    try:
        lab.engine.create_stream("t", on_table="born_twice")
        spark.sql("DROP TABLE born_twice")
        with pytest.raises(StreamStale, match="is missing"):
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


def test_name_of_a_missing_stream_counts_as_a_table_in_statements(lab: StreamLab) -> None:
    with pytest.raises(StreamNotFound):
        lab.engine.read_stream("missing")
    with pytest.raises(InvalidStatement, match="no statement reads a stream"):
        lab.consume("INSERT INTO {log} SELECT id, v, '' FROM missing")


def test_engine_with_another_state_folder_does_not_see_these_streams(lab: StreamLab) -> None:
    elsewhere = Engine(lab.spark, str(lab.root / "elsewhere"))

    with pytest.raises(InvalidStatement):
        lab.consume(LOG, engine=elsewhere)
    assert elsewhere.describe_streams() == []
