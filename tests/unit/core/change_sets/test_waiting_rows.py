"""How many rows wait, as far as the log shows it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs
from streams import new_stream
from table_histories import commit, data_file

from airflow_provider_cdc.engine.core.change_sets.candidates import (
    WaitingRows,
    candidates,
    waiting_rows,
)
from airflow_provider_cdc.engine.core.delta.log_actions import Commit, DataFile
from airflow_provider_cdc.engine.core.model.stream import AppendSemantics, StreamMode

STANDARD, FEED = StreamMode.STANDARD, StreamMode.FEED
INSERTS, FILES = StreamMode.APPEND_ONLY, StreamMode.INSERT_ONLY
UNKNOWN = WaitingRows(None, None)
NOTHING = WaitingRows(0, False)


def counted(path: str, rows: int | None, born: int = 5, vector: int | None = None) -> DataFile:
    """A file of ``rows`` rows, of which ``vector`` are deleted."""
    stats = None if rows is None else f'{{"numRecords":{rows},"nullCount":{{"id":0}}}}'
    return structs.replace(data_file(path, born, vector), stats=stats)


OLD = counted("old", 10, born=1)
INSERT = commit(5, (counted("a", 3), counted("b", 4)), operation="WRITE")
DELETE_FILE = commit(6, (), (OLD,), "DELETE")
# Delta keeps no statistics of removed files.
DELETE_UNKNOWN = commit(6, (), (counted("old", None, born=1),), "DELETE")
DELETE_ROWS = commit(
    7, (counted("old", 10, 1, vector=4),), (counted("old", None, 1, vector=1),), "DELETE"
)
DELETE_NEW_ROWS = commit(6, (counted("a", 3, 5, vector=2),), (counted("a", 3),), "DELETE")
UPDATE = commit(5, (counted("new", 10),), (OLD,), "UPDATE")
MERGE = commit(5, (counted("new", 12),), (OLD,), "MERGE")
UNCOUNTED = commit(5, (counted("a", None),), operation="WRITE")
NO_ROWS = commit(5, (counted("a", 0),), operation="WRITE")


def found(
    *commits: Commit,
    mode: StreamMode = STANDARD,
    semantics: AppendSemantics = AppendSemantics.INSERTED,
) -> WaitingRows:
    stream = new_stream(mode=mode, append_semantics=semantics)
    return waiting_rows(stream, commits, candidates(stream, commits))


@pytest.mark.parametrize(
    ("commits", "rows"),
    [
        ((), 0),
        ((INSERT,), 7),
        ((INSERT, DELETE_NEW_ROWS), 5),
        ((DELETE_FILE,), 10),
        ((DELETE_ROWS,), 3),
        ((NO_ROWS,), 0),
    ],
    ids=["nothing", "inserts", "fewer inserts", "a file", "a vector", "no rows"],
)
def test_rows_of_one_kind_of_change_are_counted(commits: tuple[Commit, ...], rows: int) -> None:
    assert found(*commits) == WaitingRows(rows, rows > 0)


def test_rows_of_a_feed_are_those_of_each_commit() -> None:
    assert found(INSERT, DELETE_NEW_ROWS, mode=FEED) == WaitingRows(7 + 2, True)


def test_updated_rows_are_not_counted_and_may_be_no_change() -> None:
    assert found(UPDATE) == UNKNOWN
    assert found(UPDATE, mode=FEED) == UNKNOWN


def test_another_number_of_rows_is_certainly_a_change() -> None:
    assert found(MERGE) == WaitingRows(None, True)
    in_place = commit(
        5, (counted("new", 2), counted("old", 10, 1, vector=1)), (counted("old", None, 1),), "MERGE"
    )
    assert found(in_place) == WaitingRows(None, True)


def test_rows_of_removed_files_without_statistics_are_unknown() -> None:
    assert found(DELETE_UNKNOWN) == UNKNOWN
    assert found(INSERT, DELETE_UNKNOWN) == UNKNOWN


def test_files_without_statistics_may_have_no_row() -> None:
    for mode in (STANDARD, FEED, INSERTS):
        assert found(UNCOUNTED, mode=mode) == UNKNOWN


def test_append_only_stream_counts_inserted_rows_only() -> None:
    assert found(INSERT, DELETE_NEW_ROWS, mode=INSERTS) == WaitingRows(7, True)
    assert found(DELETE_FILE, mode=INSERTS) == NOTHING
    # The rows of the removed file may be carried over.
    assert found(MERGE, mode=INSERTS) == UNKNOWN


def test_surviving_rows_are_counted_if_no_row_was_carried_over() -> None:
    surviving = AppendSemantics.SURVIVING
    assert found(INSERT, mode=INSERTS, semantics=surviving) == WaitingRows(7, True)
    assert found(INSERT, DELETE_NEW_ROWS, mode=INSERTS, semantics=surviving) == UNKNOWN


def test_rows_that_a_restore_brings_back_are_not_counted_by_vectors() -> None:
    back = commit(8, (OLD,), (counted("old", 10, 1, vector=4),), "RESTORE")
    assert found(back) == WaitingRows(None, True)
    assert found(replace(back, operation="WRITE")) == WaitingRows(None, True)
    other = commit(
        8, (counted("old", 10, 1, vector=5),), (counted("old", 10, 1, vector=4),), "RESTORE"
    )
    assert found(other).count is None


def test_files_of_a_folder_are_not_counted() -> None:
    assert found(INSERT, mode=FILES) == UNKNOWN


@pytest.mark.parametrize("stats", ["", "{}", "[]", "no JSON", '{"numRecords": "x"}'])
def test_statistics_without_a_count_leave_the_rows_unknown(stats: str) -> None:
    file = structs.replace(data_file("a"), stats=stats)
    assert (file.record_count, file.live_row_count) == (None, None)
