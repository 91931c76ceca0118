"""The result of a write of changes, found in the log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_cdc.engine.core.upserts.write_result import WriteResult
from airflow_provider_cdc.engine.storage.delta.change_writes import result_of_write
from airflow_provider_cdc.engine.storage.files.stores import Files

UNKNOWN = WriteResult(None, None, None, is_repeated=False)


def commit(root: Path, version: int, mark: str, *actions: dict[str, Any]) -> None:
    info = {
        "commitInfo": {"timestamp": 1_000 + version, "operation": "WRITE", "userMetadata": mark}
    }
    log = root / "_delta_log"
    log.mkdir(exist_ok=True)
    lines = "\n".join(json.dumps(action) for action in (info, *actions))
    (log / f"{version:020d}.json").write_text(lines)


def add(changes: int | None, good: int | None = None) -> dict[str, Any]:
    stats: dict[str, Any] = {}
    if changes is not None:
        stats["numRecords"] = changes
    if good is not None:
        stats["nullCount"] = {"_cdc_reason": good}
    file = {"path": f"{changes}-{good}", "partitionValues": {}, "size": 1, "modificationTime": 1}
    return {"add": file | {"dataChange": True, "stats": json.dumps(stats)}}


def written(root: Path, write_id: str | None = None, mark: str = "mine") -> WriteResult:
    transaction = None if write_id is None else (write_id, 0)
    return result_of_write(str(root), Files(), mark, transaction)


def txn(write_id: str, version: int = 0) -> dict[str, Any]:
    return {"txn": {"appId": write_id, "version": version}}


def test_write_counts_its_changes_and_the_bad_ones(tmp_path: Path) -> None:
    commit(tmp_path, 0, "other", add(9, 9))
    commit(tmp_path, 1, "mine", add(5, 3), add(2, 2))
    commit(tmp_path, 2, "other", add(9, 9))

    assert written(tmp_path) == WriteResult(7, 2, 1, is_repeated=False)


def test_write_of_no_changes_counts_zero(tmp_path: Path) -> None:
    commit(tmp_path, 0, "mine")
    assert written(tmp_path) == WriteResult(0, 0, 0, is_repeated=False)


def test_repeated_write_returns_what_the_first_one_wrote(tmp_path: Path) -> None:
    commit(tmp_path, 0, "first", add(4, 4), txn("w"))
    commit(tmp_path, 1, "other", add(9, 9), txn("v"))

    assert written(tmp_path, "w") == WriteResult(4, 0, 0, is_repeated=True)


def test_own_commit_with_an_id_is_not_a_repeated_write(tmp_path: Path) -> None:
    commit(tmp_path, 0, "mine", add(4, 4), txn("w"))
    assert written(tmp_path, "w") == WriteResult(4, 0, 0, is_repeated=False)


def test_commit_of_another_number_of_the_writer_is_not_the_write(tmp_path: Path) -> None:
    commit(tmp_path, 0, "other", add(4, 4), txn("w", 7))
    assert written(tmp_path, "w") == WriteResult(None, None, None, is_repeated=None)


@pytest.mark.parametrize(("changes", "good"), [(None, None), (4, None)])
def test_counts_are_unknown_without_statistics(
    tmp_path: Path, changes: int | None, good: int | None
) -> None:
    commit(tmp_path, 0, "mine", add(2, 2), add(changes, good))
    assert written(tmp_path) == WriteResult(
        None if changes is None else 2 + changes, None, 0, is_repeated=False
    )


def test_write_is_found_in_a_log_that_is_listed_from_a_version(tmp_path: Path) -> None:
    for version in range(4):
        commit(tmp_path, version, "mine" if version == 2 else "other", add(version, version))

    found = [
        result_of_write(str(tmp_path), Files(), "mine", None, since=since) for since in (0, 1, 3)
    ]
    assert found == [WriteResult(2, 0, 2, is_repeated=False)] * 3


def test_result_is_unknown_after_a_hundred_newer_commits(tmp_path: Path) -> None:
    commit(tmp_path, 0, "mine", add(1, 1))
    for version in range(1, 101):
        commit(tmp_path, version, "other")

    assert written(tmp_path) == UNKNOWN


def test_result_is_unknown_if_the_log_was_cleaned_up(tmp_path: Path) -> None:
    commit(tmp_path, 5, "other")
    assert written(tmp_path) == UNKNOWN


def test_result_is_unknown_without_an_error_if_the_log_cannot_be_read(tmp_path: Path) -> None:
    assert written(tmp_path / "missing") == UNKNOWN
    log = tmp_path / "_delta_log"
    log.mkdir()
    (log / f"{0:020d}.json").write_text("{")
    assert written(tmp_path) == UNKNOWN
