"""The tables whose retention a state folder has extended, by the names in its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.state.extended_sources import ExtendedSources


def test_draft_of_a_job_that_was_killed_names_no_table(tmp_path: Path) -> None:
    sources = ExtendedSources(str(tmp_path), Files())
    sources.note("/data/t")
    (file,) = (tmp_path / "extended_sources").iterdir()
    file.with_name(f"{file.name}.{'0' * 32}.draft").write_bytes(b"/dat")

    assert sources.locations() == ["/data/t"]


def test_damaged_note_names_no_table_and_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sources = ExtendedSources(str(tmp_path), Files())
    sources.note("/data/t")
    sources.note("/data/u")
    next((tmp_path / "extended_sources").iterdir()).write_bytes(b"\xff")

    assert len(sources.locations()) == 1
    assert "of an extended table cannot be read" in caplog.text
