"""The transcript of Databend's document on streams, step by step and value by value."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from stream_lab import Change, StreamLab, row_ids

from airflow_provider_cdc.engine import (
    AppendSemantics,
    ColumnStyle,
    Progress,
    ProtocolPoint,
    StatementFailed,
    StreamConflict,
    StreamMode,
)

NEW = ("INSERT", False)
DELETED = ("DELETE", False)


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> StreamLab:
    return StreamLab(spark, tmp_path)


def create_stream(lab: StreamLab, name: str, table: str, *, append_only: bool) -> None:
    """CREATE STREAM ... ON TABLE ... APPEND_ONLY = ..."""
    lab.engine.create_stream(
        name,
        on_table=lab.path(table),
        mode=StreamMode.APPEND_ONLY if append_only else StreamMode.STANDARD,
        append_semantics=AppendSemantics.SURVIVING,
        column_style=ColumnStyle.DATABEND,
    )


def test_databend_transcript_gives_the_documented_rows_in_both_modes(lab: StreamLab) -> None:
    lab.make("t_standard", "a INT")
    lab.make("t_append_only", "a INT")
    create_stream(lab, "s_standard", "t_standard", append_only=False)
    create_stream(lab, "s_append_only", "t_append_only", append_only=True)
    streams = {"s_standard": "t_standard", "s_append_only": "t_append_only"}

    # SHOW FULL STREAMS
    shown = [
        (item.name, item.mode, item.base_tables[0].location, item.invalid_reason)
        for item in lab.engine.describe_streams()
    ]
    assert shown == [
        ("s_append_only", StreamMode.APPEND_ONLY, lab.path("t_append_only"), None),
        ("s_standard", StreamMode.STANDARD, lab.path("t_standard"), None),
    ]
    assert lab.engine.read_stream("s_standard").columns == [
        "a",
        "change$action",
        "change$is_update",
        "change$row_id",
    ]

    # Insert two new values.
    life: dict[str, dict[int, str]] = {}
    for stream, table in streams.items():
        lab.sql(f"INSERT INTO {{{table}}} VALUES (2), (3)")
        assert lab.seen(stream) == [(2, *NEW), (3, *NEW)]
        life[stream] = row_ids(lab.changes(stream))
        assert life[stream][2] != life[stream][3]

    # Before a consumption, an update is merged into the insert, and so is a delete.
    for stream, table in streams.items():
        lab.sql(f"UPDATE {{{table}}} SET a = 4 WHERE a = 2")
        ids = life[stream]
        assert lab.changes(stream) == [Change((3,), *NEW, ids[3]), Change((4,), *NEW, ids[2])]
        lab.sql(f"DELETE FROM {{{table}}} WHERE a = 4")
        assert lab.changes(stream) == [Change((3,), *NEW, ids[3])]

    # Both consumptions give 3, and both streams are empty afterwards.
    lab.make("t_consume_standard", "b INT")
    lab.make("t_consume_append_only", "b INT")
    for stream in streams:
        target = stream.replace("s_", "t_consume_", 1)
        outcome = lab.consume(f"INSERT INTO {{{target}}} SELECT a FROM {stream}")
        assert outcome.streams[0].rows == {"inserted": 1, "updated": 0, "deleted": 0}
        assert lab.rows(target) == [(3,)]
        assert lab.changes(stream) == []
        assert not lab.engine.stream_has_data(stream)

    # An update after the consumption gives a pair in one mode, and nothing in the other.
    for table in streams.values():
        lab.sql(f"UPDATE {{{table}}} SET a = 4 WHERE a = 3")
    ids = life["s_standard"]
    assert lab.changes("s_standard") == [
        Change((3,), "DELETE", True, ids[3]),
        Change((4,), "INSERT", True, ids[3]),
    ]
    assert lab.changes("s_append_only") == []

    # A delete after it gives the value at the offset, and is no longer an update.
    for table in streams.values():
        lab.sql(f"DELETE FROM {{{table}}} WHERE a = 4")
    assert lab.changes("s_standard") == [Change((3,), *DELETED, ids[3])]
    assert lab.changes("s_append_only") == []


def test_row_ids_of_both_streams_of_one_table_are_the_same(lab: StreamLab) -> None:
    lab.make("t", "a INT")
    create_stream(lab, "s_standard", "t", append_only=False)
    create_stream(lab, "s_append_only", "t", append_only=True)
    lab.sql("INSERT INTO {t} VALUES (2), (3)", "INSERT INTO {t} VALUES (2)")
    found = lab.changes("s_standard")
    assert len({change.row_id for change in found}) == 3
    assert found == lab.changes("s_append_only")


@pytest.mark.thorough
def test_successful_transaction_consumes_the_stream(lab: StreamLab) -> None:
    _table_with_one_change(lab)
    lab.consume("INSERT INTO {target} SELECT a FROM s")
    assert lab.rows("target") == [("1",)]
    assert lab.changes("s") == []


@pytest.mark.thorough
def test_failed_transaction_leaves_the_stream_unchanged(lab: StreamLab) -> None:
    _table_with_one_change(lab)
    before = lab.changes("s")
    for failing in (
        "INSERT INTO {target} SELECT raise_error('bad row') FROM s",
        "MERGE INTO {target} t USING s ON t.a = s.a WHEN NOT MATCHED THEN"
        " INSERT (a) VALUES (assert_true(s.a = '2'))",
    ):
        with pytest.raises(StatementFailed, match="no offset moved"):
            lab.consume(failing)
        assert lab.rows("target") == []
        assert lab.changes("s") == before
    lab.consume("INSERT INTO {target} SELECT a FROM s")
    assert lab.rows("target") == [("1",)]


@pytest.mark.in_ci("before_begin")
@pytest.mark.parametrize("held_at", [ProtocolPoint.BEFORE_BEGIN, ProtocolPoint.AFTER_BEGIN])
def test_concurrent_transactions_succeed_only_for_the_first_to_commit(
    lab: StreamLab, held_at: ProtocolPoint
) -> None:
    _table_with_one_change(lab)
    statement = "INSERT INTO {target} SELECT a FROM s"

    def overtake(progress: Progress) -> None:
        if progress.point is held_at:
            lab.consume(statement, consumer="quick")

    with pytest.raises(StreamConflict, match="stream s: "):
        lab.consume(statement, consumer="slow", engine=lab.new_engine(overtake))
    assert lab.rows("target") == [("1",)]
    assert lab.changes("s") == []


def _table_with_one_change(lab: StreamLab) -> None:
    lab.make("t", "a STRING")
    lab.make("target", "a STRING")
    create_stream(lab, "s", "t", append_only=False)
    lab.sql("INSERT INTO {t} VALUES ('1')")
