"""Streams that return every change of each commit, consumed exactly once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from feed_lab import by_commit, delta_feed
from pyspark.sql import SparkSession
from stream_lab import Crash, StreamLab

from airflow_provider_cdc.engine import InvalidRequest, Progress, ProtocolPoint, Version
from airflow_provider_cdc.engine.spark.consumption import stream_views

BOTH = "'delta.enableChangeDataFeed' = 'true', 'delta.enableRowTracking' = 'true'"
ROWS = "INSERT INTO {t} SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a'), (2, 'b'), (3, 'c')"
LATER = (
    "UPDATE {src} SET v = 'x' WHERE id = 1",
    "INSERT INTO {src} VALUES (4, 'd')",
    "DELETE FROM {src} WHERE id = 4",
    "UPDATE {src} SET v = 'a' WHERE id = 1",
)
LOG = "INSERT INTO {log} SELECT id, v, _change_type, _commit_version FROM s"

Lab = Callable[..., StreamLab]


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> StreamLab:
    """A table ``src`` of three rows at version 1, and an empty table ``log``."""
    lab = StreamLab(spark, tmp_path)
    lab.make("src", "id INT, v STRING", ROWS, properties=BOTH)
    lab.make("log", "id INT, v STRING, kind STRING, version BIGINT")
    return lab


def test_feed_stream_returns_steps_that_cancel_each_other_out(lab: StreamLab) -> None:
    for mode in ("feed", "standard"):
        lab.engine.create_stream(mode, on_table=lab.path("src"), mode=mode)
    lab.sql(*LATER)
    rows = lab.engine.read_stream("feed")
    expected = by_commit(delta_feed(lab.spark, lab.path("src"), 2))
    assert by_commit(rows.drop("METADATA$ROW_ID")) == expected
    assert rows.columns[2:] == [
        "_change_type",
        "_commit_version",
        "_commit_timestamp",
        "METADATA$ROW_ID",
    ]
    # The values of all rows are what they were.
    assert lab.engine.stream_has_data("feed")
    assert not lab.engine.stream_has_data("standard")


def test_consumption_of_a_feed_stream_applies_every_step_once(lab: StreamLab) -> None:
    lab.engine.create_stream("s", on_table=lab.path("src"), mode="feed")
    lab.sql(*LATER[:3])
    outcome = lab.consume(LOG)
    (counted,) = outcome.streams
    assert counted.rows == {"inserted": 1, "updated": 1, "deleted": 1}
    lab.sql(LATER[3])
    lab.consume(LOG)
    assert lab.rows("log") == [
        (1, "a", "update_postimage", 5),
        (1, "a", "update_preimage", 2),
        (1, "x", "update_postimage", 2),
        (1, "x", "update_preimage", 5),
        (4, "d", "delete", 4),
        (4, "d", "insert", 3),
    ]
    assert not lab.engine.stream_has_data("s")


def test_feed_of_appends_is_counted_by_the_log_and_read_once(
    lab: StreamLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.engine.create_stream("s", on_table=lab.path("src"), mode="feed")
    lab.sql("INSERT INTO {src} VALUES (4, 'd'), (5, 'e')", "INSERT INTO {src} VALUES (6, 'f')")
    # Nothing may be kept or counted by reading.
    monkeypatch.delattr(stream_views, "_kept")
    monkeypatch.delattr(stream_views, "_kinds")
    outcome = lab.consume(LOG)

    assert outcome.streams[0].rows == {"inserted": 3, "updated": 0, "deleted": 0}
    assert [row[2:] for row in lab.rows("log")] == [("insert", 2), ("insert", 2), ("insert", 3)]


@pytest.mark.parametrize("point", [ProtocolPoint.AFTER_STATEMENT, ProtocolPoint.BEFORE_COMMIT])
def test_feed_of_a_crashed_consumption_is_applied_once(
    lab: StreamLab, point: ProtocolPoint
) -> None:
    lab.engine.create_stream("s", on_table=lab.path("src"), mode="feed")
    lab.sql(*LATER[:2])

    def crash(progress: Progress) -> None:
        if progress.point is point:
            raise Crash(str(progress))

    with pytest.raises(Crash):
        lab.consume(LOG, engine=lab.new_engine(crash))
    lab.sql(LATER[2])
    lab.consume(LOG)
    lab.consume(LOG)
    assert sorted(row[3] for row in lab.rows("log")) == [2, 2, 3, 4]


def test_batches_of_a_feed_stream_hold_whole_commits(lab: StreamLab) -> None:
    lab.engine.create_stream("s", on_table=lab.path("src"), mode="feed", at=Version(0))
    lab.sql(*LATER)
    for commits, most in ([1, 1, 1], 1), ([2, 2, 3], 2):
        lab.consume(LOG, max_commits=most)
        assert sorted(row[3] for row in lab.rows("log"))[-len(commits) :] == commits


def test_initial_rows_of_a_feed_stream_are_inserts_of_the_offset(lab: StreamLab) -> None:
    lab.engine.create_stream("s", on_table=lab.path("src"), mode="feed", show_initial_rows=True)
    offset = lab.engine.describe_stream("s")
    lab.sql(LATER[0])
    rows = lab.engine.read_stream("s").collect()
    assert sorted((row.id, row.v, row._change_type) for row in rows) == [
        (1, "a", "insert"),
        (2, "b", "insert"),
        (3, "c", "insert"),
    ]
    assert {row._commit_version for row in rows} == {offset.offset_version}
    lab.consume(LOG)
    lab.consume(LOG)
    assert len(lab.rows("log")) == 5


def test_feed_streams_need_a_table_without_their_columns(lab: StreamLab) -> None:
    lab.sql("CREATE VIEW feed_source AS SELECT * FROM {src}")
    try:
        with pytest.raises(InvalidRequest, match="mode feed needs a table"):
            lab.engine.create_stream("s", on_view="feed_source", mode="feed")
    finally:
        lab.sql("DROP VIEW feed_source")
    with pytest.raises(InvalidRequest, match="mode feed needs a table"):
        lab.engine.create_stream("s", on_files=str(lab.root), file_format="csv", mode="feed")
    lab.make("odd", "id INT, _Commit_Version INT")
    with pytest.raises(InvalidRequest, match="already has a column _Commit_Version"):
        lab.engine.create_stream("s", on_table=lab.path("odd"), mode="feed")


def test_feed_stream_is_explained_and_not_recovered(lab: StreamLab) -> None:
    lab.engine.create_stream("s", on_table=lab.path("src"), mode="feed", column_style="databend")
    lab.sql(*LATER[:2])
    plan = lab.engine.explain_stream("s")
    assert plan.strategy == "feed"
    assert plan.reason == "2 commits changed data, 1 of them are read from change files"
    assert "change$row_id" in lab.engine.read_stream("s").columns
    with pytest.raises(InvalidRequest, match="each change of each commit"):
        lab.engine.recover_stream("s", lab.path("log"), key="id", consumer="tests")
