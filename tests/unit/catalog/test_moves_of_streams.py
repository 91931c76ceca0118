"""The moves of streams that the monitor keeps: from the registry, each once, for some days."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from streams import NOON, add_file, new_stream, offset_at

from airflow_provider_cdc.engine.catalog.monitoring import StreamMonitor
from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.core.model.lifecycle import Transition
from airflow_provider_cdc.engine.core.model.outcomes import Outcome, StreamOutcome
from airflow_provider_cdc.engine.core.model.sources import Source
from airflow_provider_cdc.engine.core.monitoring.moves import (
    MOST_MOVES,
    ConsumedRows,
    Move,
    MoveHistory,
    move_of,
    with_moves,
)
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.registry.registry import Registry
from airflow_provider_cdc.engine.storage.registry.registry_snapshot import Change
from airflow_provider_cdc.engine.storage.state.status_snapshots import StatusSnapshots

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


class Site:
    """A stream on a table without Spark, and the time."""

    def __init__(self, root: Path) -> None:
        self.root, self.state, self.now = root, str(root / "state"), NOON
        add_file(root / "t", 0, NOON, data_change=False)
        source = Source("t", str(root / "t"), "a-table-id")
        stream = new_stream(source=source, offset=offset_at(root / "t", 0), owner="somebody")
        registry = Registry(self.state, clock=lambda: self.now)
        created = [Change(stream, Transition.CREATED)]
        registry.transact(registry.snapshot(), created, actor="somebody")
        self.catalog = StreamCatalog(self.state, principal="somebody", clock=lambda: self.now)
        self.snapshots = StatusSnapshots(self.state, Files())

    def check(self) -> list[tuple[str, str, int]]:
        StreamMonitor(self.state, clock=lambda: self.now).run({"log": print}, margin=DAY)
        moves = self.snapshots.moves().moves.get("id of s", ())
        return [(move.transition, move.actor, move.versions[0]) for move in moves]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_each_move_is_found_once_whenever_checks_run(site: Site) -> None:
    expected = [("created", "somebody", 0)]
    assert site.check() == expected
    for version in (1, 2, 3):
        add_file(site.root / "t", version, site.now, 10)
        site.now += version * 3 * MINUTE
        site.catalog.advance_stream("s")
        expected.append(("advanced", "somebody", version))
        if version != 2:
            assert site.check() == expected
            assert site.check() == expected


def test_moves_are_forgotten_after_some_days_or_with_their_stream(site: Site) -> None:
    assert len(site.check()) == 1
    site.now += 7 * DAY + MINUTE
    site.catalog.alter_stream("s", comment="new")
    assert site.check() == [("altered", "somebody", 0)]
    site.catalog.drop_stream("s")
    assert site.check() == []


def test_commit_shows_its_consumer_and_its_rows() -> None:
    rows = {"inserted": 3, "updated": 2, "deleted": 1}
    taken = StreamOutcome("id of s", "s", 0, 1, "nothing", rows, (), NOON)
    stream = new_stream(
        last_consumer="orders/consume",
        last_outcome=Outcome("c", "orders/consume", (taken,), (), 1.5),
    )
    move = move_of(stream, Transition.COMMITTED, NOON, "somebody")
    assert move is not None
    assert (move.consumer, move.rows, move.seconds) == (
        "orders/consume",
        ConsumedRows(3, 2, 1),
        1.5,
    )
    late = move_of(replace(stream, last_outcome=None), Transition.COMMITTED, NOON, "operator")
    assert late is not None
    assert (late.consumer, late.rows, late.seconds) == ("orders/consume", None, None)


@pytest.mark.parametrize("within", [Transition.BEGUN, Transition.RESUMED, Transition.EXTENDED])
def test_steps_within_a_consumption_are_no_moves(within: Transition) -> None:
    assert move_of(new_stream(), within, NOON, "somebody") is None


def test_moves_of_a_busy_stream_are_bounded() -> None:
    many = [Move(number, NOON, "committed", "somebody", (number,)) for number in range(150)]
    found = with_moves(MoveHistory(), {"a": many}, {"a"}, NOON + MINUTE)
    assert [move.sequence for move in found.moves["a"]] == [*range(150 - MOST_MOVES, 150)]
