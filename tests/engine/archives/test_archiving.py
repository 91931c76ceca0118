"""Archives hold every change of a table, exactly once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from archive_lab import ArchiveLab
from stream_lab import PASSED_POINTS, Crash, CrashAt

from airflow_provider_cdc.engine import ProtocolPoint
from airflow_provider_cdc.engine.consumption.consumer import Consumer

LATER = (
    "UPDATE {src} SET v = 'x' WHERE id = 1",
    "INSERT INTO {src} VALUES (4, 'd')",
    "DELETE FROM {src} WHERE id = 4",
    "UPDATE {src} SET v = 'a' WHERE id = 1",
)
AS_INSERTS = Counter({("insert", 1, "a"): 1, ("insert", 2, "b"): 1, ("insert", 3, "c"): 1})


def test_new_archive_begins_with_all_rows_and_continues_with_each_change(lab: ArchiveLab) -> None:
    first = lab.archive()
    lab.sql(*LATER)
    second = lab.archive()

    assert (first.after_version, first.through_version, first.rows) == (1, 1, 3)
    assert (second.through_version, second.rows, second.has_more) == (5, 4, False)
    rows = lab.spark.table(lab.name("log"))
    assert rows.columns == [
        "_commit_version",
        "_commit_timestamp",
        "_change_type",
        "METADATA$ROW_ID",
        "_schema_version",
        "_commit_date",
        "id",
        "v",
    ]
    found = rows.where("_commit_version = 1").select("_change_type", "id", "v").collect()
    assert Counter(map(tuple, found)) == AS_INSERTS
    assert lab.archived(from_version=2) == lab.table_feed(2)
    assert lab.spark.sql(f"DESCRIBE DETAIL {lab.name('log')}").first()["partitionColumns"] == [
        "_commit_date"
    ]
    lab.check_replays(1, 2, 3, 4, 5)


def test_archive_without_new_commits_is_not_written(lab: ArchiveLab) -> None:
    lab.archive()
    before = lab.version("log")

    assert lab.archive().batches == ()
    assert lab.version("log") == before


@pytest.mark.thorough
def test_bootstrap_is_not_repeated_by_a_call_with_other_arguments(lab: ArchiveLab) -> None:
    # Delta's streaming read returns the version of its snapshot again (delta#4391).
    lab.archive()
    lab.sql(LATER[0])
    lab.archive(from_version=0, bootstrap=True)

    assert len(lab.rows("log")) == 5


@pytest.mark.thorough
def test_archive_from_version_0_needs_no_bootstrap(lab: ArchiveLab) -> None:
    lab.sql(*LATER)
    outcome = lab.archive(from_version=0)

    assert outcome.after_version == -1
    assert lab.archived(from_version=0) == lab.table_feed(0)
    lab.check_replays(0, 1, 2, 3, 4, 5)


@pytest.mark.thorough
def test_archive_without_bootstrap_holds_only_changes(lab: ArchiveLab) -> None:
    lab.sql(*LATER)
    lab.archive(from_version=3, bootstrap=False)

    assert lab.archived(from_version=3) == lab.table_feed(3)
    assert len(lab.rows("log")) == 4


@pytest.mark.thorough
def test_archive_from_an_earlier_version_begins_with_the_rows_of_before(lab: ArchiveLab) -> None:
    lab.sql(*LATER)
    lab.archive(from_version=4)

    assert lab.archived(from_version=4) == lab.table_feed(4)
    lab.check_replays(3, 4, 5)


@pytest.mark.thorough
def test_archive_from_a_time_begins_with_the_first_commit_from_then_on(lab: ArchiveLab) -> None:
    lab.sql(*LATER)
    outcome = lab.archive(from_timestamp=lab.committed_at("src", 4))

    assert outcome.after_version == 3
    lab.check_replays(3, 4, 5)


@pytest.mark.thorough
def test_bounded_calls_take_some_commits_and_say_that_more_wait(lab: ArchiveLab) -> None:
    lab.archive()
    lab.sql(*LATER)
    taken = [lab.archive(max_commits=3), lab.archive(max_commits=3), lab.archive(max_commits=3)]

    assert [each.through_version for each in taken] == [4, 5, 5]
    assert [each.has_more for each in taken] == [True, False, False]
    lab.check_replays(1, 2, 3, 4, 5)


def test_commits_without_changes_move_the_archive_on(lab: ArchiveLab) -> None:
    lab.archive()
    lab.sql("OPTIMIZE {src}", "ALTER TABLE {src} SET TBLPROPERTIES ('a' = 'b')")
    outcome = lab.archive()

    assert (outcome.through_version, outcome.rows) == (lab.version("src"), 0)
    lab.check_replays(1, outcome.through_version)


@pytest.mark.in_ci("new-after_statement", "existing-before_commit")
@pytest.mark.parametrize("point", PASSED_POINTS)
@pytest.mark.parametrize("is_new", [True, False], ids=["new", "existing"])
def test_archive_of_a_crashed_driver_holds_each_change_once(
    lab: ArchiveLab, point: ProtocolPoint, is_new: bool
) -> None:
    if not is_new:
        lab.archive()
        lab.sql(*LATER[:2])
    crashing = lab.new_engine(CrashAt(point))
    with pytest.raises(Crash):
        crashing.archive_changes(lab.path("src"), lab.path("log"))
    lab.sql(*LATER[2:])
    lab.archive()

    assert lab.archived(from_version=2) == lab.table_feed(2)
    lab.check_replays(lab.version("src"))


def test_archive_with_a_new_state_folder_continues_where_it_ends(
    lab: ArchiveLab, tmp_path: Path
) -> None:
    lab.archive()
    lab.sql(*LATER[:2])
    lab.archive()
    lab.sql(*LATER[2:])
    moved = ArchiveLab(lab.spark, tmp_path)
    moved.root = tmp_path / "other"
    other = moved.new_engine()
    other.archive_changes(lab.path("src"), lab.path("log"))

    assert by_version(lab) == Counter({1: 3, 2: 2, 3: 1, 4: 1, 5: 2})


def by_version(lab: ArchiveLab) -> Counter[int]:
    """The number of rows of each version in the archive."""
    rows = lab.spark.table(lab.name("log")).select("_commit_version").collect()
    return Counter(row[0] for row in rows)


def test_call_ends_although_a_writer_never_stops(
    lab: ArchiveLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    consume, count = Consumer.consume, iter(range(100, 200))

    def write_and_consume(*given: Any, **options: Any) -> Any:
        lab.sql(f"INSERT INTO {{src}} VALUES ({next(count)}, 'more')")
        return consume(*given, **options)

    lab.archive()
    lab.sql(LATER[0])
    monkeypatch.setattr(Consumer, "consume", write_and_consume)
    outcome = lab.archive()

    assert (outcome.through_version, outcome.has_more) == (2, True)
