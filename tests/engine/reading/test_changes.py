"""Changes between two points of a table's history, without a stream (as Snowflake's CHANGES)."""

from __future__ import annotations

from itertools import combinations_with_replacement
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
    TableNotFound,
    Timestamp,
    Version,
)

TRACKED = "'delta.enableRowTracking' = 'true'"


@pytest.fixture(scope="module")
def lab(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> StreamLab:
    """A table ``src`` whose six versions insert, update, delete, restore and rearrange."""
    lab = StreamLab(spark, tmp_path_factory.mktemp("changes"))
    lab.make("src", "id INT, v STRING", properties=TRACKED)
    lab.sql(
        "INSERT INTO {src} SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "UPDATE {src} SET v = 'x' WHERE id <= 2",
        "DELETE FROM {src} WHERE id = 2",
        "INSERT INTO {src} VALUES (4, 'd')",
        "RESTORE TABLE {src} TO VERSION AS OF 1",
        "OPTIMIZE {src}",
    )
    return lab


def changes(lab: StreamLab, **points: Any) -> list[tuple[Any, ...]]:
    rows = lab.engine.changes(lab.path("src"), **points)
    return sorted((tuple(row[:-1]) for row in rows.collect()), key=repr)


def difference(lab: StreamLab, first: int, last: int) -> list[tuple[Any, ...]]:
    """The change set by Delta's reads at both ends; ``id`` identifies a row."""

    def at(version: int) -> dict[int, str]:
        read = f"SELECT id, v FROM {lab.name('src')} VERSION AS OF {version}"
        return {row.id: row.v for row in lab.spark.sql(read).collect()}

    old, new = at(first), at(last)
    found: list[tuple[Any, ...]] = []
    for key in old.keys() | new.keys():
        if key in old and old[key] != new.get(key):
            found.append((key, old[key], "DELETE", key in new))
        if key in new and new[key] != old.get(key):
            found.append((key, new[key], "INSERT", key in old))
    return sorted(found, key=repr)


@pytest.mark.thorough
def test_changes_of_every_range_are_the_difference_of_its_ends(lab: StreamLab) -> None:
    last = lab.version("src")
    for first, end in combinations_with_replacement(range(last + 1), 2):
        found = changes(lab, at=Version(first), end=Version(end))
        assert found == difference(lab, first, end), (first, end)


@pytest.mark.thorough
def test_changes_exclude_the_at_version_and_include_before_and_end(lab: StreamLab) -> None:
    update = difference(lab, 1, 2)
    assert changes(lab, at=Version(1), end=Version(2)) == update
    assert changes(lab, before=Version(2), end=Version(2)) == update
    assert changes(lab, at=Version(2), end=Version(2)) == []


@pytest.mark.thorough
def test_changes_without_an_end_reach_the_newest_version(lab: StreamLab) -> None:
    assert changes(lab, at=Version(4)) == difference(lab, 4, lab.version("src"))


def test_append_only_changes_are_the_inserted_rows_as_inserted(lab: StreamLab) -> None:
    found = changes(lab, at=Version(0), end=Version(4), information="append_only")
    assert found == [
        (1, "a", "INSERT", False),
        (2, "b", "INSERT", False),
        (3, "c", "INSERT", False),
        (4, "d", "INSERT", False),
    ]


@pytest.mark.thorough
def test_changes_between_stream_offsets_and_times_move_no_stream(
    lab: StreamLab,
) -> None:
    for name, version in (("first", 1), ("last", 3)):
        lab.engine.create_stream(name, on_table=lab.path("src"), at=Version(version))
    start, end = (Timestamp(lab.committed_at("src", version)) for version in (1, 3))

    found = changes(lab, at=OffsetOf("first"), end=OffsetOf("last"))

    assert found == difference(lab, 1, 3) == changes(lab, at=start, end=end)
    offsets = [status.offset_version for status in lab.engine.describe_streams()]
    assert offsets == [1, 3]


def test_changes_in_databend_style_have_databend_column_names(lab: StreamLab) -> None:
    rows = lab.engine.changes(lab.path("src"), at=Version(4), column_style="databend")
    assert rows.columns == ["id", "v", "change$action", "change$is_update", "change$row_id"]


@pytest.mark.parametrize(
    ("points", "problem"),
    [
        ({}, "have no beginning"),
        ({"end": Version(3)}, "have no beginning"),
        ({"at": Version(1), "before": Version(1)}, "either at or before"),
        ({"at": Version(3), "end": Version(2)}, "not earlier than the beginning"),
        ({"before": Version(3), "end": Version(2)}, "not earlier than the beginning"),
        # No commit lies between these times: as versions they are the same.
        (
            {"at": Timestamp("2000-01-01T12:00:00Z"), "end": Timestamp("2000-01-01T11:00:00Z")},
            "not earlier than the beginning",
        ),
        ({"at": Version(99)}, "expected a version from 0"),
        ({"at": Version(1), "information": "all"}, "default, append_only"),
    ],
)
def test_changes_without_a_valid_range_are_refused(
    lab: StreamLab, points: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        changes(lab, **points)


@pytest.mark.thorough
def test_changes_that_end_before_tracking_was_switched_off_are_returned(
    spark: SparkSession, tmp_path: Path
) -> None:
    lab = StreamLab(spark, tmp_path)
    lab.make("src", "id INT, v STRING", properties=TRACKED)
    lab.sql(
        "INSERT INTO {src} VALUES (1, 'a')",
        "ALTER TABLE {src} SET TBLPROPERTIES ('delta.enableRowTracking' = 'false')",
    )
    assert changes(lab, at=Version(0), end=Version(1)) == [(1, "a", "INSERT", False)]
    with pytest.raises(ChangeTrackingDisabled):
        changes(lab, at=Version(0))


def test_changes_of_an_untracked_or_missing_table_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    lab = StreamLab(spark, tmp_path)
    lab.make("plain", "id INT")
    with pytest.raises(ChangeTrackingDisabled, match="changes of"):
        lab.engine.changes(lab.path("plain"), at=Version(0))
    with pytest.raises(TableNotFound):
        lab.engine.changes(lab.path("nothing"), at=Version(0))
    with pytest.raises(InvalidRange):
        Version(-1)


@pytest.mark.thorough
def test_changes_are_available_since_a_stream_switched_tracking_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    lab = StreamLab(spark, tmp_path)
    lab.make("src", "id INT, v STRING")
    lab.sql("INSERT INTO {src} VALUES (1, 'a')")
    lab.engine.create_stream("s", on_table=lab.path("src"))
    tracked = lab.version("src")
    lab.sql("INSERT INTO {src} VALUES (2, 'b')")

    assert changes(lab, at=Version(tracked)) == [(2, "b", "INSERT", False)]
    with pytest.raises(ChangeTrackingDisabled, match="off then"):
        changes(lab, at=Version(1))


def test_changes_of_a_view_over_an_untracked_table_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    lab = StreamLab(spark, tmp_path)
    lab.make("plain", "id INT")
    lab.sql("CREATE VIEW over_plain AS SELECT * FROM {plain}")
    try:
        with pytest.raises(ChangeTrackingDisabled, match="every table that the view reads"):
            lab.engine.changes("over_plain", at=Timestamp(lab.committed_at("plain", 0)))
    finally:
        lab.sql("DROP VIEW over_plain")
