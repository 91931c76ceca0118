"""Where each write begins in the table of changes, by the log alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow_provider_cdc.engine.core.delta.log_actions import Commit, DataFile
from airflow_provider_cdc.engine.core.model.sources import row_id_text
from airflow_provider_cdc.engine.core.upserts.change_rows import MOST_WRITES, write_begins


def file(base_row_id: int | None, version: int, *, data_change: bool = True) -> DataFile:
    fields: dict[str, Any] = {"baseRowId": base_row_id, "defaultRowCommitVersion": version}
    return DataFile.of({"path": f"f{base_row_id}", "size": 1, "dataChange": data_change, **fields})


def commit(version: int, *files: DataFile) -> Commit:
    now = datetime(2026, 11, 23, tzinfo=UTC)
    return Commit(version, now, "f", "WRITE", {}, {}, None, files, (), None, None, None, {})


def test_row_ids_as_text_sort_as_their_numbers() -> None:
    numbers = [0, 9, 10, 15, 16, 255, 256, 10**9, 2**59]

    assert sorted(map(row_id_text, numbers)) == list(map(row_id_text, numbers))
    assert row_id_text(10) == "100000000000000a"


def test_write_of_several_files_begins_with_the_lowest_row_id() -> None:
    commits = [commit(3, file(40, 3), file(30, 3)), commit(4), commit(5, file(50, 5))]

    assert write_begins(commits) == (row_id_text(30), row_id_text(50))


def test_files_that_were_rearranged_or_brought_back_are_not_writes() -> None:
    rearranged = commit(4, file(40, 4, data_change=False))
    brought_back = commit(5, file(10, 2))

    assert write_begins([commit(3, file(30, 3)), rearranged, brought_back]) == (row_id_text(30),)


def test_write_begins_are_unknown_for_no_writes_too_many_or_no_row_id() -> None:
    many = [commit(version, file(version * 10, version)) for version in range(MOST_WRITES + 1)]
    begins = write_begins(many[:-1])

    assert begins is not None
    assert len(begins) == MOST_WRITES
    assert write_begins(many) is None
    assert write_begins([commit(3, file(None, 3))]) is None
    assert write_begins([]) is None
