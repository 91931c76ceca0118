"""When a stream's row ids are reliable, by commits alone."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs
from streams import NOON, new_commit, new_stream
from table_histories import data_file

from airflow_provider_cdc.engine.core.delta.log_actions import Commit, TableState, parse_commit
from airflow_provider_cdc.engine.core.delta.tracking import (
    check_source,
    check_tracking,
    is_tracked,
    offset_after,
    offset_of,
)
from airflow_provider_cdc.engine.core.errors import ChangeTrackingDisabled, StreamStale
from airflow_provider_cdc.engine.core.model.sources import Source
from airflow_provider_cdc.engine.core.model.stream import Stream

MATERIALISED = "delta.rowTracking.materializedRowIdColumnName"


def metadata(
    enabled: str | None = "true", column: str = "_row-id-1", **more: Any
) -> dict[str, Any]:
    configuration = {MATERIALISED: column}
    if enabled is not None:
        configuration["delta.enableRowTracking"] = enabled
    return {"id": "t", "configuration": configuration, **more}


def stream() -> Stream:
    state = TableState(4, NOON, "f4", metadata(), {"minReaderVersion": 3, "extra": None}, 7)
    return new_stream(source=Source("the source", "/t", "t"), offset=offset_of(state))


@pytest.mark.parametrize(
    ("enabled", "tracked"), [("true", True), ("TRUE", True), ("false", False), (None, False)]
)
def test_is_tracked_follows_the_property(enabled: str | None, tracked: bool) -> None:
    assert is_tracked(metadata(enabled)) is tracked
    assert not is_tracked({"id": "t"})


def test_offset_after_no_commits_is_unchanged() -> None:
    offset = stream().offset
    assert offset_after(offset, []) == offset


def test_offset_after_commits_holds_what_is_in_force_last() -> None:
    offset = stream().offset
    assert offset.protocol == {"minReaderVersion": 3}
    after = offset_after(offset, [new_commit(5, row_id_high_water_mark=9), new_commit(6)])
    assert (after.version, after.fingerprint, after.row_id_high_water_mark) == (6, "f6", 9)
    assert (after.metadata, after.protocol) == (offset.metadata, offset.protocol)
    new = metadata(name="renamed")
    changed = offset_after(after, [new_commit(7, metadata=new, protocol={"minReaderVersion": 1})])
    assert changed.metadata == new
    assert changed.protocol == {"minReaderVersion": 1}
    assert changed.row_id_high_water_mark == 9


def test_check_source_of_another_table_id_raises_stale() -> None:
    replaced = offset_after(stream().offset, [new_commit(5, metadata={**metadata(), "id": "u"})])
    check_source(stream(), stream().offset)
    with pytest.raises(StreamStale, match=r"s: .* Cause: expected table id t, found u\. Fix"):
        check_source(stream(), replaced)


def test_check_tracking_of_ordinary_commits_passes() -> None:
    commits = [new_commit(5), new_commit(6, metadata=metadata(name="x")), new_commit(7, "OPTIMIZE")]
    check_tracking(stream(), commits)


def test_backfill_that_came_too_late_to_assign_anything_passes() -> None:
    check_tracking(stream(), [new_commit(5, "ROW TRACKING BACKFILL")])


@pytest.mark.parametrize(
    ("commits", "cause"),
    [
        (
            [new_commit(5, "ROW TRACKING BACKFILL", adds=(data_file("f", 5, change=False),))],
            "version 5 assigned row ids again",
        ),
        (
            [new_commit(5, "ROW TRACKING UNBACKFILL", adds=(data_file("f", 5, change=False),))],
            "version 5 assigned row ids again",
        ),
        (
            [new_commit(5, adds=(data_file("f", 5, change=False),))],
            "added or removed rows, but is marked as changing no data",
        ),
        (
            [new_commit(5, removes=(data_file("f", 1, change=False),))],
            "added or removed rows, but is marked as changing no data",
        ),
        (
            [new_commit(5, "CLONE", adds=(data_file("f", 5),))],
            "a clone replaced the table in version 5",
        ),
        (
            [new_commit(5, metadata=metadata("false")), new_commit(6, metadata=metadata())],
            "version 5 switched row tracking off",
        ),
        ([new_commit(5, metadata=metadata(column="other"))], "version 5 set up row tracking again"),
    ],
)
def test_check_tracking_of_a_gap_in_between_raises_stale(commits: list[Commit], cause: str) -> None:
    with pytest.raises(StreamStale, match=cause):
        check_tracking(stream(), commits)


@pytest.mark.parametrize("enabled", ["false", None])
def test_check_tracking_of_a_range_that_ends_untracked_raises_disabled(
    enabled: str | None,
) -> None:
    commits = [new_commit(5, metadata=metadata(enabled)), new_commit(6)]
    with pytest.raises(ChangeTrackingDisabled, match="version 5 switched row tracking off"):
        check_tracking(stream(), commits)


@pytest.mark.parametrize("preserved", [None, False])
@pytest.mark.parametrize("operation", ["UPDATE", "MERGE", "DELETE", "OPTIMIZE", "REORG"])
def test_rows_carried_over_without_row_ids_make_the_stream_stale(
    operation: str, preserved: bool | None
) -> None:
    carried = {"adds": (data_file("new", 6),), "removes": (data_file("old", 1),)}
    lost = new_commit(6, operation, preserves_row_ids=preserved, **carried)

    with pytest.raises(StreamStale, match=f"version 6, {operation}, did not keep the row ids"):
        check_tracking(stream(), [new_commit(5), lost, new_commit(7)])
    check_tracking(stream(), [new_commit(6, operation, preserves_row_ids=True, **carried)])


@pytest.mark.parametrize("condition", ["predicate", "replaceOnCond", "replaceUsingCols"])
def test_partial_overwrite_as_row_tracking_begins_makes_the_stream_stale(
    condition: str,
) -> None:
    files = {"adds": (data_file("new", 6),), "removes": (data_file("old", 1),)}
    met = new_commit(6, "WRITE", preserves_row_ids=False, **files)
    partly = replace(met, operation_parameters={"mode": "Overwrite", condition: "x"})

    with pytest.raises(StreamStale, match="version 6, WRITE, did not keep the row ids"):
        check_tracking(stream(), [partly])
    # An overwrite of a part that was planned after row tracking began does not record this, but
    # keeps the ids. An overwrite of all rows carries no row over.
    check_tracking(stream(), [replace(partly, preserves_row_ids=None), met])


def test_removed_vector_files_do_not_make_the_stream_stale() -> None:
    vectors = structs.replace(data_file("vector.bin", 1, change=False), base_row_id=None)
    check_tracking(stream(), [new_commit(5, "Deletion Vector Tombstones", removes=(vectors,))])


def test_clone_that_made_the_table_is_not_a_replacement() -> None:
    check_tracking(stream(), [new_commit(0, "CLONE", adds=(data_file("f", 0),))])


def test_files_rearranged_without_row_ids_make_the_stream_stale() -> None:
    old, new = data_file("old", 1, change=False), data_file("new", 6, change=False)
    rearranged = new_commit(6, "WRITE", adds=(new,), removes=(old,))

    with pytest.raises(StreamStale, match="version 6, WRITE, did not keep the row ids"):
        check_tracking(stream(), [new_commit(5), rearranged])
    check_tracking(stream(), [replace(rearranged, preserves_row_ids=True)])
    # COMPUTE STATISTICS lists files again that stay in the table.
    check_tracking(stream(), [replace(rearranged, adds=(old,), removes=())])


@pytest.mark.parametrize(
    "files",
    [
        {"adds": (data_file("new", 6),)},
        {"removes": (data_file("old", 1),)},
        {"adds": (data_file("same", 1, 3),), "removes": (data_file("same", 1),)},
    ],
    ids=["new files", "files that went", "a vector that grew"],
)
def test_commits_that_carry_no_row_over_need_not_keep_row_ids(files: dict[str, Any]) -> None:
    check_tracking(stream(), [new_commit(6, "DELETE", **files)])


def test_rows_that_replace_others_need_no_old_row_ids() -> None:
    files = {"adds": (data_file("new", 6),), "removes": (data_file("old", 1),)}

    check_tracking(stream(), [new_commit(6, "WRITE", **files), new_commit(7, "RESTORE", **files)])


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ({}, None),
        ({"delta.rowTracking.preserved": "true"}, True),
        ({"delta.rowTracking.preserved": "false"}, False),
    ],
)
def test_commit_says_whether_it_kept_row_ids(tags: dict[str, str], expected: bool | None) -> None:
    content = json.dumps({"commitInfo": {"operation": "UPDATE", "tags": tags}}).encode()

    assert parse_commit(3, content).preserves_row_ids is expected
