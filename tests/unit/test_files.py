"""Files of a store, several at once."""

from pathlib import Path

import pytest

from airflow_provider_cdc.engine.storage.files import Files


@pytest.fixture
def names(tmp_path: Path) -> list[str]:
    """Forty files, more than are opened at once."""
    found = [str(tmp_path / f"file {number}") for number in range(40)]
    for name in found:
        Path(name).write_text(name, encoding="utf-8")
    return found


def test_each_of_many_files_is_read_under_its_own_name(names: list[str]) -> None:
    assert Files().read_each(reversed(names)) == {name: name.encode() for name in names}


def test_a_file_that_is_gone_fails_the_reading_of_all(names: list[str]) -> None:
    Path(names[7]).unlink()
    with pytest.raises(FileNotFoundError):
        Files().read_each(names)


def test_sizes_are_told_and_what_is_missing_has_none(names: list[str]) -> None:
    Path(names[2]).unlink()
    expected = {name: len(name.encode()) for name in names} | {names[2]: None}

    assert Files().sizes([*names, names[0]]) == expected


def test_nothing_asked_is_nothing_told() -> None:
    assert Files().sizes([]) == {}
    assert Files().read_each([]) == {}
