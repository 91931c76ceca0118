"""Which commits the bounds of a change feed include."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from written_logs import WrittenLog, after

from airflow_provider_cdc.engine.core.change_feed.feed_options import OutOfRange
from airflow_provider_cdc.engine.core.errors import InvalidRange
from airflow_provider_cdc.engine.storage.delta.delta_log import DeltaLog
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.sources.feed_bounds import FeedBounds

OWN_TIMES = {"delta.enableInCommitTimestamps": "true"}


@pytest.fixture
def log(tmp_path: Path) -> DeltaLog:
    """Versions 0, 1 and 2, committed 10, 20 and 30 seconds after the start."""
    written = WrittenLog(tmp_path / "t")
    for version in range(3):
        written.commit(version, seconds=10 * (version + 1))
    return DeltaLog(str(written.root), Files())


def versions(
    log: DeltaLog, first: int | datetime, last: int | datetime | None, out: str = "error"
) -> list[int]:
    return list(FeedBounds(first, last, OutOfRange(out)).versions("change feed of t", log))


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (0, 2, [0, 1, 2]),
        (1, 1, [1]),
        (1, None, [1, 2]),
        (after(0), None, [0, 1, 2]),
        (after(10), after(20), [0, 1]),
        (after(10.001), after(29.999), [1]),
        (after(30), after(30), [2]),
        (1, after(20), [1]),
        (after(20), 2, [1, 2]),
        # No commit is between the two times.
        (after(21), after(29), []),
        (after(1), after(9), []),
    ],
)
def test_bounds_include_the_commits_at_both_ends(
    log: DeltaLog, first: int | datetime, last: int | datetime | None, expected: list[int]
) -> None:
    assert versions(log, first, last) == expected


@pytest.mark.parametrize(
    ("first", "last"),
    [(2, 1), (after(20), after(19)), (2, after(25)), (after(25), 1), (9, 8)],
)
def test_bounds_in_the_wrong_order_are_refused(
    log: DeltaLog, first: int | datetime, last: int | datetime
) -> None:
    for choice in OutOfRange:
        with pytest.raises(InvalidRange, match="cannot end before the beginning"):
            versions(log, first, last, choice)


@pytest.mark.parametrize(
    ("first", "last", "clamped"),
    [
        (3, None, []),
        (after(31), None, []),
        (1, 3, [1, 2]),
        (1, after(31), [1, 2]),
        (after(20), after(99), [1, 2]),
        (3, 9, []),
        (after(31), after(32), []),
    ],
)
def test_bound_after_the_newest_commit_is_refused_empty_or_clamped(
    log: DeltaLog, first: int | datetime, last: int | datetime | None, clamped: list[int]
) -> None:
    with pytest.raises(InvalidRange, match="after the newest commit, version 2"):
        versions(log, first, last)
    assert versions(log, first, last, "empty") == []
    assert versions(log, first, last, "clamp") == clamped


def test_start_before_a_log_that_was_cleaned_up_is_refused(tmp_path: Path) -> None:
    written = WrittenLog(tmp_path / "t")
    written.commit(1, seconds=20, settings={})
    written.commit(2, seconds=30)
    log = DeltaLog(str(written.root), Files())
    for choice in OutOfRange:
        with pytest.raises(InvalidRange, match="no longer holds"):
            versions(log, after(5), None, choice)
        with pytest.raises(InvalidRange, match="no longer holds"):
            versions(log, after(5), after(6), choice)
    assert versions(log, after(25), after(30)) == [2]


def test_in_commit_timestamps_are_the_times_of_commits(tmp_path: Path) -> None:
    written = WrittenLog(tmp_path / "t")
    written.commit(0, seconds=500, own_seconds=10, settings=OWN_TIMES)
    written.commit(1, seconds=400, own_seconds=20)
    log = DeltaLog(str(written.root), Files())
    assert versions(log, after(11), after(20)) == [1]
    with pytest.raises(InvalidRange, match="after the newest commit"):
        versions(log, after(21), None)
