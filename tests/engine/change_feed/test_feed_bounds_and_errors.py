"""Which ranges the change feed returns, and which it refuses before it reads anything."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from feed_lab import by_commit, delta_feed
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from stream_lab import StreamLab

from airflow_provider_cdc.engine import (
    CdcError,
    ChangeTrackingDisabled,
    InvalidRange,
    InvalidRequest,
    StreamStale,
    TableNotFound,
)

FED = "'delta.enableChangeDataFeed' = 'true'"
TRACKED = "'delta.enableRowTracking' = 'true'"
TIMED = "'delta.enableInCommitTimestamps' = 'true'"
FIVE = (
    "INSERT INTO {t} SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    "UPDATE {t} SET v = 'x' WHERE id <= 2",
    "DELETE FROM {t} WHERE id = 2",
    "INSERT INTO {t} VALUES (4, 'd')",
)

Maker = Callable[..., str]


@pytest.fixture(scope="module")
def lab(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> StreamLab:
    lab = StreamLab(spark, tmp_path_factory.mktemp("feed"))
    lab.make("five", "id INT, v STRING", *FIVE, properties=f"{FED}, {TRACKED}, {TIMED}")
    return lab


@pytest.fixture
def make(lab: StreamLab, tmp_path: Path) -> Maker:
    def made(*writes: str, properties: str = "") -> str:
        name = tmp_path.name
        lab.make(name, "id INT, v STRING", *writes, properties=properties)
        return name

    return made


def commits(lab: StreamLab, table: str = "five", **bounds: Any) -> list[int]:
    return sorted(by_commit(lab.engine.change_feed(lab.path(table), **bounds)))


def test_times_as_text_are_in_the_time_zone_of_the_session(lab: StreamLab) -> None:
    moments = [lab.committed_at("five", version) for version in range(5)]
    before = lab.spark.conf.get("spark.sql.session.timeZone")
    try:
        for zone in ("UTC", "Asia/Kolkata", "+09:30", "America/Los_Angeles"):
            lab.spark.conf.set("spark.sql.session.timeZone", zone)
            shown = [
                lab.spark.sql(
                    f"SELECT date_format(timestamp_micros({int(each.timestamp() * 1e6)}),"
                    " 'yyyy-MM-dd HH:mm:ss.SSS')"
                ).head()[0]
                for each in moments
            ]
            found = commits(lab, from_timestamp=shown[2], to_timestamp=shown[3])
            assert found == [2, 3], zone
            reader = lab.spark.read.format("delta").option("readChangeFeed", "true")
            reader = reader.option("startingTimestamp", shown[2])
            rows = reader.option("endingTimestamp", shown[3]).load(lab.path("five"))
            assert sorted(by_commit(rows)) == found, zone
    finally:
        lab.spark.conf.set("spark.sql.session.timeZone", before)


def test_times_with_an_offset_and_datetimes_are_bounds_too(lab: StreamLab) -> None:
    third = lab.committed_at("five", 3)
    assert commits(lab, from_timestamp=third) == [3, 4]
    assert commits(lab, from_timestamp=third.isoformat()) == [3, 4]
    assert commits(lab, from_version=1, to_timestamp=third - timedelta(milliseconds=1)) == [1, 2]
    assert commits(lab, from_timestamp="2020-01-01", to_timestamp=third) == [1, 2, 3]
    assert commits(lab, from_timestamp="2020-01-01", to_timestamp="2020-01-02 00:00:00.5") == []


def test_bounds_after_the_newest_commit_follow_out_of_range(lab: StreamLab) -> None:
    future = datetime.now(UTC) + timedelta(days=1)
    for bounds in ({"from_version": 5}, {"from_timestamp": future}):
        with pytest.raises(InvalidRange, match="after the newest commit"):
            commits(lab, **bounds)
        assert commits(lab, **bounds, out_of_range="empty") == []
        assert commits(lab, **bounds, out_of_range="clamp") == []
    for bounds in ({"to_version": 9}, {"to_timestamp": future}):
        with pytest.raises(InvalidRange, match="after the newest commit"):
            commits(lab, from_version=1, **bounds)
        assert commits(lab, from_version=1, **bounds, out_of_range="empty") == []
        assert commits(lab, from_version=1, **bounds, out_of_range="clamp") == [1, 2, 3, 4]


def test_empty_feed_has_all_columns(lab: StreamLab) -> None:
    whole = lab.engine.change_feed(lab.path("five"), from_version=0, row_ids=True)
    none = lab.engine.change_feed(
        lab.path("five"), from_version=9, out_of_range="empty", row_ids=True
    )
    assert none.collect() == []
    assert none.dtypes == whole.dtypes
    assert whole.columns == [
        "id",
        "v",
        "_change_type",
        "_commit_version",
        "_commit_timestamp",
        "METADATA$ROW_ID",
    ]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, InvalidRequest, "expected from_version or from_timestamp"),
        ({"from_version": 1, "from_timestamp": "2026-01-01"}, InvalidRequest, "two bounds"),
        (
            {"from_version": 1, "to_version": 2, "to_timestamp": "2026-01-01"},
            InvalidRequest,
            "two bounds",
        ),
        ({"from_version": -1}, InvalidRange, "not a version"),
        ({"from_version": "1"}, InvalidRequest, "from_version"),
        ({"from_version": 3, "to_version": 2}, InvalidRange, "version 2 is before version 3"),
        ({"from_timestamp": "yesterday"}, InvalidRange, "not a point in time"),
        ({"from_timestamp": "2026-02-30"}, InvalidRange, "the calendar has no such time"),
        ({"from_timestamp": datetime(2026, 1, 1)}, InvalidRange, "offset from UTC"),
        ({"from_timestamp": "2026-01-01T00:00:00"}, InvalidRange, "offset from UTC"),
        ({"from_version": 1, "source": "cdf"}, InvalidRequest, "feed, row_tracking"),
        ({"from_version": 1, "out_of_range": "no"}, InvalidRequest, "error, empty, clamp"),
        ({"from_version": 1, "column_prefix": "a b"}, InvalidRequest, "column_prefix"),
        ({"from_version": 1, "where": "no_column = 1"}, InvalidRequest, "no_column"),
        ({"from_version": 1, "where": "id ="}, InvalidRequest, "cannot be filtered"),
        ({"from_version": 1, "where": "id"}, InvalidRequest, "cannot be filtered"),
        ({"from_version": 1, "exclude_regex": "x"}, InvalidRequest, "pass where"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(
    lab: StreamLab, arguments: dict[str, Any], error: type[CdcError], message: str
) -> None:
    with pytest.raises(error, match=message):
        lab.engine.change_feed(lab.path("five"), **arguments)


def test_missing_table_and_view_are_refused(lab: StreamLab) -> None:
    with pytest.raises(TableNotFound):
        lab.engine.change_feed("no_such_table", from_version=0)
    lab.sql("CREATE VIEW feed_view AS SELECT * FROM {five}")
    try:
        with pytest.raises(InvalidRequest, match="it is a view"):
            lab.engine.change_feed("feed_view", from_version=0)
    finally:
        lab.sql("DROP VIEW feed_view")


def test_commits_before_recording_was_switched_on_are_refused(lab: StreamLab, make: Maker) -> None:
    table = make(FIVE[0], f"ALTER TABLE {{t}} SET TBLPROPERTIES ({FED})", FIVE[1])
    with pytest.raises(ChangeTrackingDisabled, match="version 1") as error:
        lab.engine.change_feed(lab.path(table), from_version=0)
    assert "begin with version 2" in error.value.fix
    with pytest.raises(PySparkException, match="MISSING_CHANGE_DATA"):
        delta_feed(lab.spark, lab.path(table), 0).collect()
    assert commits(lab, table, from_version=2) == [3]
    with pytest.raises(ChangeTrackingDisabled, match="row tracking was off"):
        lab.engine.change_feed(lab.path(table), from_version=2, source="row_tracking")


def test_range_with_a_gap_in_recording_is_refused(lab: StreamLab, make: Maker) -> None:
    off, on = (
        f"ALTER TABLE {{t}} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = '{value}')"
        for value in ("false", "true")
    )
    table = make(FIVE[0], off, FIVE[1], on, FIVE[2], properties=FED)
    with pytest.raises(ChangeTrackingDisabled, match="version 3"):
        lab.engine.change_feed(lab.path(table), from_version=1)
    assert commits(lab, table, from_version=4) == [5]
    assert commits(lab, table, from_version=1, to_version=2) == [1]


def test_ranges_recorded_in_different_ways_are_read_commit_by_commit(
    lab: StreamLab, make: Maker
) -> None:
    table = make(
        *FIVE[:2],
        f"ALTER TABLE {{t}} SET TBLPROPERTIES ({TRACKED})",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')",
        *FIVE[2:],
        "UPDATE {t} SET v = 'z' WHERE id = 1",
        properties=FED,
    )
    last = lab.version(table)
    assert commits(lab, table, from_version=0) == [1, 2, last - 2, last - 1, last]
    with pytest.raises(ChangeTrackingDisabled, match="feed was off"):
        lab.engine.change_feed(lab.path(table), from_version=0, source="feed")


def test_removed_files_are_read_from_where_they_still_are(lab: StreamLab, make: Maker) -> None:
    table = make(*FIVE, properties=f"{FED}, {TRACKED}, 'delta.enableDeletionVectors' = 'false'")
    expected = by_commit(delta_feed(lab.spark, lab.path(table), 0))
    folder = Path(lab.path(table))
    # VACUUM removed the data files that later commits replaced.
    live = {file.name for file in map(Path, live_files(lab, table))}
    for file in folder.glob("*.parquet"):
        if file.name not in live:
            file.unlink()
    found = by_commit(lab.engine.change_feed(lab.path(table), from_version=2))
    assert found == {version: expected[version] for version in (2, 3, 4)}
    with pytest.raises(StreamStale, match=r"cannot include version 1.*removed"):
        lab.engine.change_feed(lab.path(table), from_version=0)
    with pytest.raises(StreamStale, match=r"cannot include version 2.*removed") as error:
        lab.engine.change_feed(lab.path(table), from_version=2, source="row_tracking")
    assert "begin with version 4" in error.value.fix


def test_log_that_was_cleaned_up_is_refused(lab: StreamLab, make: Maker) -> None:
    table = make(*FIVE, properties=f"{TRACKED}, 'delta.checkpointInterval' = '2'")
    log = Path(lab.path(table), "_delta_log")
    for version in (0, 1):
        (log / f"{version:020d}.json").unlink()
    with pytest.raises(InvalidRange, match="no longer holds version 0"):
        lab.engine.change_feed(lab.path(table), from_version=0)
    assert commits(lab, table, from_version=3) == [3, 4]


def live_files(lab: StreamLab, table: str) -> list[str]:
    return lab.spark.read.format("delta").load(lab.path(table)).inputFiles()
