"""Consumptions in the registry: all streams of one consumption move together, by any caller."""

from __future__ import annotations

import pytest
from registry_scenes import create
from streams import NOON, new_offset

from airflow_provider_cdc.engine.core.errors import StreamConflict
from airflow_provider_cdc.engine.core.model.consumption import (
    Consumption,
    PlannedStatement,
    StatementKind,
    StreamRange,
    TableRange,
)
from airflow_provider_cdc.engine.core.model.lifecycle import Transition
from airflow_provider_cdc.engine.core.model.stream import Phase
from airflow_provider_cdc.engine.storage.registry.consumptions import Consumptions
from airflow_provider_cdc.engine.storage.registry.registry import Registry


@pytest.fixture
def consumptions(registry: Registry) -> Consumptions:
    for name in ("a", "b"):
        create(registry, name)
    return Consumptions(registry, lambda: NOON)


def taken(registry: Registry, name: str) -> StreamRange:
    stream = registry.snapshot().get(name)
    return StreamRange(stream.stream_id, name, (TableRange(0, new_offset(3)),))


def statement(index: int) -> PlannedStatement:
    return PlannedStatement(index, StatementKind.INSERT, "f", "t", "/t", 0)


def begin(registry: Registry, consumptions: Consumptions) -> Consumption:
    """A transaction that uses stream ``a``."""
    snapshot = registry.snapshot()
    return consumptions.begin(
        snapshot,
        [snapshot.get("a")],
        [taken(registry, "a")],
        [statement(0)],
        "me",
        is_open_ended=True,
    )


def join(registry: Registry, consumptions: Consumptions, consumption: Consumption) -> Consumption:
    """The transaction also uses ``b``, in another statement."""
    snapshot = registry.snapshot()
    return consumptions.extend(
        snapshot, consumption, [snapshot.get("b")], [taken(registry, "b")], [statement(1)]
    )


def phases(registry: Registry) -> list[tuple[Phase, int, str | None]]:
    streams = map(registry.snapshot().get, ("a", "b"))
    return [
        (each.phase, each.offset.version, each.consumption and each.consumption.consumption_id)
        for each in streams
    ]


def test_joining_stream_begins_in_the_step_that_records_its_statement(
    registry: Registry, consumptions: Consumptions
) -> None:
    begun = begin(registry, consumptions)

    extended = join(registry, consumptions, begun)

    assert [item.name for item in extended.streams] == ["a", "b"]
    assert [item.index for item in extended.statements] == [0, 1]
    assert phases(registry) == [(Phase.APPLYING, 0, begun.consumption_id)] * 2
    last = {
        name: registry.history(registry.snapshot().get(name).stream_id)[-1] for name in ("a", "b")
    }
    assert last["a"].nonce == last["b"].nonce
    assert (last["a"].transition, last["b"].transition) == (Transition.EXTENDED, Transition.BEGUN)
    assert {record.stream.consumption for record in last.values()} == {extended}


def test_streams_that_joined_later_move_with_the_others(
    registry: Registry, consumptions: Consumptions
) -> None:
    begun = begin(registry, consumptions)
    extended = join(registry, consumptions, begun)

    found = consumptions.move(begun, Transition.ABORTING, "another")

    assert found == extended
    assert [phase for phase, _, _ in phases(registry)] == [Phase.ABORTING] * 2


def test_commit_moves_the_offsets_of_all_streams(
    registry: Registry, consumptions: Consumptions
) -> None:
    extended = join(registry, consumptions, begin(registry, consumptions))

    consumptions.move(extended, Transition.COMMITTED, "me")

    assert phases(registry) == [(Phase.IDLE, 3, None)] * 2


@pytest.mark.parametrize(
    "steps",
    [
        [Transition.ABORTING],
        [Transition.ABORTING, Transition.ABORTED],
        [Transition.ABORTING, Transition.REOPENED],
    ],
)
def test_aborting_aborted_or_reopened_consumption_is_not_extended(
    registry: Registry, consumptions: Consumptions, steps: list[Transition]
) -> None:
    begun = begin(registry, consumptions)
    for step in steps:
        consumptions.move(begun, step, "another")
    found = phases(registry)

    with pytest.raises(StreamConflict):
        join(registry, consumptions, begun)

    assert phases(registry) == found


def test_stream_that_another_consumer_took_first_does_not_join(
    registry: Registry, consumptions: Consumptions
) -> None:
    begun = begin(registry, consumptions)
    snapshot = registry.snapshot()
    other = consumptions.begin(
        registry.snapshot(), [snapshot.get("b")], [taken(registry, "b")], [statement(0)], "another"
    )

    with pytest.raises(StreamConflict):
        consumptions.extend(
            snapshot, begun, [snapshot.get("b")], [taken(registry, "b")], [statement(1)]
        )

    assert phases(registry) == [
        (Phase.APPLYING, 0, begun.consumption_id),
        (Phase.APPLYING, 0, other.consumption_id),
    ]
