"""Result tables: which of them wait, and when they are removed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_cdc.engine.clock import utc_now
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.state.query_results import Results


def results_at(state: Path, later: timedelta = timedelta()) -> Results:
    return Results(str(state), Files(), lambda: utc_now() + later)


def made(results: Results, consumer: str = "me", query: str = "SELECT 1") -> str:
    root = results.new(consumer, query)
    Path(root, "_delta_log").mkdir(parents=True)
    return root


def test_tables_wait_for_their_consumer_and_query_oldest_first(tmp_path: Path) -> None:
    later = made(results_at(tmp_path, timedelta(seconds=1)))
    results = results_at(tmp_path)
    first = made(results)
    made(results, consumer="another")
    made(results, query="SELECT 2")

    assert results.waiting("me", "SELECT 1") == [first, later]
    assert results.waiting("me", "SELECT 3") == []


def test_handed_out_table_no_longer_waits_and_is_not_handed_out_again(
    tmp_path: Path,
) -> None:
    results = results_at(tmp_path)
    root = made(results)

    assert results.hand_out(root)
    assert not results.hand_out(root)
    assert results.waiting("me", "SELECT 1") == []


def test_table_is_handed_out_if_a_repeated_request_finds_its_own_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client of the store repeats a request whose answer was lost."""
    results = results_at(tmp_path)
    root = made(results)
    create = Files.create

    def repeated(files: Files, uri: str, content: bytes) -> bool:
        create(files, uri, content)
        return create(files, uri, content)

    monkeypatch.setattr(Files, "create", repeated)
    assert results.hand_out(root)
    assert not results.hand_out(root)


def test_table_with_an_empty_mark_counts_as_handed_out(tmp_path: Path) -> None:
    results = results_at(tmp_path)
    root = made(results)
    Path(f"{root}.handed_out").write_bytes(b"")
    assert not results.hand_out(root)


def test_sweep_continues_after_a_table_that_it_may_not_remove(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    results = results_at(tmp_path)
    first, second = sorted((made(results), made(results)))
    for root in (first, second):
        results.hand_out(root)
    remove = Files.remove

    def refused(files: Files, uri: str) -> None:
        if uri.startswith(first):
            raise PermissionError(f"{uri} is another principal's")
        remove(files, uri)

    monkeypatch.setattr(Files, "remove", refused)
    with caplog.at_level("INFO"):
        results_at(tmp_path, timedelta(hours=25)).sweep()

    assert (Path(first).exists(), Path(second).exists()) == (True, False)
    assert Path(f"{first}.handed_out").exists()
    assert "another principal's" in caplog.text


def test_sweep_removes_tables_handed_out_a_day_ago_and_their_marks(tmp_path: Path) -> None:
    results = results_at(tmp_path)
    given, kept = made(results), made(results)
    results.hand_out(given)

    results_at(tmp_path, timedelta(hours=23)).sweep()
    assert Path(given).exists()
    results_at(tmp_path, timedelta(hours=25)).sweep()

    assert [path.name for path in (tmp_path / "results").iterdir()] == [Path(kept).name]


def test_sweep_overtaken_by_another_one_leaves_the_mark_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = results_at(tmp_path, timedelta(hours=25))
    root = made(results)
    results.hand_out(root)

    def overtaken(files: Files, uri: str) -> None:
        raise FileNotFoundError(f"{uri}: a file of it is missing by now")

    monkeypatch.setattr(Files, "remove", overtaken)
    results.sweep()

    assert Path(f"{root}.handed_out").exists()
    assert results.waiting("me", "SELECT 1") == []


def test_state_folder_without_results_has_nothing_to_sweep(tmp_path: Path) -> None:
    results_at(tmp_path).sweep()

    assert list(tmp_path.iterdir()) == []
