"""Which parts of a base the changes cannot touch, by the statistics of its files."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_cdc.engine.core.delta.columns import Column
from airflow_provider_cdc.engine.core.delta.key_pruning import (
    MOST_INTERVALS,
    Intervals,
    intervals_of,
    is_untouched,
    key_ranges,
)
from airflow_provider_cdc.engine.core.delta.log_actions import DataFile


def key_column(kind: str = "int", name: str = "id") -> Column:
    return Column(name, kind)


def file(low: Any, high: Any, size: int = 10, key: str = "id") -> dict[str, Any]:
    stats = {"minValues": {key: low}, "maxValues": {key: high}}
    return {"path": "f", "size": size, "stats": json.dumps(stats)}


def bounds(found: Intervals | None) -> list[tuple[Any, Any, int]]:
    assert found is not None
    return [(each.low, each.high, each.size) for each in found.found]


def test_files_that_overlap_are_one_interval() -> None:
    files = [file(5, 9), file(20, 29), file(1, 5), file(10, 19)]

    assert bounds(intervals_of(key_column(), files)) == [(1, 9, 20), (10, 19, 10), (20, 29, 10)]


@pytest.mark.parametrize(
    "files",
    [
        [],
        [file(1, 9)],
        [file(1, 9), file(5, 20)],
        [file(1, 9), {"path": "f", "size": 10}],
        [file(1, 9), {"path": "f", "size": 10, "stats": '{"numRecords": 1}'}],
        [file(1, 9), file(None, None)],
    ],
)
def test_files_without_separate_intervals_prune_nothing(files: list[dict[str, Any]]) -> None:
    assert intervals_of(key_column(), files) is None


@pytest.mark.parametrize(
    ("kind", "bound"),
    [("date", "+10000-01-01"), ("date", "-0044-03-15"), ("string", "a\N{REPLACEMENT CHARACTER}")],
)
def test_statistics_that_sort_unlike_their_values_are_not_used(kind: str, bound: str) -> None:
    good = {"date": "2021-01-01", "string": "b"}[kind]

    assert intervals_of(key_column(kind), [file(good, good), file(bound, bound)]) is None
    assert key_ranges(key_column(kind), [DataFile.of(file(bound, good))]) is None
    assert key_ranges(key_column(kind), [DataFile.of(file(good, good))]) == [(good, good)]


@pytest.mark.parametrize("kind", ["double", "decimal(10,2)", "timestamp", "boolean", "binary"])
def test_statistics_that_are_rounded_are_not_used(kind: str) -> None:
    assert intervals_of(key_column(kind), [file(1, 2), file(3, 4)]) is None


def test_condition_excludes_the_intervals_that_no_change_touches() -> None:
    found = intervals_of(key_column(name="a`b"), [file(n, n, key="a`b") for n in (1, 3, 5)])
    assert found is not None
    untouched = found.without(found.numbered([1]))

    assert (untouched.size, found.size) == (20, 30)
    assert is_untouched(untouched) == (
        "NOT (t.`a``b` BETWEEN CAST('1' AS int) AND CAST('1' AS int)"
        " OR t.`a``b` BETWEEN CAST('5' AS int) AND CAST('5' AS int))"
    )


def test_intervals_near_changes_are_found_by_the_ranges_of_their_files() -> None:
    found = intervals_of(key_column(), [file(n, n + 5) for n in (0, 10, 20, 30, 40)])
    assert found is not None

    def near(*ranges: tuple[int, int]) -> list[int]:
        files = [DataFile.of(file(low, high)) for low, high in ranges]
        given = key_ranges(key_column(), files)
        assert given is not None
        return [interval.low for interval in found.near(given).found]

    assert near((12, 13)) == [10]
    assert near((6, 9)) == near() == []
    assert near((15, 20), (-5, 0), (41, 99)) == [0, 10, 20, 40]
    assert key_ranges(key_column(), [DataFile.of(file(1, 2)), DataFile.of({"path": "f"})]) is None


def test_text_with_a_quote_or_backslash_in_a_bound_is_written_in_bytes() -> None:
    found = intervals_of(key_column("string"), [file("a", "c'"), file("d\\", "e")])
    assert found is not None
    assert "CAST('a' AS string)" in found.rows()
    # The session decides what a backslash in a literal means.
    assert "\\" not in found.rows()
    assert "CAST(CAST(X'6327' AS STRING) AS string)" in found.rows()
    assert "CAST(CAST(X'645c' AS STRING) AS string)" in found.rows()


@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 40)), min_size=2, max_size=400))
def test_intervals_cover_every_file_and_are_apart_and_few(
    ranges: list[tuple[int, int]],
) -> None:
    files = [file(low, low + length) for low, length in ranges]
    found = intervals_of(key_column(), files)
    if found is None:
        return
    assert 2 <= len(found.found) <= MOST_INTERVALS
    assert found.size <= 10 * len(files)
    ordered = bounds(found)
    assert all(first[1] < second[0] for first, second in pairwise(ordered))
    for low, length in ranges:
        # A range is within one interval, or it touches several.
        touched = [each for each in ordered if each[0] <= low + length and low <= each[1]]
        assert touched
        is_inside = touched[0][0] <= low and low + length <= touched[0][1]
        assert is_inside or len(touched) > 1


def test_small_file_that_lies_across_the_others_does_not_join_them() -> None:
    files = [file(start, start + 9, 100) for start in range(0, 50, 10)]
    found = intervals_of(key_column(), [*files, file(0, 49, 2)])

    assert bounds(found) == [(start, start + 9, 100) for start in range(0, 50, 10)]


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 5)), min_size=2, max_size=8),
    st.sets(st.integers(-5, 70), max_size=6),
)
def test_intervals_that_hold_a_key_are_those_with_the_key_in_their_bounds(
    places: list[tuple[int, int]], keys: set[int]
) -> None:
    found = intervals_of(key_column(), [file(low, low + width) for low, width in places])
    if found is None:
        return

    holding = found.holding(sorted(keys)).found

    assert holding == tuple(
        each for each in found.found if any(each.low <= key <= each.high for key in keys)
    )
