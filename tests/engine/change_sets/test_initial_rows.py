"""Streams that show the rows at their offset first (as Snowflake's SHOW_INITIAL_ROWS)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from kept_frames import KeptFrames
from pyspark.sql import SparkSession
from stream_lab import Crash, CrashAt, StreamLab, row_ids

from airflow_provider_cdc.engine import ProtocolPoint, Version
from airflow_provider_cdc.engine.core.change_sets.read_plan import Strategy
from airflow_provider_cdc.engine.core.errors import StreamStale, StreamUnusable
from airflow_provider_cdc.engine.core.progress import Progress
from airflow_provider_cdc.engine.spark.session.session_settings import settings

LOG = "INSERT INTO {log} SELECT id, v, METADATA$ACTION FROM s"
FIRST = [(1, "a", "INSERT", False), (2, "b", "INSERT", False)]


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> StreamLab:
    """A table ``src`` of two rows."""
    lab = StreamLab(spark, tmp_path)
    lab.make("src", "id INT, v STRING", properties="'delta.enableRowTracking' = 'true'")
    lab.make("log", "id INT, v STRING, action STRING")
    lab.sql("INSERT INTO {src} VALUES (1, 'a'), (2, 'b')")
    return lab


def create(lab: StreamLab, name: str = "s", **options: Any) -> None:
    lab.engine.create_stream(name, on_table=lab.path("src"), show_initial_rows=True, **options)


def test_first_read_returns_the_rows_at_the_offset_as_inserts(lab: StreamLab) -> None:
    create(lab)
    lab.sql("UPDATE {src} SET v = 'x' WHERE id = 1", "DELETE FROM {src} WHERE id = 2")
    assert lab.seen("s") == FIRST
    assert lab.engine.explain_stream("s").strategy is Strategy.INITIAL_ROWS


@pytest.mark.thorough
def test_initial_rows_are_read_from_a_version_older_than_the_retention(lab: StreamLab) -> None:
    create(lab)
    lab.sql(
        "ALTER TABLE {src} SET TBLPROPERTIES"
        " ('delta.deletedFileRetentionDuration' = 'interval 0 seconds')",
        "INSERT INTO {src} VALUES (3, 'c')",
    )
    time.sleep(0.1)
    assert lab.seen("s") == FIRST
    lab.consume(LOG)
    assert lab.rows("log") == [(1, "a", "INSERT"), (2, "b", "INSERT")]


@pytest.mark.thorough
@pytest.mark.parametrize(("statements", "kept"), [(1, 0), (2, 1)])
def test_initial_rows_are_cached_only_for_several_statements(
    lab: StreamLab, monkeypatch: pytest.MonkeyPatch, statements: int, kept: int
) -> None:
    """They may be all rows of a large table, and one statement reads them from its files."""
    create(lab)
    frames, found = KeptFrames(monkeypatch), []

    def look(progress: Progress) -> None:
        if progress.point is ProtocolPoint.BEFORE_COMMIT:
            found.append(frames.count())

    outcome = lab.consume(*[LOG] * statements, engine=lab.new_engine(look))
    assert found == [kept]
    assert frames.count() == 0
    assert outcome.streams[0].rows == {"inserted": 2, "updated": 0, "deleted": 0}
    assert len(lab.rows("log")) == 2 * statements


@pytest.mark.thorough
def test_later_changes_wait_until_the_initial_rows_are_consumed(lab: StreamLab) -> None:
    create(lab)
    lab.sql("UPDATE {src} SET v = 'x' WHERE id = 1", "INSERT INTO {src} VALUES (3, 'c')")

    outcome = lab.consume(LOG)

    assert lab.rows("log") == [(1, "a", "INSERT"), (2, "b", "INSERT")]
    assert outcome.streams[0].rows == {"inserted": 2, "updated": 0, "deleted": 0}
    assert lab.seen("s") == [
        (1, "a", "DELETE", True),
        (1, "x", "INSERT", True),
        (3, "c", "INSERT", False),
    ]


@pytest.mark.thorough
def test_initial_row_has_the_id_of_its_later_changes(lab: StreamLab) -> None:
    create(lab)
    initial = row_ids(lab.changes("s"))
    lab.consume(LOG)
    lab.sql("UPDATE {src} SET v = 'x'")
    assert row_ids(lab.changes("s")) == initial


@pytest.mark.thorough
@pytest.mark.parametrize(
    "point", [ProtocolPoint.AFTER_BEGIN, ProtocolPoint.AFTER_STATEMENT, ProtocolPoint.AFTER_COMMIT]
)
def test_initial_rows_are_consumed_once_after_a_crash_at_any_point(
    lab: StreamLab, point: ProtocolPoint
) -> None:
    create(lab)
    with pytest.raises(Crash):
        lab.consume(LOG, engine=lab.new_engine(CrashAt(point)))
    lab.sql("INSERT INTO {src} VALUES (3, 'c')")
    for _ in range(2):
        lab.consume(LOG)
    assert lab.rows("log") == [(1, "a", "INSERT"), (2, "b", "INSERT"), (3, "c", "INSERT")]


def clean_up(lab: StreamLab) -> None:
    """Let the log begin after the offset: a checkpoint holds what was before."""
    lab.sql("ALTER TABLE {src} SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    lab.sql("INSERT INTO {src} VALUES (3, 'c')")
    last = lab.version("src")
    for version in range(last):
        Path(lab.path("src"), "_delta_log", f"{version:020d}.json").unlink()


def test_initial_rows_at_a_missing_version_make_the_stream_stale(lab: StreamLab) -> None:
    create(lab)
    clean_up(lab)
    with pytest.raises(StreamStale, match="at version 1 can no longer be read"):
        lab.engine.read_stream("s")
    with pytest.raises(StreamStale, match="at version 1 can no longer be read"):
        lab.consume(LOG)
    assert lab.rows("log") == []


@pytest.mark.thorough
@pytest.mark.parametrize("applied", [False, True])
def test_killed_consumption_of_missing_initial_rows_is_ended(lab: StreamLab, applied: bool) -> None:
    create(lab)
    point = ProtocolPoint.BEFORE_COMMIT if applied else ProtocolPoint.AFTER_BEGIN
    with pytest.raises(Crash):
        lab.consume(LOG, engine=lab.new_engine(CrashAt(point)))
    clean_up(lab)
    if applied:
        lab.consume(LOG)
        assert lab.rows("log") == [(1, "a", "INSERT"), (2, "b", "INSERT")]
    else:
        with pytest.raises(StreamStale, match="at version 1 can no longer be read"):
            lab.consume(LOG)
        assert lab.rows("log") == []
    assert lab.engine.describe_stream("s").phase.value == "idle"


@pytest.mark.thorough
def test_initial_rows_of_a_stream_at_an_earlier_point_are_of_that_point(
    lab: StreamLab,
) -> None:
    lab.sql("DELETE FROM {src} WHERE id = 1")
    create(lab, at=Version(1))
    assert lab.seen("s") == FIRST


@pytest.mark.thorough
def test_append_only_stream_shows_its_initial_rows_too(lab: StreamLab) -> None:
    create(lab, mode="append_only")
    assert lab.seen("s") == FIRST
    lab.consume(LOG)
    assert lab.seen("s") == []


@pytest.mark.thorough
def test_advance_skips_the_initial_rows(lab: StreamLab) -> None:
    create(lab)
    lab.sql("INSERT INTO {src} VALUES (3, 'c')")
    lab.engine.advance_stream("s")
    assert lab.seen("s") == []


def test_stream_with_initial_rows_has_data_unless_its_table_is_empty(lab: StreamLab) -> None:
    create(lab)
    assert lab.engine.stream_has_data("s", exact=False) is True
    assert lab.engine.describe_stream("s").may_have_data is True
    lab.sql("DELETE FROM {src}")
    create(lab, "empty")
    assert lab.engine.stream_has_data("empty") is False


def test_initial_rows_are_not_read_if_the_session_ignores_missing_files(lab: StreamLab) -> None:
    create(lab)

    with (
        settings(lab.spark, {"spark.sql.files.ignoreMissingFiles": "true"}),
        pytest.raises(StreamUnusable, match="switch it off in this session"),
    ):
        lab.consume(LOG)

    assert lab.rows("log") == []
    assert lab.seen("s") == FIRST
