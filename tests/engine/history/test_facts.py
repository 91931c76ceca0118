"""The facts about history targets, each for all orders of arrival.

Each order of each fact has its own key, so one batch has the first event of all of them, and the
next batch the second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from history_lab import HistoryLab
from history_model import Event, Interval

from airflow_provider_cdc.engine import Engine, InvalidRequest

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def u(sequence: Any, v: str | None, other: str | None = None) -> Event:
    return Event(sequence, "U", {"v": v, "u": other})


def d(sequence: Any) -> Event:
    return Event(sequence, "D")


def row(start: Any, end: Any, v: str | None, other: str | None = None) -> Interval:
    return Interval(start, end, {"v": v, "u": other})


FACTS: dict[str, tuple[Sequence[Event], Sequence[Interval]]] = {
    "1 in order": ([u(1, "a"), u(3, "b")], [row(1, 3, "a"), row(3, None, "b")]),
    "3 split": (
        [u(1, "a"), u(3, "b"), u(2, "c")],
        [row(1, 2, "a"), row(2, 3, "c"), row(3, None, "b")],
    ),
    "4 like its predecessor": (
        [u(1, "a"), u(3, "b"), u(2, "a")],
        [row(1, 3, "a"), row(3, None, "b")],
    ),
    "5 like its successor": (
        [u(1, "a"), u(3, "b"), u(2, "b")],
        [row(1, 2, "a"), row(2, None, "b")],
    ),
    "6 delete": ([u(1, "a"), d(2)], [row(1, 2, "a")]),
    "8 again": ([u(1, "a"), d(2), u(4, "a")], [row(1, 2, "a"), row(4, None, "a")]),
    "9 deleted twice": (
        [u(1, "a"), d(2), u(4, "a"), d(3)],
        [row(1, 2, "a"), row(4, None, "a")],
    ),
    "10 late delete": (
        [u(1, "a"), u(3, "b"), d(2)],
        [row(1, 2, "a"), row(3, None, "b")],
    ),
    "12 delete wins": ([d(2), u(2, "b")], []),
    "14 NULL is a value": ([u(1, "a"), u(2, None)], [row(1, 2, "a"), row(2, None, None)]),
}


def arrange(
    lab: HistoryLab, facts: dict[str, Sequence[Event]], apply: Callable[[], object]
) -> dict[str, list[str]]:
    """Let the events of each fact arrive in all orders; returns the keys of each fact."""
    keys: dict[str, list[str]] = {}
    batches: list[list[tuple[str | None, Event]]] = []
    for name, events in facts.items():
        for number, order in enumerate(permutations(events)):
            key = f"{name} {number}"
            keys.setdefault(name, []).append(key)
            for place, event in enumerate(order):
                batches.extend([] for _ in range(place + 1 - len(batches)))
                batches[place].append((key, event))
    for batch in batches:
        lab.deliver(batch)
        apply()
    return keys


def test_facts_hold_for_both_types_in_any_order(lab: HistoryLab) -> None:
    lab.make_events("history", "copy")

    def apply() -> None:
        lab.apply("history", scd_type=2)
        lab.apply("copy")

    keys = arrange(lab, {name: events for name, (events, _) in FACTS.items()}, apply)
    intervals, newest = lab.intervals("history"), lab.newest("copy")
    for name, (_, expected) in FACTS.items():
        last = expected[-1] if expected and expected[-1].end is None else None
        for key in keys[name]:
            assert intervals.get(key, []) == list(expected), key
            assert newest.get(key) == (None if last is None else last.values), key


def test_tie_keeps_the_later_event(lab: HistoryLab) -> None:
    lab.make_events("history", "copy")
    for batch in ([("k", u(1, "a"))], [("k", u(1, "b")), ("l", u(1, "a")), ("l", u(1, "b"))]):
        lab.deliver(batch)
        lab.apply("history", scd_type=2)
        lab.apply("copy")
    assert lab.intervals("history") == {"k": [row(1, None, "b")], "l": [row(1, None, "b")]}
    assert lab.newest("copy") == {key: {"v": "b", "u": None} for key in "kl"}


def test_killed_creation_of_the_memory_is_done_by_the_next_apply(lab: HistoryLab) -> None:
    lab.make_events("history")
    lab.deliver([("k", u(1, "a"))])
    lab.apply("history", scd_type=2)
    log = Path(lab.path("history")) / "_cdc" / "memory" / "_delta_log"
    assert not log.exists()
    # A killed CREATE TABLE leaves this folder without a commit.
    log.mkdir(parents=True)
    # A delete without a row is an event that no row of the target shows.
    lab.deliver([("k", u(2, "b")), ("l", d(2))])
    lab.apply("history", scd_type=2)
    lab.deliver([("l", u(1, "a"))])
    lab.apply("history", scd_type=2)
    assert lab.intervals("history") == {
        "k": [row(1, 2, "a"), row(2, None, "b")],
        "l": [row(1, 2, "a")],
    }


def test_tie_is_refused_and_nothing_is_written(lab: HistoryLab) -> None:
    lab.make_events("history")
    lab.deliver([("k", u(1, "a"))])
    lab.apply("history", scd_type=2, on_tie="fail")
    lab.deliver([("k", u(1, "a")), ("l", u(1, "x"))])
    lab.apply("history", scd_type=2, on_tie="fail")
    lab.deliver([("k", u(1, "b")), ("l", u(2, "y"))])
    with pytest.raises(InvalidRequest, match="two events of one key and one sequence") as refused:
        lab.apply("history", scd_type=2, on_tie="fail")
    assert "k = k" in str(refused.value)
    assert lab.intervals("history") == {"k": [row(1, None, "a")], "l": [row(1, None, "x")]}
    lab.apply("history", scd_type=2, on_tie="last")
    assert lab.intervals("history")["k"] == [row(1, None, "b")]


@pytest.mark.thorough
def test_tied_event_goes_into_quarantine(lab: HistoryLab) -> None:
    lab.make_events("history")
    lab.deliver([("k", u(1, "a"))])
    lab.apply("history", scd_type=2, on_tie="quarantine")
    lab.deliver([("k", u(1, "b")), ("k", u(2, "c")), ("l", u(1, "x"))])
    outcome = lab.apply("history", scd_type=2, on_tie="quarantine")
    assert outcome is not None
    assert outcome.statements[-1].metrics["eventsQuarantined"] == 1
    assert lab.intervals("history") == {
        "k": [row(1, 2, "a"), row(2, None, "c")],
        "l": [row(1, None, "x")],
    }


def test_truncate_ends_all_intervals_and_late_events(lab: HistoryLab) -> None:
    lab.make_events("history", "copy")
    # Each order has its own range of sequences, so a later truncate changes nothing of it.
    orders = [
        [(None, Event(at + 20, "T")), (str(at), u(at + 10, "a")), (str(at), u(at + 15, "c"))]
        for at in range(100, 700, 100)
    ]
    places = list(permutations(range(3)))
    for batch in range(3):
        lab.deliver([order[place[batch]] for order, place in zip(orders, places, strict=True)])
        lab.apply("history", scd_type=2, apply_as_truncates="op = 'T'")
        lab.apply("copy", apply_as_truncates="op = 'T'")
    assert lab.intervals("history") == {
        str(at): [row(at + 10, at + 15, "a"), row(at + 15, at + 20, "c")]
        for at in range(100, 700, 100)
    }
    assert lab.newest("copy") == {}


def test_null_means_unchanged_on_request(lab: HistoryLab) -> None:
    lab.make_events("history", "copy")
    facts = {"14": [u(1, "a"), u(2, None)], "15": [u(1, "a", "x"), u(3, None, "y"), u(2, "b")]}

    def apply() -> None:
        lab.apply("history", scd_type=2, ignore_null_updates=True)
        lab.apply("copy", ignore_null_updates=True)

    keys = arrange(lab, facts, apply)
    history, copy = lab.intervals("history"), lab.newest("copy")
    for key in keys["14"]:
        assert history[key] == [row(1, None, "a")], key
        assert copy[key] == {"v": "a", "u": None}, key
    for key in keys["15"]:
        split = [row(1, 2, "a", "x"), row(2, 3, "b", "x"), row(3, None, "b", "y")]
        assert history[key] == split, key
        assert copy[key] == {"v": "b", "u": "y"}, key


@pytest.mark.parametrize("arrival", [(None, u(1, "a")), ("k", u(None, "a"))], ids=["key", "seq"])
def test_null_is_refused_or_goes_into_quarantine(
    lab: HistoryLab, arrival: tuple[str | None, Event]
) -> None:
    lab.make_events("history")
    lab.deliver([arrival, ("l", u(1, "x"))])
    with pytest.raises(InvalidRequest, match="is NULL"):
        lab.apply("history", scd_type=2)
    assert lab.engine.stream_has_data("history")
    outcome = lab.apply("history", scd_type=2, on_null="quarantine")
    assert outcome is not None
    assert outcome.statements[-1].metrics["eventsQuarantined"] == 1
    assert lab.intervals("history") == {"l": [row(1, None, "x")]}


def test_untracked_column_begins_no_interval(lab: HistoryLab) -> None:
    lab.make_events("history")
    facts = {
        "17": [u(1, "a", "u1"), u(2, "a", "u2")],
        "late": [u(1, "a", "u1"), u(3, "a", "u3"), u(2, "b", "u2")],
    }

    def apply() -> None:
        lab.apply("history", scd_type=2, track_history_except_column_list="u")

    keys = arrange(lab, facts, apply)
    history = lab.intervals("history")
    for key in keys["17"]:
        assert history[key] == [row(1, None, "a", "u2")], key
    for key in keys["late"]:
        split = [row(1, 2, "a", "u1"), row(2, 3, "b", "u2"), row(3, None, "a", "u3")]
        assert history[key] == split, key


def test_delete_can_be_a_row(lab: HistoryLab) -> None:
    lab.make_events("history")
    facts = {
        "18": [u(1, "a"), d(2)],
        "8": [u(1, "a"), d(2), u(4, "b")],
        "9": [u(1, "a"), d(2), d(3)],
    }

    def apply() -> None:
        lab.apply("history", scd_type=2, deleted="row", current_column="is_current")

    keys = arrange(lab, facts, apply)
    lab.sql("ALTER TABLE {history} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    lab.sql("ALTER TABLE {history} DROP COLUMN is_current")
    found = lab.intervals("history")
    values = {"v": "a", "u": None}
    for key in (*keys["18"], *keys["9"]):
        assert found[key] == [row(1, 2, "a"), Interval(2, None, values, True)], key
    for key in keys["8"]:
        between = Interval(2, 4, values, True)
        assert found[key] == [row(1, 2, "a"), between, row(4, None, "b")], key


@pytest.mark.thorough
def test_event_beyond_the_horizon_is_applied_and_counted(lab: HistoryLab) -> None:
    clock = [NOON]

    def apply(**options: Any) -> dict[str, int]:
        engine = Engine(lab.spark, str(lab.root / "state"), clock=lambda: clock[0])
        found = lab.apply("history", engine, scd_type=2, **options)
        assert found is not None
        return found.statements[-1].metrics

    lab.make_events("history")
    # A delete without a row, an upsert that changes nothing, and one that a later event will split.
    lab.deliver(
        [("k", d(2)), ("l", u(1, "a")), ("l", u(3, "a")), ("m", u(1, "a")), ("m", u(4, "a"))]
    )
    assert apply()["eventsRemembered"] == 5
    clock[0] += timedelta(days=1)
    lab.deliver([("m", u(5, "a"))])
    assert apply()["eventsRemembered"] == 1
    # The upkeep after this apply forgets what is older than two days: all but the events of m.
    clock[0] += timedelta(days=1, hours=1)
    lab.deliver([("n", u(9, "x"))])
    assert apply()["eventsBeyondHorizon"] == 0
    lab.deliver([("k", u(1, "a")), ("l", u(2, "b")), ("m", u(2, "b"))])
    assert apply()["eventsBeyondHorizon"] == 3
    assert lab.intervals("history") == {
        "k": [row(1, None, "a")],
        "l": [row(1, 2, "a"), row(2, None, "b")],
        "m": [row(1, 2, "a"), row(2, 4, "b"), row(4, None, "a")],
        "n": [row(9, None, "x")],
    }
