"""A log of states: each writer adds the next entry, or nothing."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from airflow_provider_cdc.engine.core.errors import StreamConflict, StreamUnreadable
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.state.state_log import Entry, StateLog


@dataclass(frozen=True, slots=True)
class Counter:
    count: int
    notes: tuple[str, ...] = ()


@pytest.fixture
def log(tmp_path: Path) -> StateLog[Counter]:
    return StateLog("counter c", str(tmp_path / "log"), Counter, Files())


def added(known: Counter | None) -> Counter:
    return Counter(1) if known is None else replace(known, count=known.count + 1)


def test_log_without_entries_has_no_newest(log: StateLog[Counter]) -> None:
    assert log.newest() is None


def test_newest_entry_is_the_last_that_was_written(log: StateLog[Counter]) -> None:
    first = log.append(None, Counter(1, ("ü",)))
    second = log.append(first, Counter(2))

    assert log.newest() == second == Entry(2, Counter(2))


def test_second_writer_after_the_same_entry_is_refused(log: StateLog[Counter]) -> None:
    first = log.append(None, Counter(1))
    log.append(first, Counter(2))

    with pytest.raises(StreamConflict, match="changed by another process first"):
        log.append(first, Counter(2))
    assert log.newest() == Entry(2, Counter(2))


def test_concurrent_updates_are_all_counted(log: StateLog[Counter]) -> None:
    def work() -> None:
        for _ in range(5):
            log.update(added)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert log.newest() == Entry(20, Counter(20))


def test_update_without_a_change_writes_nothing(log: StateLog[Counter]) -> None:
    log.append(None, Counter(1))

    assert log.update(lambda known: known or Counter(9)) == Counter(1)
    assert log.newest() == Entry(1, Counter(1))


def test_old_entries_are_removed_and_late_writers_refused(
    log: StateLog[Counter], tmp_path: Path
) -> None:
    first = log.append(None, Counter(1))
    for _ in range(210):
        log.update(added)

    names = sorted(path.name for path in (tmp_path / "log").iterdir())
    assert len(names) <= 200
    # The file of the second entry was removed, so a store would create it again.
    with pytest.raises(StreamConflict):
        log.append(first, Counter(2))
    assert sorted(path.name for path in (tmp_path / "log").iterdir()) == names


def test_damaged_entry_is_reported_with_its_folder(log: StateLog[Counter], tmp_path: Path) -> None:
    log.append(None, Counter(1))
    (path,) = (tmp_path / "log").iterdir()
    for text, cause in (("{", "truncated"), ('{"format":2,"nonce":"","value":1}', "format 2")):
        path.write_text(text)
        with pytest.raises(StreamUnreadable, match=f"counter c: cannot be read.*{cause}"):
            log.newest()
