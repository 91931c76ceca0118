"""How stale a table should be allowed to be, and how often its changes are applied (seed 004)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

_BUFFER = timedelta(minutes=7)
_SHORTEST = timedelta(seconds=1)
_STEPS = 12


@dataclass(frozen=True, slots=True)
class ApplySchedule:
    """How often the changes of an upsert table are applied: ``table`` as it was created, its base
    at ``location``, the ``stream`` on its changes.
    """

    table: str
    location: str
    stream: str
    every: timedelta


def percentile_95(durations: Sequence[timedelta]) -> timedelta:
    """The shortest of ``durations``, of which there is one, that 95 % do not exceed."""
    ordered = sorted(durations)
    return ordered[math.ceil(len(ordered) * 0.95) - 1]


def recommended_max_staleness(durations: Sequence[timedelta]) -> timedelta | None:
    """The least ``max_staleness`` that applying can be expected to keep; ``None``: not known.

    Seed 004: twice the 95th percentile of the time that applying took, in whole minutes, and seven
    minutes more.

    :param durations: how long each apply of the last seven days took
    """
    if not durations:
        return None
    minutes = math.ceil(2 * percentile_95(durations) / timedelta(minutes=1))
    return timedelta(minutes=minutes) + _BUFFER


def apply_interval(max_staleness: timedelta, durations: Sequence[timedelta]) -> timedelta:
    """How long after the begin of one apply the next one has to begin.

    A change that comes right after an apply has begun waits for the next one, and for its end: both
    together must not take longer than ``max_staleness``. Where applying alone takes longer, the
    promise is not kept. Until anything is known, applying is expected to take half of what is
    allowed.

    The interval is a whole number of twelfths of ``max_staleness``, one at least, so that a
    schedule stays as it is when applying takes a little longer than last time, and runs that wait
    for each other do not make more runs.

    :param durations: how long each apply took lately, with the start of its driver
    """
    longest = percentile_95(durations) if durations else max_staleness / 2
    step = max_staleness / _STEPS
    steps = (max_staleness - longest) // step if step else 0
    return max(steps, 1) * step if step >= _SHORTEST else _SHORTEST
