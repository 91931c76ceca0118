"""Rebuilding history targets from archives, and the files that an apply leaves unread."""

from __future__ import annotations

from typing import Any

import pytest
from history_lab import HistoryLab
from history_model import Event
from stream_lab import Crash, CrashAt

from airflow_provider_cdc.engine import Engine, InvalidRequest, Outcome, ProtocolPoint
from airflow_provider_cdc.engine.spark.tables import pruning


@pytest.fixture
def archived(lab: HistoryLab) -> HistoryLab:
    """A table whose first changes are archived, and its history."""
    lab.make("t", "id INT, v STRING", "INSERT INTO {t} VALUES (1, 'a'), (2, 'b')")
    lab.engine.create_stream("s", on_table=lab.path("t"), mode="feed", show_initial_rows=True)
    lab.engine.archive_changes(lab.path("t"), lab.path("archive"))
    apply(lab)
    lab.sql("UPDATE {t} SET v = 'x' WHERE id = 1", "DELETE FROM {t} WHERE id = 2")
    lab.engine.archive_changes(lab.path("t"), lab.path("archive"))
    lab.sql("INSERT INTO {t} VALUES (3, 'c')")
    apply(lab)
    return lab


def apply(lab: HistoryLab, target: str = "h", stream: str = "s") -> Outcome | None:
    return lab.engine.apply_changes(
        lab.path(target), "id", stream=stream, consumer="tests", scd_type=2
    )


def rebuild(lab: HistoryLab, engine: Engine | None = None, **given: Any) -> Outcome:
    wanted = {"stream": "s", "consumer": "tests", **given}
    return (engine or lab.engine).rebuild_history(lab.path("h"), lab.path("archive"), **wanted)


def test_rebuild_from_an_archive_replaces_all_rows_in_one_commit(archived: HistoryLab) -> None:
    expected = archived.rows("h")
    archived.sql("DELETE FROM {h} WHERE id = 1", "UPDATE {h} SET v = 'wrong' WHERE id = 3")
    archived.sql("UPDATE {t} SET v = 'y' WHERE id = 1")
    before = archived.version("h")

    outcome = rebuild(archived)

    assert outcome.streams[0].rows["updated"] == 1
    assert archived.version("h") == before + 1
    found = archived.rows("h")
    (changed,) = [row for row in expected if row[:2] == (1, "x")]
    ended = [row for row in found if row[:2] == (1, "x")]
    assert {*found} - {*ended} >= {*expected} - {changed}
    assert [(row[0], row[1], row[3]) for row in found if row[1] == "y"] == [(1, "y", None)]
    assert ended[0][2] == changed[2]
    assert ended[0][3] is not None
    assert not archived.engine.stream_has_data("s")


@pytest.mark.thorough
def test_rebuild_adds_the_columns_that_the_target_lacks(archived: HistoryLab) -> None:
    archived.sql("ALTER TABLE {t} ADD COLUMN u INT", "INSERT INTO {t} VALUES (4, 'd', 4)")
    rebuild(archived)
    found = archived.spark.table(archived.name("h")).where("id > 2").select("id", "v", "u")
    assert sorted(map(tuple, found.collect())) == [(3, "c", None), (4, "d", 4)]


def test_killed_rebuild_is_done_by_the_next(archived: HistoryLab) -> None:
    expected = archived.rows("h")
    archived.sql("DELETE FROM {h} WHERE id = 1")
    crashing = archived.new_engine(CrashAt(ProtocolPoint.BEFORE_STATEMENT, 0))
    with pytest.raises(Crash):
        rebuild(archived, crashing)
    assert len(archived.rows("h")) < len(expected)
    rebuild(archived)
    assert archived.rows("h") == expected


def test_rebuild_is_refused_from_the_archive_of_another_table(archived: HistoryLab) -> None:
    archived.make("other", "id INT, v STRING", "INSERT INTO {t} VALUES (1, 'a')")
    archived.engine.create_stream("o", on_table=archived.path("other"), mode="feed")
    with pytest.raises(InvalidRequest, match="cannot be rebuilt from"):
        rebuild(archived, stream="o")
    with pytest.raises(InvalidRequest, match="is not a history target"):
        archived.engine.rebuild_history(
            archived.path("other"), archived.path("archive"), stream="s", consumer="tests"
        )


@pytest.mark.thorough
def test_files_without_the_key_of_an_event_are_not_read(
    lab: HistoryLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "WORTH_BYTES", 0)
    lab.make_events("history")
    for letter in "abcdefgh":
        # Each batch becomes a file with keys of its own.
        lab.deliver([(f"{letter}{n}", Event(n, "U", {"v": letter})) for n in range(20)])
        lab.apply("history", scd_type=2)
    lab.deliver([("c3", Event(50, "U", {"v": "new"})), ("c4", Event(1, "U", {"v": "old"}))])
    outcome = lab.apply("history", scd_type=2)

    assert outcome is not None
    metrics = outcome.statements[-1].metrics
    assert metrics["baseBytesRead"] < metrics["baseBytes"] / 4
    found = lab.intervals("history")
    assert [row.values["v"] for row in found["c3"]] == ["c", "new"]
    assert [row.values["v"] for row in found["c4"]] == ["old", "c"]
    assert len(found) == 8 * 20
