"""The state diagram of the documentation equals the table of transitions."""

from __future__ import annotations

import re
from pathlib import Path

from airflow_provider_cdc.engine.core.model.lifecycle import TRANSITIONS, Transition
from airflow_provider_cdc.engine.core.model.stream import Phase

PAGE = Path(__file__).parents[4] / "docs" / "explanation" / "streams.md"
DIAGRAM = re.compile(r"```mermaid\nstateDiagram-v2\n(.*?)```", re.DOTALL)
ARROW = re.compile(r"^\s*(\w+) --> (\w+): (\w+)$", re.MULTILINE)
BIRTH = re.compile(r"^\s*\[\*\] --> (\w+): (\w+)$", re.MULTILINE)


def diagram() -> str:
    (found,) = DIAGRAM.findall(PAGE.read_text(encoding="utf-8"))
    return str(found)


def test_state_diagram_shows_exactly_the_transitions_of_the_table() -> None:
    drawn = [
        (Phase(before), Transition(transition), Phase(after))
        for before, after, transition in ARROW.findall(diagram())
    ]
    table = [(before, transition, after) for (before, transition), after in TRANSITIONS.items()]
    assert sorted(drawn) == sorted(table)


def test_state_diagram_begins_at_creation_and_never_ends() -> None:
    assert BIRTH.findall(diagram()) == [(Phase.IDLE, Transition.CREATED)]
    assert set(Phase) == {before for before, _ in TRANSITIONS}


def test_state_diagram_has_only_lines_that_are_transitions() -> None:
    lines = [line for line in diagram().splitlines() if line.strip()]
    matches = sum(len(kind.findall(diagram())) for kind in (ARROW, BIRTH))
    assert matches == len(lines)
