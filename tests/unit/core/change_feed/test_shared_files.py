"""One listing of a file for many commits keeps each row with its commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from airflow_provider_cdc.engine.core.change_feed import shared_files
from airflow_provider_cdc.engine.core.change_feed.shared_files import (
    PlacedFile,
    commits_of_rows,
    in_both_roles,
    kept_rows,
    shared,
)
from airflow_provider_cdc.engine.core.change_sets.crafted_log import ListedFile, Side
from airflow_provider_cdc.engine.core.delta.deletion_vectors import Bitmap, complement
from airflow_provider_cdc.engine.core.delta.log_actions import DataFile

ROWS = 10


def whole(path: int, first_row_id: int | None = None) -> ListedFile:
    first = path * ROWS if first_row_id is None else first_row_id
    stats = f'{{"numRecords":{ROWS}}}'
    return ListedFile(Side.OLD, DataFile(str(path), {}, 1, True, stats, first, 0))


def kept(
    path: int, version: int, rows: Sequence[int], side: Side = Side.OLD, place: int = 0
) -> PlacedFile:
    file = whole(path).file
    left_out = Bitmap.of(complement(BitMap64(rows), ROWS))
    return PlacedFile(place, ListedFile(side, file, version, BitMap64(rows), left_out))


def changes(files: Sequence[PlacedFile]) -> Counter[tuple[int, Side, str, int | None, int]]:
    """Each change: the layout, the side, the file, the commit and the row."""
    found: Counter[tuple[int, Side, str, int | None, int]] = Counter()
    for file in files:
        listed = file.listed
        for version, rows in listed.commits or ((listed.version, listed.kept or BitMap64()),):
            found.update((file.place, listed.side, listed.file.path, version, row) for row in rows)
    return found


FILES = st.lists(
    st.builds(
        kept,
        st.integers(0, 2),
        st.integers(1, 4),
        st.sets(st.integers(0, ROWS - 1), min_size=1, max_size=4).map(sorted),
        st.sampled_from([Side.OLD, Side.NEW]),
        st.integers(0, 1),
    ),
    max_size=12,
)


@given(FILES)
def test_shared_files_have_the_same_changes_and_no_row_twice(files: list[PlacedFile]) -> None:
    found = shared(files)

    assert changes(found) == changes(files)
    for file in found:
        rows = [row for _, each in file.listed.commits for row in each]
        assert len(rows) == len(set(rows))
        if file.listed.commits:
            assert file.listed.version is None
            assert sorted(rows) == list(file.listed.kept or ())
            assert file.listed.left_out == Bitmap.of(complement(BitMap64(rows), ROWS))
    places, _ = commits_of_rows([file.listed for file in found])
    assert len(places) == len(set(places))
    assert sum(count for file in found for _, count in kept_rows(file.listed)) == sum(
        changes(files).values()
    )


def test_file_of_many_commits_is_listed_once() -> None:
    found = shared([kept(0, version, [version]) for version in range(1, 9)])

    (file,) = found
    assert file.listed.commits == tuple((version, BitMap64([version])) for version in range(1, 9))
    assert commits_of_rows([file.listed]) == (list(range(1, 9)), list(range(1, 9)))


def test_row_that_was_deleted_twice_lists_its_file_twice() -> None:
    files = [kept(0, 1, [5]), kept(0, 3, [5, 6]), kept(0, 4, [7])]

    assert sorted(len(file.listed.commits) for file in shared(files)) == [0, 2]


@pytest.mark.parametrize(
    "other",
    [
        kept(1, 2, [2]),
        kept(0, 2, [2], side=Side.NEW),
        kept(0, 2, [2], place=1),
        PlacedFile(0, whole(0)),
    ],
    ids=["another_file", "other_side", "other_layout", "whole_file"],
)
def test_files_that_differ_in_more_than_rows_are_not_shared(other: PlacedFile) -> None:
    files = [kept(0, 1, [1]), other]

    assert shared(files) == files


def test_rows_that_came_back_share_only_one_listing_of_their_file() -> None:
    files = [
        *(kept(0, version, [version]) for version in (1, 2, 3)),
        *(kept(0, version, [version - 4]) for version in (5, 6)),
        *(kept(0, version, [1], side=Side.NEW) for version in (4,)),
    ]

    found = shared(files)

    assert changes(found) == changes(files)
    assert [len(file.listed.commits) for file in found if file.listed.commits] == [3]


def test_files_with_the_same_row_ids_are_not_shared() -> None:
    again = [
        PlacedFile(0, ListedFile(Side.OLD, whole(1, first_row_id=5).file, version, BitMap64([row])))
        for version, row in ((3, 1), (4, 2))
    ]
    files = [kept(0, 1, [1]), kept(0, 2, [2]), *again]

    assert shared(files) == files


def test_more_rows_than_fit_into_memory_are_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_files, "MOST_SHARED_ROWS", 3)

    assert len(shared([kept(0, 1, [1, 2]), kept(0, 2, [3])])) == 1
    assert len(shared([kept(0, 1, [1, 2]), kept(0, 2, [3, 4])])) == 2


def at(path: int, version: int, side: Side, place: int = 0) -> PlacedFile:
    return PlacedFile(place, ListedFile(side, whole(path).file, version))


def roles(files: Sequence[PlacedFile]) -> Counter[tuple[int, str, Side, int | None]]:
    """Each role of each file: the layout, the file, the side and the commit."""
    found: Counter[tuple[int, str, Side, int | None]] = Counter()
    for file in files:
        listed = file.listed
        both = listed.side is Side.BOTH
        found[file.place, listed.file.path, Side.NEW if both else listed.side, listed.version] += 1
        if both:
            found[file.place, listed.file.path, Side.OLD, listed.removal] += 1
    return found


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(1, 3)), max_size=8))
def test_files_in_both_roles_keep_each_role(lives: list[tuple[int, int, int]]) -> None:
    # A file is added and removed again and again, and not always by a commit of the range.
    old, new, version = [], [], dict.fromkeys(range(3), 0)
    for path, place, parts in lives:
        version[path] += 2
        if parts & 1:
            new.append(at(path, version[path] - 1, Side.NEW, place))
        if parts & 2:
            old.append(at(path, version[path], Side.OLD, place))

    found = in_both_roles(old, new)

    assert roles(found) == roles([*old, *new])
    for file in found:
        if file.listed.side is Side.BOTH:
            assert file.listed.version is not None
            assert file.listed.removal is not None
            assert file.listed.version < file.listed.removal
    lists_each_once = sum(file.listed.side is Side.BOTH for file in found)
    assert lists_each_once >= sum(parts == 3 for _, _, parts in lives)


def test_files_in_both_roles_keep_files_of_which_some_rows_are_read() -> None:
    old = [kept(0, 2, [1]), at(0, 3, Side.OLD)]
    new = [at(0, 1, Side.NEW)]

    found = in_both_roles(old, new)

    assert [file.listed.side for file in found] == [Side.OLD, Side.BOTH]
