"""Streams at an earlier point of their source's history (as in Snowflake's Time Travel)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from stream_lab import StreamLab

from airflow_provider_cdc.engine import (
    ChangeTrackingDisabled,
    InvalidRange,
    InvalidRequest,
    OffsetOf,
    Point,
    StreamConflict,
    StreamExists,
    StreamNotFound,
    StreamStale,
    Timestamp,
    Version,
)
from airflow_provider_cdc.engine.core.model.lifecycle import Transition
from airflow_provider_cdc.engine.core.model.stream import Phase

TRACKED = "'delta.enableRowTracking' = 'true'"
OWN_TIMES = "'delta.enableInCommitTimestamps' = 'true'"


def lab_of(spark: SparkSession, root: Path, properties: str) -> StreamLab:
    """A table ``src`` whose versions 1 to 4 insert 1, insert 2, update 1 and delete 2."""
    lab = StreamLab(spark, root)
    lab.make(
        "src",
        "id INT, v STRING",
        "INSERT INTO {t} VALUES (1, 'a')",
        "INSERT INTO {t} VALUES (2, 'b')",
        "UPDATE {t} SET v = 'x' WHERE id = 1",
        "DELETE FROM {t} WHERE id = 2",
        properties=properties,
    )
    assert lab.version("src") == 4
    return lab


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> StreamLab:
    return lab_of(spark, tmp_path, TRACKED)


def create(lab: StreamLab, name: str = "s", **options: Any) -> Any:
    return lab.engine.create_stream(name, on_table=lab.path("src"), **options)


@pytest.mark.thorough
def test_stream_at_a_version_returns_later_changes(lab: StreamLab) -> None:
    assert create(lab, at=Version(2)).offset.version == 2
    assert lab.seen("s") == [
        (1, "a", "DELETE", True),
        (1, "x", "INSERT", True),
        (2, "b", "DELETE", False),
    ]


@pytest.mark.thorough
def test_stream_before_a_version_also_returns_the_changes_of_that_version(
    lab: StreamLab,
) -> None:
    create(lab, before=Version(2))
    assert lab.seen("s") == [(1, "a", "DELETE", True), (1, "x", "INSERT", True)]
    create(lab, "empty", at=Version(4))
    assert lab.seen("empty") == []


@pytest.mark.thorough
@pytest.mark.parametrize("properties", [TRACKED, f"{TRACKED}, {OWN_TIMES}"], ids=["files", "own"])
def test_stream_at_a_timestamp_is_at_the_version_of_delta_time_travel(
    spark: SparkSession, tmp_path: Path, properties: str
) -> None:
    lab = lab_of(spark, tmp_path, properties)
    third = lab.committed_at("src", 3)
    points: list[dict[str, Point]] = [
        {"at": Timestamp(third)},
        {"before": Timestamp(third)},
        {"at": Timestamp(third - timedelta(milliseconds=1))},
        {"at": Timestamp((third + timedelta(milliseconds=1)).isoformat())},
    ]
    found = [create(lab, f"s{i}", **point).offset.version for i, point in enumerate(points)]

    assert found == [3, 2, 2, 3]
    read = lab.spark.sql(f"SELECT * FROM {lab.name('src')} TIMESTAMP AS OF '{third.isoformat()}'")
    assert sorted(map(tuple, read.collect())) == [(1, "x"), (2, "b")]


@pytest.mark.thorough
def test_stream_at_the_offset_of_another_stream_returns_the_same_changes(lab: StreamLab) -> None:
    create(lab, at=Version(1))
    create(lab, "twin", at=OffsetOf("S"))
    assert lab.changes("twin") == lab.changes("s") != []
    lab.consume("CREATE TABLE {copy} USING delta AS SELECT * FROM s")
    assert (lab.seen("s"), lab.seen("twin")[0]) == ([], (1, "a", "DELETE", True))


def test_stream_at_the_offset_of_a_stream_on_another_table_is_refused(lab: StreamLab) -> None:
    lab.make("other", "id INT", properties=TRACKED)
    lab.engine.create_stream("elsewhere", on_table=lab.path("other"))
    with pytest.raises(InvalidRequest, match="a stream on the same table"):
        create(lab, at=OffsetOf("elsewhere"))
    with pytest.raises(StreamNotFound):
        create(lab, at=OffsetOf("nowhere"))
    assert [status.name for status in lab.engine.describe_streams()] == ["elsewhere"]


@pytest.mark.in_ci("options1-show_initial_rows", "options2-show_initial_rows")
@pytest.mark.parametrize(
    ("options", "fix"),
    [
        ({"at": Version(5)}, "DESCRIBE HISTORY"),
        ({"before": Version(0)}, "show_initial_rows"),
        ({"at": Timestamp("2001-01-01T00:00:00Z")}, "show_initial_rows"),
    ],
)
def test_stream_outside_of_the_sources_history_is_refused(
    lab: StreamLab, options: dict[str, Point], fix: str
) -> None:
    with pytest.raises(InvalidRange, match=fix):
        create(lab, **options)
    assert lab.engine.describe_streams() == []


@pytest.mark.thorough
def test_stream_at_a_point_before_change_tracking_was_on_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    lab = StreamLab(spark, tmp_path)
    lab.make("src", "id INT")
    lab.sql("INSERT INTO {src} VALUES (1)")
    with pytest.raises(ChangeTrackingDisabled, match="row tracking was off then"):
        create(lab, at=Version(1))
    assert lab.version("src") == 1

    create(lab, "now")
    with pytest.raises(ChangeTrackingDisabled, match="switches row tracking on"):
        create(lab, at=Version(1))
    assert create(lab, at=Version(lab.version("src"))).offset.version == lab.version("src")


def test_stream_at_a_point_before_a_gap_in_change_tracking_is_refused(
    lab: StreamLab,
) -> None:
    lab.sql("ALTER TABLE {src} SET TBLPROPERTIES ('delta.enableRowTracking' = 'false')")
    version = lab.version("src")
    with pytest.raises(ChangeTrackingDisabled, match=f"version {version} switched"):
        create(lab, at=Version(3))
    assert lab.version("src") == version


@pytest.mark.thorough
def test_stream_at_a_point_with_missing_files_is_refused_without_replacing(
    lab: StreamLab,
) -> None:
    stream = create(lab)
    lab.sql("OPTIMIZE {src}")
    for file in Path(lab.path("src")).glob("*.parquet"):
        file.unlink()
    with pytest.raises(StreamStale, match="files that it has to read were removed"):
        create(lab, or_replace=True, at=Version(0))
    assert lab.engine.describe_stream("s").stream_id == stream.stream_id


def test_stream_before_the_source_was_replaced_is_refused(lab: StreamLab) -> None:
    lab.sql(
        f"CREATE OR REPLACE TABLE {{src}} USING delta TBLPROPERTIES ({TRACKED})"
        " AS SELECT 9 AS id, 'z' AS v"
    )
    with pytest.raises(InvalidRange, match="was a different table then"):
        create(lab, at=Version(2))


def test_replaced_stream_is_at_the_offset_of_the_new_one(lab: StreamLab) -> None:
    old = create(lab, at=Version(1))
    new = create(lab, "S", or_replace=True)
    assert (new.offset.version, new.stream_id != old.stream_id) == (4, True)
    assert [status.stream_id for status in lab.engine.describe_streams()] == [new.stream_id]
    create(lab, or_replace=True, at=Version(2))
    assert len(lab.seen("s")) == 3


def test_existing_stream_is_replaced_only_by_a_valid_or_replace(lab: StreamLab) -> None:
    stream = create(lab, at=Version(1))
    with pytest.raises(StreamExists, match="or_replace"):
        create(lab)
    with pytest.raises(InvalidRequest, match="contradict"):
        create(lab, or_replace=True, if_not_exists=True)
    with pytest.raises(InvalidRange):
        create(lab, or_replace=True, at=Version(9))
    assert lab.engine.describe_stream("s").stream_id == stream.stream_id


def test_stream_in_an_open_consumption_is_not_replaced(lab: StreamLab) -> None:
    lab.make("target", "id INT, v STRING")
    create(lab, at=Version(1))

    def replace_meanwhile(progress: Any) -> None:
        if progress.point == "after_begin":
            with pytest.raises(StreamConflict, match=Transition.DROPPED.value):
                create(lab, or_replace=True)

    engine = lab.new_engine(replace_meanwhile)
    lab.consume("INSERT INTO {target} SELECT id, v FROM s", engine=engine)
    assert len(lab.rows("target")) == 2
    assert lab.engine.describe_stream("s").offset_version == 4
    assert lab.engine.advance_stream("s").phase == Phase.IDLE
