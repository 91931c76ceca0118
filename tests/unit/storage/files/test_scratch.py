"""Scratch folders: which files a lazily read change set leaves, and when they are removed."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_cdc.engine.clock import utc_now
from airflow_provider_cdc.engine.core.change_sets import sink_log
from airflow_provider_cdc.engine.core.errors import InvalidRequest
from airflow_provider_cdc.engine.storage.files.scratch import NO_FILE, Scratch
from airflow_provider_cdc.engine.storage.files.stores import Files

VECTORS = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"


def scratch_at(state: Path, later: timedelta = timedelta()) -> Scratch:
    return Scratch(str(state), Files(), lambda: utc_now() + later)


def test_sweep_removes_only_scratch_older_than_a_day(tmp_path: Path) -> None:
    table = Path(scratch_at(tmp_path).write_table("old", b"{}"))
    files = Path(scratch_at(tmp_path).write_list(b"v1"))
    scratch_at(tmp_path, timedelta(hours=23)).sweep()
    assert table.exists()
    assert files.exists()

    scratch_at(tmp_path, timedelta(hours=25)).sweep()
    assert not table.exists()
    assert not files.exists()


def test_remains_of_a_removed_list_are_swept_too(tmp_path: Path) -> None:
    files = Path(scratch_at(tmp_path).write_list(b"v1"))
    shutil.rmtree(files / sink_log.FOLDER)

    scratch_at(tmp_path, timedelta(hours=25)).sweep()

    assert not files.exists()


def test_deletion_vectors_are_written_and_removed_with_their_table(tmp_path: Path) -> None:
    scratch = scratch_at(tmp_path)
    root = scratch.write_table("t", b"{}", [(VECTORS, b"1")])
    assert root == scratch.root_of("t")
    assert Path(root, VECTORS).read_bytes() == b"1"

    scratch.remove(root)

    assert not Path(root).exists()


def test_deletion_vectors_without_a_log_are_swept(tmp_path: Path) -> None:
    root = Path(scratch_at(tmp_path).write_table("t", b"{}", [(VECTORS, b"1")]))
    shutil.rmtree(root / "_delta_log")
    scratch_at(tmp_path, timedelta(hours=23)).sweep()
    assert root.exists()

    scratch_at(tmp_path, timedelta(hours=25)).sweep()

    assert not root.exists()


def test_list_is_hidden_before_it_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch, seen = scratch_at(tmp_path), []
    root = Path(scratch.write_list(b"v1"))
    remove = Files.remove

    def watched(files: Files, uri: str) -> None:
        seen.append({path.name for path in root.iterdir()})
        remove(files, uri)

    monkeypatch.setattr(Files, "remove", watched)
    scratch.remove(str(root))

    assert seen == [{NO_FILE, "_removed"}, {NO_FILE}]
    assert not root.exists()


def test_remove_deletes_a_table_and_accepts_a_missing_one(tmp_path: Path) -> None:
    scratch = scratch_at(tmp_path)
    table = scratch.write_table("t", b"{}")

    scratch.remove(table)
    scratch.remove(table)

    assert not Path(table).exists()


def test_scratch_folder_that_cannot_be_written_is_refused_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(files: Files, uri: str, content: bytes) -> None:
        raise PermissionError(13, "no")

    monkeypatch.setattr(Files, "write", refuse)

    with pytest.raises(InvalidRequest, match="scratch: cannot be written to"):
        scratch_at(tmp_path).write_list(b"v1")


def test_sweep_keeps_scratch_that_another_process_is_writing(tmp_path: Path) -> None:
    unfinished = tmp_path / "scratch" / "unfinished" / "_delta_log"
    unfinished.mkdir(parents=True)

    scratch_at(tmp_path, timedelta(days=30)).sweep()

    assert unfinished.exists()


@pytest.mark.parametrize("error", [PermissionError("another principal's"), FileNotFoundError("x")])
def test_sweep_continues_after_scratch_that_it_cannot_remove(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    roots = sorted(scratch_at(tmp_path).write_table(name, b"{}") for name in ("a", "b"))
    remove = Files.remove

    def refused(files: Files, uri: str) -> None:
        if uri == roots[0]:
            raise error
        remove(files, uri)

    monkeypatch.setattr(Files, "remove", refused)
    scratch_at(tmp_path, timedelta(hours=25)).sweep()

    assert [Path(root).exists() for root in roots] == [True, False]


def test_sweep_of_a_state_folder_without_scratch_does_nothing(tmp_path: Path) -> None:
    scratch_at(tmp_path).sweep()

    assert list(tmp_path.iterdir()) == []
