"""A feed reads from the archive what it holds, and the rest from the table."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from archive_lab import ArchiveLab

from airflow_provider_cdc.engine import InvalidRange, Timestamp, Version

LATER = (
    "UPDATE {src} SET v = 'x' WHERE id = 1",
    "INSERT INTO {src} VALUES (4, 'd')",
    "DELETE FROM {src} WHERE id = 4",
    "UPDATE {src} SET v = 'a' WHERE id = 1",
)


def forget(lab: ArchiveLab, before: int) -> None:
    """Remove what VACUUM and the clean-up of the log remove of the versions ``before`` one."""
    log = Path(lab.path("src"), "_delta_log")
    lab.spark.sql(
        f"ALTER TABLE {lab.name('src')} SET TBLPROPERTIES ('delta.checkpointInterval' = '1')"
    )
    lab.sql("INSERT INTO {src} VALUES (100, 'later')")
    for file in log.iterdir():
        name = file.name.lstrip(".")
        if name[:20].isdigit() and int(name[:20]) < before:
            file.unlink()


@pytest.mark.in_ci("2-3")
@pytest.mark.parametrize("through", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("first", [2, 3, 5])
def test_feed_over_the_seam_is_the_feed_of_the_table(
    lab: ArchiveLab, through: int, first: int
) -> None:
    lab.archive()
    lab.sql(*LATER)
    if through > 1:
        lab.archive(max_commits=through - 1)

    assert lab.archived(from_version=first) == lab.table_feed(first)
    assert lab.archived(from_version=first, to_version=5) == lab.table_feed(first)
    for last in range(first, 5):
        found = lab.archived(from_version=first, to_version=last)
        assert found == lab.table_feed(first, to_version=last), last


@pytest.mark.thorough
def test_feed_of_times_over_the_seam_is_the_feed_of_the_table(lab: ArchiveLab) -> None:
    lab.archive()
    lab.sql(*LATER)
    lab.archive(max_commits=2)
    times = {version: lab.committed_at("src", version) for version in range(1, 6)}
    moment = timedelta(milliseconds=1)
    for first in (2, 3, 4, 5):
        for last in range(first, 6):
            for start, end in ((times[first], times[last]), (times[first - 1] + moment, None)):
                bounds = {"from_timestamp": start, "to_timestamp": end}
                expected = lab.table_feed(first, to_version=5 if end is None else last)
                assert lab.archived(**bounds) == expected, (first, last, end)


def test_feed_reads_versions_that_the_table_no_longer_has(lab: ArchiveLab) -> None:
    lab.archive(from_version=0)
    lab.sql(*LATER)
    expected = lab.table_feed(0)
    lab.archive()
    forget(lab, before=6)
    with pytest.raises(InvalidRange, match="the log no longer holds"):
        lab.table_feed(0)

    found = lab.archived(from_version=0)

    assert {version: found.get(version) for version in expected} == expected
    assert set(found) - set(expected) == {lab.version("src")}


def test_replay_needs_neither_the_table_nor_its_log(lab: ArchiveLab) -> None:
    lab.archive()
    lab.sql(*LATER)
    lab.archive()
    before = [tuple(row) for row in lab.replay(as_of=Version(3)).collect()]
    Path(lab.path("src")).rename(lab.path("moved"))

    assert [tuple(row) for row in lab.replay(as_of=Version(3)).collect()] == before
    assert lab.replay().count() == 3


@pytest.mark.thorough
def test_replay_at_a_time_is_that_of_the_last_commit_up_to_it(lab: ArchiveLab) -> None:
    lab.archive()
    lab.sql(*LATER)
    lab.archive()
    for version in (1, 2, 3, 4, 5):
        at = Timestamp(lab.committed_at("src", version))
        expected = sorted(map(tuple, lab.replay(as_of=Version(version)).collect()))
        assert sorted(map(tuple, lab.replay(as_of=at).collect())) == expected, version


def test_feed_with_prefix_row_ids_and_condition_has_them_on_both_sides(lab: ArchiveLab) -> None:
    lab.archive()
    lab.sql(*LATER)
    lab.archive(max_commits=2)
    options = {"from_version": 2, "row_ids": True, "column_prefix": "p", "where": "id = 1"}
    plain = lab.engine.change_feed(lab.path("src"), **options)
    found = lab.engine.change_feed(lab.path("src"), archive=lab.path("log"), **options)

    assert found.columns == plain.columns
    assert sorted(map(tuple, found.collect())) == sorted(map(tuple, plain.collect()))


def test_column_that_was_added_after_the_seam_is_null_in_archived_changes(
    lab: ArchiveLab,
) -> None:
    lab.archive()
    lab.sql(LATER[0])
    lab.archive()
    lab.sql("ALTER TABLE {src} ADD COLUMN w INT", "UPDATE {src} SET w = 1")

    for schema in ("end", "commit"):
        assert lab.archived(from_version=2, schema=schema) == lab.table_feed(2, schema=schema)


@pytest.mark.in_ci("empty")
@pytest.mark.parametrize("out_of_range", ["error", "empty", "clamp"])
def test_bound_after_the_newest_commit_is_handled_as_without_an_archive(
    lab: ArchiveLab, out_of_range: str
) -> None:
    lab.archive()
    lab.sql(*LATER[:2])
    lab.archive()
    options = {"to_version": 99, "out_of_range": out_of_range}
    if out_of_range == "error":
        with pytest.raises(InvalidRange, match="after the newest commit"):
            lab.archived(from_version=2, **options)
        with pytest.raises(InvalidRange, match="after the newest commit"):
            lab.archived(from_version=98)
    else:
        assert lab.archived(from_version=2, **options) == lab.table_feed(2, **options)
