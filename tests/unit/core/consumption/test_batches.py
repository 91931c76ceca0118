"""How much of a stream one consumption takes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streams import new_commit
from table_histories import data_file

from airflow_provider_cdc.engine.core.consumption.batches import BatchLimit
from airflow_provider_cdc.engine.core.delta.log_actions import Commit
from airflow_provider_cdc.engine.core.errors import InvalidRequest

BYTES_OF_A_FILE = 10
BOUNDS = st.none() | st.integers(1, 60)


def commits_of(*files: int) -> list[Commit]:
    """One commit for each argument, with that number of added files."""
    return [
        new_commit(version, adds=tuple(data_file(f"{version}-{i}") for i in range(count)))
        for version, count in enumerate(files, 1)
    ]


def versions(limit: BatchLimit, commits: list[Commit]) -> list[int]:
    return [commit.version for commit in limit.taken(commits)]


def test_batch_without_bounds_is_everything() -> None:
    assert versions(BatchLimit(), commits_of(1, 1, 1)) == [1, 2, 3]


def test_batch_of_at_most_two_commits_counts_those_without_data() -> None:
    assert versions(BatchLimit(max_commits=2), commits_of(0, 1, 1)) == [1, 2]


def test_batch_of_bytes_ends_before_the_commit_that_would_exceed_them() -> None:
    commits = commits_of(1, 2, 0, 1)
    assert versions(BatchLimit(max_bytes=30), commits) == [1, 2, 3]
    assert versions(BatchLimit(max_bytes=29), commits) == [1]


def test_batch_holds_one_commit_however_large_it_is() -> None:
    assert versions(BatchLimit(max_bytes=1), commits_of(5, 1)) == [1]


def test_batch_does_not_count_files_that_were_only_rearranged() -> None:
    moved = data_file("moved", change=False)
    commits = [new_commit(1, adds=(moved,), removes=(moved,)), *commits_of(1)]
    assert len(versions(BatchLimit(max_bytes=BYTES_OF_A_FILE), commits)) == 2


@given(st.lists(st.integers(0, 3), max_size=8), BOUNDS, BOUNDS)
def test_batches_in_sequence_hold_all_commits_and_each_fits(
    files: list[int], max_commits: int | None, max_bytes: int | None
) -> None:
    limit = BatchLimit(max_commits, max_bytes)
    rest, batches = commits_of(*files), []
    while rest:
        taken = list(limit.taken(rest))
        batches.append(taken)
        rest = rest[len(taken) :]
    assert [commit for batch in batches for commit in batch] == commits_of(*files)
    for batch in batches:
        size_bytes = sum(len(commit.adds) for commit in batch) * BYTES_OF_A_FILE
        assert max_commits is None or len(batch) <= max_commits
        assert max_bytes is None or size_bytes <= max_bytes or len(batch) == 1


@pytest.mark.parametrize("bounds", [(0, None), (None, 0), (-1, None), (1.5, None), (True, None)])
def test_batch_bound_that_is_not_a_whole_number_from_one_is_refused(
    bounds: tuple[Any, Any],
) -> None:
    with pytest.raises(InvalidRequest, match="whole number, 1 or more"):
        BatchLimit(*bounds)
