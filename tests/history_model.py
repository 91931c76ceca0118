"""What a history target must hold after any set of events, in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

OPEN = None
Values = dict[str, Any]


@dataclass(frozen=True)
class Event:
    """An event of one key, or a truncate of all keys: ``kind`` is U, D or T."""

    sequence: Any
    kind: str
    values: Values = field(default_factory=dict)


@dataclass(frozen=True)
class Interval:
    """A row of a type 2 target."""

    start: Any
    end: Any
    values: Values
    is_deleted: bool = False


@dataclass(frozen=True)
class Rules:
    """The options that decide about the rows.

    ``tracked``: the columns whose change begins an interval; ``filled``: those in which NULL means
    unchanged.
    """

    tracked: Sequence[str]
    filled: Sequence[str] = ()
    marks_deletes: bool = False


def chosen(arrivals: Sequence[Event]) -> list[Event]:
    """Of the events with one sequence, the one that counts, in the order of the sequences. A
    truncate counts besides another event, and comes before it.
    """
    found: dict[tuple[Any, bool], Event] = {}
    for event in arrivals:
        place = (event.sequence, event.kind != "T")
        if place in found and found[place].kind == "D":
            continue
        found[place] = event
    return [found[place] for place in sorted(found)]


def intervals(arrivals: Sequence[Event], rules: Rules) -> list[Interval]:
    """The rows of one key in a type 2 target, in the order of their starts."""
    rows: list[Interval] = []
    live: Interval | None = None

    def close(end: Any) -> None:
        nonlocal live
        if live is not None:
            rows.append(Interval(live.start, end, live.values, live.is_deleted))
        live = None

    last: Values | None = None
    for event in chosen(arrivals):
        if event.kind == "U":
            values = dict(event.values)
            for name in rules.filled if last is not None else ():
                assert last is not None
                values[name] = last[name] if values[name] is None else values[name]
            is_same = last is not None and all(last[name] == values[name] for name in rules.tracked)
            if live is not None and is_same:
                live = Interval(live.start, OPEN, values)
            else:
                close(event.sequence)
                live = Interval(event.sequence, OPEN, values)
            last = values
        elif last is not None:
            close(event.sequence)
            if rules.marks_deletes:
                live = Interval(event.sequence, OPEN, last, is_deleted=True)
            last = None
    close(OPEN)
    return rows


def newest(arrivals: Sequence[Event], rules: Rules) -> Values | None:
    """The row of one key in a type 1 target; ``None``: it has none."""
    rows = intervals(arrivals, rules)
    return rows[-1].values if rows and rows[-1].end is OPEN else None
