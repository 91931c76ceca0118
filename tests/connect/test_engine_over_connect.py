"""The engine over Spark Connect: the same calls, the same results, no JVM in this process."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession
from stream_lab import Change, Crash, CrashAt, StreamLab, row_ids
from upsert_lab import SALARIES, UpsertLab

from airflow_provider_cdc.engine import (
    AppendSemantics,
    InvalidRequest,
    InvalidStatement,
    Progress,
    ProtocolPoint,
    StatementFailed,
    StreamConflict,
    StreamMode,
    Version,
)
from airflow_provider_cdc.engine.core.upserts.job_records import JobClass
from airflow_provider_cdc.jobs.model import ReadStream
from airflow_provider_cdc.jobs.stream_rows import stream_rows

pytestmark = pytest.mark.connect

UPSERT = """MERGE INTO {copy} t
USING (SELECT * FROM s WHERE METADATA$ACTION = 'INSERT' OR NOT METADATA$ISUPDATE) c ON t.id = c.id
WHEN MATCHED AND c.METADATA$ACTION = 'DELETE' THEN DELETE
WHEN MATCHED THEN UPDATE SET v = c.v
WHEN NOT MATCHED AND c.METADATA$ACTION = 'INSERT' THEN INSERT (id, v) VALUES (c.id, c.v)"""
COUNT = "INSERT INTO {counted} SELECT count(*) FROM s"


@pytest.fixture
def source(lab: StreamLab) -> StreamLab:
    """A table with three rows, its copy ``copy``, and the stream ``s`` at its newest version."""
    lab.make("t", "id INT, v STRING")
    lab.make("copy", "id INT, v STRING")
    lab.make("counted", "rows LONG")
    lab.sql(
        "INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "INSERT INTO {copy} SELECT * FROM {t}",
    )
    lab.engine.create_stream("s", on_table=lab.path("t"))
    return lab


def change(lab: StreamLab) -> None:
    lab.sql(
        "INSERT INTO {t} VALUES (4, 'd')",
        "UPDATE {t} SET v = 'z' WHERE id = 1",
        "DELETE FROM {t} WHERE id = 2",
    )


def check_consumed_once(lab: StreamLab) -> None:
    """The copy equals the table, and the one consumption counted the four change rows."""
    assert lab.rows("copy") == lab.rows("t") == [(1, "z"), (3, "c"), (4, "d")]
    assert lab.rows("counted") == [(4,)]
    assert lab.changes("s") == []


def test_session_is_a_remote_one_and_this_process_runs_no_jvm(source: StreamLab) -> None:
    assert type(source.spark).__module__ == "pyspark.sql.connect.session"
    assert SparkContext._gateway is None


def test_read_standard_stream_gives_the_minimal_change_set(source: StreamLab) -> None:
    assert source.changes("s") == []
    assert not source.engine.stream_has_data("s")
    change(source)
    assert source.engine.stream_has_data("s")
    assert source.seen("s") == [
        (1, "a", "DELETE", True),
        (1, "z", "INSERT", True),
        (2, "b", "DELETE", False),
        (4, "d", "INSERT", False),
    ]
    found = stream_rows(source.engine, ReadStream("s", 10))
    assert found.columns[:2] == ("id", "v")
    assert sorted(json.loads(row)["id"] for row in found.rows) == [1, 1, 2, 4]


def test_change_feed_is_read_by_versions_and_times(source: StreamLab) -> None:
    first = source.engine.describe_stream("s").offset_version + 1
    change(source)
    rows = source.engine.change_feed(
        source.path("t"),
        from_version=first,
        to_timestamp=source.committed_at("t", source.version("t")),
        row_ids=True,
        where="_change_type <> 'update_preimage'",
    )
    assert sorted((row.id, row.v, row._change_type) for row in rows.collect()) == [
        (1, "z", "update_postimage"),
        (2, "b", "delete"),
        (4, "d", "insert"),
    ]
    early = source.engine.change_feed(
        source.path("t"), from_timestamp="2020-01-01", to_timestamp="2020-01-02 00:00:00.5"
    )
    assert early.collect() == []
    with pytest.raises(InvalidRequest, match="cannot be filtered"):
        source.engine.change_feed(source.path("t"), from_version=first, where="no_column = 1")


def test_archive_is_filled_replayed_and_verified(source: StreamLab) -> None:
    table, archive = source.path("t"), source.path("archive")
    begun = source.engine.archive_changes(table, archive)
    change(source)
    source.engine.archive_changes(table, archive)

    rows = sorted(map(tuple, source.engine.replay(archive).select("id", "v").collect()))
    assert rows == sorted(row[:2] for row in source.rows("t"))
    check = source.engine.verify_target(begun.stream, archive)
    assert (check.is_equal, check.verified_through) == (True, source.version("t"))
    assert source.engine.verify_target(begun.stream, archive).bytes_read == 0


@pytest.mark.parametrize(
    ("semantics", "expected"),
    [
        (AppendSemantics.INSERTED, [(4, "d", "INSERT", False), (5, "e", "INSERT", False)]),
        (AppendSemantics.SURVIVING, [(4, "y", "INSERT", False)]),
    ],
)
def test_read_append_only_stream_gives_only_inserts(
    source: StreamLab, semantics: AppendSemantics, expected: list[tuple[object, ...]]
) -> None:
    source.engine.create_stream(
        "added",
        on_table=source.path("t"),
        mode=StreamMode.APPEND_ONLY,
        append_semantics=semantics,
    )
    source.sql(
        "INSERT INTO {t} VALUES (4, 'd'), (5, 'e')",
        "UPDATE {t} SET v = 'y' WHERE id IN (1, 4)",
        "DELETE FROM {t} WHERE id = 5",
    )
    assert source.seen("added") == expected


def test_read_across_a_change_of_types_compares_maps_and_old_files(lab: StreamLab) -> None:
    lab.make(
        "t",
        "id INT, tags MAP<STRING, INT>",
        properties="'delta.enableTypeWidening' = 'true', 'delta.enableRowTracking' = 'true'",
    )
    lab.sql("INSERT INTO {t} VALUES (1, map('x', 1)), (2, map('y', 2))")
    lab.engine.create_stream("s", on_table=lab.path("t"))
    lab.sql(
        "ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT",
        "ALTER TABLE {t} ADD COLUMN (note STRING)",
        "UPDATE {t} SET note = 'new' WHERE id = 2",
        "UPDATE {t} SET tags = map('x', 1) WHERE id = 1",
    )
    old, new = lab.changes("s")
    assert old == Change((2, {"y": 2}, "new"), "INSERT", True, new.row_id)
    assert new == Change((2, {"y": 2}, None), "DELETE", True, old.row_id)


def test_consume_two_statements_applies_both_once(source: StreamLab) -> None:
    change(source)
    outcome = source.consume(UPSERT, COUNT)
    assert outcome.streams[0].rows == {"inserted": 1, "updated": 1, "deleted": 1}
    check_consumed_once(source)


def test_streams_as_a_data_frame_show_as_a_table_in_a_notebook(source: StreamLab) -> None:
    frame = source.engine.show_streams()
    assert vars(frame)["_repr_html_"]().startswith("<table><caption>1 stream</caption>")
    assert frame.where("NOT stale").select("name").collect() == [("s",)]


def test_consume_creates_a_table_of_the_changes(source: StreamLab) -> None:
    change(source)
    source.consume("CREATE TABLE {made} USING delta AS SELECT id FROM s WHERE METADATA$ISUPDATE")
    assert source.rows("made") == [(1,), (1,)]


def test_consume_delete_that_matches_nothing_is_confirmed(source: StreamLab) -> None:
    change(source)
    source.consume(UPSERT, COUNT, "DELETE FROM {copy} WHERE id = 77")
    check_consumed_once(source)


def test_consume_statement_that_spark_refuses_writes_nothing(source: StreamLab) -> None:
    change(source)
    before = source.version("counted")
    with pytest.raises(InvalidStatement, match="refused by Spark"):
        source.consume(COUNT, "INSERT INTO {copy} SELECT missing, v FROM s")
    assert source.version("counted") == before
    assert len(source.changes("s")) == 4


def test_consume_whose_second_statement_fails_undoes_the_first(source: StreamLab) -> None:
    change(source)
    before = source.rows("copy")
    with pytest.raises(StatementFailed, match="were undone"):
        source.consume(UPSERT, "INSERT INTO {counted} SELECT raise_error('bad row') FROM s")
    assert source.rows("copy") == before
    assert source.rows("counted") == []
    assert len(source.changes("s")) == 4
    source.consume(UPSERT, COUNT)
    check_consumed_once(source)


@pytest.mark.in_ci("another-after_statement-0", "crashed-before_commit-None")
@pytest.mark.parametrize(
    ("point", "index"),
    [
        (ProtocolPoint.AFTER_BEGIN, None),
        (ProtocolPoint.AFTER_STATEMENT, 0),
        (ProtocolPoint.BEFORE_COMMIT, None),
    ],
)
@pytest.mark.parametrize("consumer", ["crashed", "another"])
def test_consume_after_a_crash_is_finished_or_taken_over(
    source: StreamLab, point: ProtocolPoint, index: int | None, consumer: str
) -> None:
    change(source)
    crashing = source.new_engine(CrashAt(point, index))
    with pytest.raises(Crash):
        source.consume(UPSERT, COUNT, consumer="crashed", engine=crashing)
    if point is ProtocolPoint.BEFORE_COMMIT and consumer == "another":
        # All statements are applied: the next consumer commits for the crashed driver and finds
        # nothing.
        source.consume("INSERT INTO {counted} SELECT id FROM s", consumer=consumer)
    else:
        source.consume(UPSERT, COUNT, consumer=consumer)
    check_consumed_once(source)


def test_writer_of_another_session_that_was_fenced_off_changes_nothing(
    source: StreamLab, new_session: Callable[[], SparkSession]
) -> None:
    change(source)
    slow = StreamLab(new_session(), source.root)

    def overtake(progress: Progress) -> None:
        if progress.point is ProtocolPoint.BEFORE_STATEMENT and progress.statement_index == 1:
            source.consume(UPSERT, COUNT, consumer="quick")

    with pytest.raises(StreamConflict, match="stream s: "):
        slow.consume(UPSERT, COUNT, consumer="slow", engine=slow.new_engine(overtake))
    check_consumed_once(source)


@pytest.mark.parametrize("file_format", ["csv", "parquet"])
def test_stream_on_files_is_consumed(lab: StreamLab, file_format: str) -> None:
    lab.make("t", "id INT")
    options = {"header": "true"} if file_format == "csv" else {}
    rows = lab.spark.range(2).selectExpr("'x' AS more", "CAST(id AS INT) AS id")
    rows.write.format(file_format).options(**options).save(lab.path("in/k=1"))
    lab.engine.create_stream(
        "s",
        on_files=lab.path("in"),
        file_format=file_format,
        file_options=options,
        file_schema="id INT, k INT",
        mode="insert_only",
        at=Version(0),
    )
    assert [change.values for change in lab.changes("s")] == [(0, 1), (1, 1)]
    assert len(set(row_ids(lab.changes("s")).values())) == 2

    lab.consume("INSERT INTO {t} SELECT id FROM s")
    assert lab.rows("t") == [(0,), (1,)]
    assert lab.changes("s") == []


def test_transaction_writes_dataframes_and_is_undone_when_its_block_fails(
    source: StreamLab,
) -> None:
    change(source)

    def work(ending: Callable[[], object]) -> None:
        with source.engine.transaction(consumer="c") as transaction:
            rows = transaction.sql("SELECT count(*) AS rows FROM s")
            transaction.write(rows.selectExpr("rows + 0L AS rows"), source.path("counted"))
            transaction.sql(source.text(UPSERT))
            assert transaction.stream("s").count() == 4
            ending()

    before = source.rows("copy")
    with pytest.raises(ZeroDivisionError):
        work(lambda: 1 / 0)
    assert (source.rows("copy"), source.rows("counted")) == (before, [])
    work(lambda: None)
    check_consumed_once(source)


def test_rows_of_a_consuming_query_are_handed_out_once(source: StreamLab) -> None:
    change(source)
    query = "SELECT count(*) FROM s"

    found = [source.engine.read_and_consume(query, consumer="c").collect() for _ in range(2)]

    assert [rows[0][0] for rows in found] == [4, 0]


def test_initial_rows_of_a_table_are_consumed_before_its_changes(lab: StreamLab) -> None:
    lab.make("first", "id INT", properties="'delta.enableRowTracking' = 'true'")
    lab.make("copied", "id INT")
    lab.sql("INSERT INTO {first} VALUES (1), (2)")
    lab.engine.create_stream("f", on_table=lab.path("first"), show_initial_rows=True)
    lab.sql("INSERT INTO {first} VALUES (3)")
    outcome = lab.consume("INSERT INTO {copied} SELECT id FROM f")
    assert outcome.streams[0].rows == {"inserted": 2, "updated": 0, "deleted": 0}
    assert lab.rows("copied") == [(1,), (2,)]


def test_stream_on_a_view_is_consumed_after_its_initial_rows(lab: StreamLab) -> None:
    for table in ("orders", "customers"):
        lab.make(table, "id INT, n STRING", properties="'delta.enableRowTracking' = 'true'")
        lab.sql(f"INSERT INTO {{{table}}} VALUES (1, '{table}')")
    lab.make("log", "o STRING, c STRING")
    lab.sql(
        "CREATE OR REPLACE VIEW joined AS SELECT o.id, o.n AS o, c.n AS c"
        " FROM {orders} o JOIN {customers} c ON o.id = c.id"
        " UNION ALL SELECT 0, n, '{{}}' FROM {orders}"
    )
    lab.engine.create_stream("s", on_view="joined", show_initial_rows=True)
    assert [change.values for change in lab.changes("s")] == [
        (0, "orders", "{}"),
        (1, "orders", "customers"),
    ]
    lab.consume("INSERT INTO {log} SELECT o, c FROM s")
    lab.sql("UPDATE {customers} SET n = 'renamed'")
    assert lab.seen("s") == [
        (1, "orders", "customers", "DELETE", True),
        (1, "orders", "renamed", "INSERT", True),
    ]
    lab.consume("INSERT INTO {log} SELECT o, c FROM s WHERE METADATA$ACTION = 'INSERT'")
    assert lab.rows("log") == [("orders", "customers"), ("orders", "renamed"), ("orders", "{}")]
    lab.sql("DROP VIEW joined")


def test_view_made_under_other_session_settings_is_refused(lab: StreamLab) -> None:
    lab.make("t", "at TIMESTAMP", properties="'delta.enableRowTracking' = 'true'")
    lab.spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        lab.sql("CREATE OR REPLACE VIEW days AS SELECT CAST(at AS DATE) AS day FROM {t}")
        lab.engine.create_stream("s", on_view="days")
        assert lab.seen("s") == []
    finally:
        lab.spark.conf.unset("spark.sql.session.timeZone")
    lab.sql("INSERT INTO {t} VALUES (TIMESTAMP '2024-01-01T20:00:00Z')")
    with pytest.raises(InvalidRequest, match=r"timeZone 'Asia/Tokyo'"):
        lab.seen("s")
    lab.sql("DROP VIEW days")


def test_upsert_table_is_written_read_applied_and_redriven(lab: StreamLab) -> None:
    upserts = UpsertLab(lab.spark, lab.root)
    table = upserts.table()
    upserts.engine.create_upsert_table(table, SALARIES, "ID")
    upserts.write((1, "a", 1, "UPSERT", "1"), (2, "b", 2, "UPSERT", "1"))
    assert upserts.read() == [(1, "a", 1), (2, "b", 2)]
    assert upserts.applied() == []
    upserts.apply()

    rows = upserts.frame([(1, "a", 10, "UPSERT", "none"), (2, None, None, "DELETE", "2")])
    with pytest.raises(InvalidRequest, match="malformed sequence number"):
        upserts.engine.write_changes(table, rows)
    upserts.engine.write_changes(table, rows, on_bad_rows="quarantine")
    upserts.write((1, "a", 11, "UPSERT", "3"))
    assert upserts.read() == [(1, "a", 1)]
    upserts.apply()
    assert upserts.applied() == [(1, "a", 1)]

    upserts.sql(
        f"UPDATE delta.`{table}/_cdc/quarantine` SET _CHANGE_SEQUENCE_NUMBER = '2'"
        " WHERE Salary = 10"
    )
    assert upserts.engine.redrive_changes(table) == 2
    assert upserts.engine.query_upsert_table(table, lambda found: found.count()) == 1
    upserts.apply()
    assert upserts.applied() == upserts.read() == [(1, "a", 11)]
    classes = {each.job_class for each in upserts.engine.upsert_usage()}
    assert classes == {JobClass.BACKGROUND_APPLY, JobClass.RUN_TIME_MERGE}
