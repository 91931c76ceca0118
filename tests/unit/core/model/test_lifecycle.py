"""The table of a stream's transitions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from streams import NOON, new_stream

from airflow_provider_cdc.engine.core.errors import StreamConflict
from airflow_provider_cdc.engine.core.model.consumption import Consumption
from airflow_provider_cdc.engine.core.model.lifecycle import TRANSITIONS, Transition, next_phase
from airflow_provider_cdc.engine.core.model.stream import Phase

STREAM = new_stream()
OPEN = Consumption("c1", "dag.task", (), (), NOON)
EVERY_STEP = [(phase, transition) for phase in Phase for transition in Transition]


@pytest.mark.parametrize(("phase", "transition"), EVERY_STEP)
def test_transition_is_allowed_only_if_the_table_has_it(
    phase: Phase, transition: Transition
) -> None:
    stream = replace(STREAM, phase=phase)
    if (phase, transition) in TRANSITIONS:
        assert next_phase(stream, transition) is TRANSITIONS[phase, transition]
        return
    with pytest.raises(StreamConflict, match=f"stream s: cannot be {transition.value} while"):
        next_phase(stream, transition)


def test_refused_transition_of_an_open_stream_names_its_consumption() -> None:
    stream = replace(STREAM, phase=Phase.APPLYING, consumption=OPEN)

    with pytest.raises(StreamConflict, match=r"consumption c1 of dag\.task is open.*engine\.abort"):
        next_phase(stream, Transition.DROPPED)


@pytest.mark.parametrize("phase", [Phase.APPLYING, Phase.RESOLVING, Phase.ABORTING])
@pytest.mark.parametrize(
    "transition", [Transition.BEGUN, Transition.ADVANCED, Transition.DROPPED, Transition.CREATED]
)
def test_open_consumption_prevents_begin_advance_drop_and_create(
    phase: Phase, transition: Transition
) -> None:
    assert (phase, transition) not in TRANSITIONS


@pytest.mark.parametrize("phase", [Phase.RESOLVING, Phase.ABORTING])
@pytest.mark.parametrize("transition", [Transition.RESUMED, Transition.EXTENDED])
def test_consumption_that_is_ending_cannot_be_resumed_or_extended(
    phase: Phase, transition: Transition
) -> None:
    assert (phase, transition) not in TRANSITIONS


def test_aborted_comes_only_after_resolving_or_aborting() -> None:
    assert [phase for phase, transition in TRANSITIONS if transition is Transition.ABORTED] == [
        Phase.RESOLVING,
        Phase.ABORTING,
    ]


@pytest.mark.parametrize("transition", [Transition.COMMITTED, Transition.RESOLVING])
def test_consumption_that_an_operator_aborts_is_never_committed(transition: Transition) -> None:
    assert (Phase.ABORTING, transition) not in TRANSITIONS


def test_dropped_stream_can_only_be_undropped() -> None:
    found = [transition for phase, transition in TRANSITIONS if phase is Phase.DROPPED]
    assert found == [Transition.UNDROPPED]


def test_every_phase_is_reached_and_every_transition_used() -> None:
    assert set(TRANSITIONS.values()) == set(Phase)
    assert {transition for _, transition in TRANSITIONS} == set(Transition) - {Transition.CREATED}
