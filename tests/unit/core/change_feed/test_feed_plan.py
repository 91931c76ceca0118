"""Which files the feed of a range reads, by the log alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs
from streams import new_commit, new_offset

from airflow_provider_cdc.engine.core.change_feed.feed_options import FeedSource
from airflow_provider_cdc.engine.core.change_feed.feed_plan import (
    FeedCommit,
    FeedPlan,
    Rewrite,
    plan_feed,
)
from airflow_provider_cdc.engine.core.delta.log_actions import Commit, DataFile, DeletionVector
from airflow_provider_cdc.engine.core.errors import ChangeTrackingDisabled, StreamStale

BOTH = {"delta.enableRowTracking": "true", "delta.enableChangeDataFeed": "true"}
TRACKED = {"delta.enableRowTracking": "true"}
FED = {"delta.enableChangeDataFeed": "true"}
LARGE, SMALL = 100 << 20, 1 << 20


def metadata(properties: Mapping[str, str], table: str = "t") -> dict[str, Any]:
    fields = [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]
    schema = json.dumps({"type": "struct", "fields": fields})
    return {"id": table, "schemaString": schema, "configuration": dict(properties)}


def file(path: str, size: int = SMALL, born: int = 1) -> DataFile:
    return DataFile(path, {}, size, True, None, 10 * born, born)


def update(version: int, change_bytes: int | None, file_bytes: int = LARGE) -> Commit:
    """An UPDATE that rewrote one file; with change files if the feed was on."""
    changes = () if change_bytes is None else (file(f"c{version}", change_bytes),)
    return new_commit(
        version,
        "UPDATE",
        removes=(file("old", file_bytes, 0),),
        adds=(file(f"new{version}", file_bytes, version),),
        change_files=changes,
        preserves_row_ids=True,
    )


def append(version: int) -> Commit:
    return new_commit(version, "WRITE", adds=(file(f"a{version}", SMALL, version),))


def plan(
    commits: Sequence[Commit],
    properties: Mapping[str, str] = BOTH,
    source: FeedSource = FeedSource.AUTO,
    row_ids: bool = False,
) -> FeedPlan:
    start = new_offset(0, metadata(properties))
    return plan_feed("change feed of t", start, commits, source, row_ids=row_ids)


def only(found: FeedPlan) -> FeedCommit:
    (commit,) = found.commits
    return commit


def test_commit_with_small_change_files_is_read_from_them() -> None:
    found = only(plan([update(1, SMALL)]))
    assert [file.path for file in found.change_files] == ["c1"]
    assert found.net.is_empty


def test_commit_with_large_change_files_is_read_from_its_data_files() -> None:
    found = only(plan([update(1, LARGE * 5)]))
    assert not found.change_files
    assert found.is_paired
    assert {file.path for file in found.files} == {"old", "new1"}


def test_other_way_of_a_commit_is_taken_if_files_are_missing() -> None:
    found = plan([update(1, SMALL), update(2, LARGE * 5)])
    first, second = found.instead([1, 2]).commits
    assert first.is_paired
    assert second.change_files
    assert found.instead([]).commits == found.commits


def test_row_ids_of_inserts_are_read_from_data_files() -> None:
    merge = replace(update(1, SMALL), operation="MERGE")
    assert only(plan([merge])).inserted == ()
    assert [file.path for file in only(plan([merge], row_ids=True)).inserted] == ["new1"]


def test_commit_without_change_files_is_paired_if_rows_are_tracked() -> None:
    commit = update(1, None)
    assert only(plan([commit], TRACKED)).is_paired
    assert not only(plan([commit], FED)).is_paired
    assert not only(plan([commit], BOTH, FeedSource.FEED)).is_paired


def rewritten(operation: str, before: int | None, after: int | None, vector: str = "") -> Commit:
    """A commit that replaced a file of ``before`` rows by one of ``after`` rows."""

    def counted(path: str, born: int, rows: int | None) -> DataFile:
        stats = None if rows is None else json.dumps({"numRecords": rows})
        return structs.replace(file(path, LARGE, born), stats=stats)

    old = counted("old", 0, before)
    if vector:
        old = structs.replace(old, deletion_vector=DeletionVector("u", vector, 1, 1, 1))
    return new_commit(
        1, operation, removes=(old,), adds=(counted("new", 1, after),), preserves_row_ids=True
    )


@pytest.mark.parametrize(
    ("commit", "expected"),
    [
        (rewritten("UPDATE", 5, 5), Rewrite.UPDATES),
        (rewritten("UPDATE", 5, 4), Rewrite.ANY),
        (rewritten("UPDATE", None, None), Rewrite.UPDATES),
        (rewritten("UPDATE", None, 5), Rewrite.UPDATES),
        (rewritten("UPDATE", 5, 5, vector="v"), Rewrite.ANY),
        (rewritten("MERGE", 5, 5), Rewrite.ANY),
        (rewritten("WRITE", 5, 5), Rewrite.ANY),
        (rewritten("DELETE", 5, 4), Rewrite.REMOVES),
        (rewritten("DELETE", None, None), Rewrite.REMOVES),
    ],
)
def test_log_shows_what_a_commit_did_to_rewritten_rows(commit: Commit, expected: Rewrite) -> None:
    assert only(plan([commit], TRACKED)).rewrite is expected


def test_commits_that_change_no_data_need_no_recording() -> None:
    moved = [
        DataFile(path, {}, SMALL, False, None, 0, 0) for path in ("small 1", "small 2", "large")
    ]
    optimise = new_commit(
        1, "OPTIMIZE", removes=tuple(moved[:2]), adds=(moved[2],), preserves_row_ids=True
    )
    assert plan([optimise, new_commit(2, "ADD COLUMNS")], {}).commits == ()
    with pytest.raises(ChangeTrackingDisabled, match="feed was off at version 1"):
        plan([optimise], {}, FeedSource.FEED)


@pytest.mark.parametrize("source", list(FeedSource))
def test_commit_that_is_recorded_nowhere_is_refused(source: FeedSource) -> None:
    enabled = new_commit(2, "SET TBLPROPERTIES", metadata=metadata(BOTH))
    with pytest.raises(ChangeTrackingDisabled, match="cannot include version 1") as error:
        plan([append(1), enabled, append(3)], {}, source)
    assert error.value.fix.startswith("begin with version 2:")


def test_gap_at_the_end_advises_to_switch_recording_on() -> None:
    with pytest.raises(ChangeTrackingDisabled, match="cannot include version 2") as error:
        plan([new_commit(1), append(2)], {})
    assert "switch delta.enableRowTracking on" in error.value.fix


@pytest.mark.parametrize(
    ("source", "properties"), [(FeedSource.ROW_TRACKING, FED), (FeedSource.FEED, TRACKED)]
)
def test_source_that_was_off_at_a_commit_is_refused(
    source: FeedSource, properties: Mapping[str, str]
) -> None:
    assert only(plan([append(1)], properties)).files
    with pytest.raises(ChangeTrackingDisabled, match="cannot include version 1"):
        plan([append(1)], properties, source)


def test_row_ids_need_row_tracking() -> None:
    assert only(plan([append(1)], FED)).files
    with pytest.raises(ChangeTrackingDisabled, match="row tracking was off"):
        plan([append(1)], FED, row_ids=True)


def test_commit_that_lost_row_ids_is_read_from_the_feed() -> None:
    commit = replace(update(1, SMALL), preserves_row_ids=None)
    assert only(plan([commit])).change_files
    with pytest.raises(ChangeTrackingDisabled, match="did not keep the row ids"):
        plan([commit], source=FeedSource.ROW_TRACKING)
    with pytest.raises(ChangeTrackingDisabled, match="did not keep the row ids"):
        plan([commit], TRACKED)


def test_commit_that_hides_what_it_changed_is_refused() -> None:
    hidden = marked_as_moved(append(1))
    for source in (FeedSource.AUTO, FeedSource.ROW_TRACKING):
        with pytest.raises(ChangeTrackingDisabled, match="marked as changing no data"):
            plan([hidden], source=source)
    assert plan([hidden], source=FeedSource.FEED).commits == ()


def marked_as_moved(commit: Commit) -> Commit:
    """``commit`` marked as no data change."""
    hidden = tuple(
        DataFile(each.path, {}, each.size_bytes, False, None, 1, commit.version)
        for each in commit.adds
    )
    return replace(commit, adds=hidden)


def test_merge_without_changed_rows_has_no_changes_in_the_feed() -> None:
    rows = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")
    idle = replace(update(1, None), operation="MERGE", operation_metrics=dict.fromkeys(rows, "0"))
    assert plan([idle], FED).commits == ()
    busy = replace(idle, operation_metrics={**idle.operation_metrics, rows[0]: "1"})
    assert plan([busy], FED).commits


def test_commit_whose_files_lack_row_ids_is_read_from_the_feed() -> None:
    """Paired by ids that every file lacks, changes would be lost."""
    whole = update(1, SMALL, SMALL)
    lacking = tuple(structs.replace(each, base_row_id=None) for each in whole.adds)
    commit = replace(whole, adds=lacking)
    assert only(plan([commit])).change_files
    for properties, source in ((TRACKED, FeedSource.AUTO), (BOTH, FeedSource.ROW_TRACKING)):
        with pytest.raises(ChangeTrackingDisabled, match="without baseRowId"):
            plan([commit], properties, source)


def test_removed_file_without_its_size_is_refused_unless_change_files_hold_its_rows() -> None:
    whole = update(1, SMALL)
    bare = tuple(structs.replace(each, size_bytes=0) for each in whole.removes)
    assert only(plan([replace(whole, removes=bare)])).change_files
    unfed = replace(update(1, None), removes=bare)
    for properties in (TRACKED, FED):
        with pytest.raises(ChangeTrackingDisabled, match="without its size"):
            plan([unfed], properties)


def test_row_ids_across_a_new_assignment_are_refused() -> None:
    backfill = new_commit(
        2, "ROW TRACKING BACKFILL", adds=(structs.replace(file("a"), data_change=False),)
    )
    commits = [append(1), backfill, append(3)]
    assert len(plan(commits).commits) == 2
    with pytest.raises(ChangeTrackingDisabled, match="version 2 assigned row ids again"):
        plan(commits, row_ids=True)
    # The ids of all rows are of one assignment.
    assert len(plan(commits[1:], row_ids=True).commits) == 1


def test_advice_names_what_is_recorded() -> None:
    with pytest.raises(ChangeTrackingDisabled) as error:
        plan([append(1)], FED, FeedSource.ROW_TRACKING)
    assert error.value.fix.startswith('pass source="auto"')
    with pytest.raises(ChangeTrackingDisabled) as error:
        plan([replace(update(1, None), preserves_row_ids=None)], TRACKED)
    assert error.value.fix.startswith("begin with version 2, and take the rows")


def test_range_across_a_replacement_of_the_table_is_refused() -> None:
    replaced = new_commit(2, "CREATE OR REPLACE", metadata=metadata(BOTH, "other"))
    with pytest.raises(StreamStale, match="version 2 replaced the table") as error:
        plan([append(1), replaced, append(3)])
    assert error.value.fix.startswith("begin with version 3,")
    assert error.value.fix.endswith("or end with version 1")


def test_commits_know_the_layouts_before_and_after_them() -> None:
    renamed = new_commit(2, "RENAME COLUMN", metadata=metadata(BOTH), protocol={"v": 2})
    overwritten = replace(update(3, None), metadata=metadata(BOTH))
    found = plan([append(1), renamed, overwritten, append(4)])
    assert [(each.version, each.before, each.after) for each in found.commits] == [
        (1, 0, 0),
        (3, 1, 2),
        (4, 2, 2),
    ]
    assert len(found.history.layouts) == len(found.protocols) == 3
    assert found.protocols[1:] == ({"v": 2}, {"v": 2})
