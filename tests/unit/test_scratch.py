"""Scratch folders: what a lazily read change set leaves behind, and when it goes."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from airflow_provider_cdc.engine.clock import utc_now
from airflow_provider_cdc.engine.storage.files import Files
from airflow_provider_cdc.engine.storage.scratch import Scratch


def scratch_at(state: Path, later: timedelta = timedelta()) -> Scratch:
    return Scratch(str(state), Files(), lambda: utc_now() + later)


def test_a_sweep_removes_what_is_older_than_a_day_and_nothing_else(tmp_path: Path) -> None:
    table = Path(scratch_at(tmp_path).write_table("old", b"{}"))
    files = Path(scratch_at(tmp_path).write_list(b"v1"))
    scratch_at(tmp_path, timedelta(hours=23)).sweep()
    assert table.exists()
    assert files.exists()

    scratch_at(tmp_path, timedelta(hours=25)).sweep()
    assert not table.exists()
    assert not files.exists()


def test_a_sweep_leaves_what_another_process_is_writing(tmp_path: Path) -> None:
    unfinished = tmp_path / "scratch" / "unfinished" / "_delta_log"
    unfinished.mkdir(parents=True)

    scratch_at(tmp_path, timedelta(days=30)).sweep()

    assert unfinished.exists()


def test_a_sweep_of_a_state_folder_without_scratch_does_nothing(tmp_path: Path) -> None:
    scratch_at(tmp_path).sweep()

    assert list(tmp_path.iterdir()) == []
