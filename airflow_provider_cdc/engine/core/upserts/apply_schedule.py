"""How stale an upsert table should be allowed to be, and how often its changes are applied
(BigQuery CDC).
"""

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
    """How often the changes of an upsert table are applied.

    ``table`` is the name that it was created by, ``location`` the root of its base, and ``stream``
    the stream on its changes.
    """

    table: str
    location: str
    stream: str
    every: timedelta


def percentile_95(durations: Sequence[timedelta]) -> timedelta:
    """The shortest of ``durations`` that 95 % of them do not exceed. There must be at least one."""
    ordered = sorted(durations)
    return ordered[math.ceil(len(ordered) * 0.95) - 1]


def recommended_max_staleness(durations: Sequence[timedelta]) -> timedelta | None:
    """The least ``max_staleness`` that applies can be expected to meet. ``None``: unknown.

    BigQuery CDC: twice the 95th percentile of the duration of an apply, in whole minutes, plus
    seven minutes.

    :param durations: how long each apply of the last seven days took
    """
    if not durations:
        return None
    minutes = math.ceil(2 * percentile_95(durations) / timedelta(minutes=1))
    return timedelta(minutes=minutes) + _BUFFER


def apply_interval(max_staleness: timedelta, durations: Sequence[timedelta]) -> timedelta:
    """The time from the start of one apply to the start of the next.

    A change that comes right after the start of an apply waits for the start of the next apply, and
    for its end. Both waits together must not take longer than ``max_staleness``. If one apply takes
    longer by itself, ``max_staleness`` cannot be met. Without measured durations, an apply is
    expected to take half of ``max_staleness``.

    The interval is a whole number of twelfths of ``max_staleness``, and at least one twelfth. So a
    schedule stays the same when an apply takes a little longer than last time, and runs that wait
    for each other do not cause more runs.

    :param durations: how long recent applies took, including the start of each driver
    """
    longest = percentile_95(durations) if durations else max_staleness / 2
    step = max_staleness / _STEPS
    steps = (max_staleness - longest) // step if step else 0
    return max(steps, 1) * step if step >= _SHORTEST else _SHORTEST
