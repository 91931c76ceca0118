"""The condition of a stream: one word for what an operator has to know first."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from ..model.alerts import Objective, ObjectiveState, ObjectiveStatus
from ..model.stream import Phase


class Condition(StrEnum):
    """The conditions of a stream, the worst first.

    ``stale``: its change set can no longer be read, or ``stale_after`` has passed. ``unreachable``:
    its source does not answer. ``differs``: a target does not equal the source. ``late``: its
    oldest change is older than ``max_lag``. ``quarantined``: changes of its upsert table are in
    quarantine. ``at_risk``: it goes stale soon. ``unsettled``: a consumption failed, and its undo
    is not complete. ``consuming``: a consumption is open. ``waiting``: it has data. ``current``: no
    change waits.
    """

    STALE = "stale"
    UNREACHABLE = "unreachable"
    DIFFERS = "differs"
    LATE = "late"
    QUARANTINED = "quarantined"
    AT_RISK = "at_risk"
    UNSETTLED = "unsettled"
    CONSUMING = "consuming"
    WAITING = "waiting"
    CURRENT = "current"


def condition_of(
    states: Sequence[ObjectiveState],
    phase: Phase | None,
    *,
    is_stale: bool,
    may_have_data: bool,
) -> tuple[Condition, str | None]:
    """The worst condition of a stream, and its reason if an objective is not met.

    :param states: of its objectives
    """
    found = [
        (_of_objective(state, is_stale=is_stale), state.reason)
        for state in states
        if state.status is not ObjectiveStatus.MET
    ]
    if found:
        order = list(Condition)
        return min(found, key=lambda each: order.index(each[0]))
    if phase in (Phase.RESOLVING, Phase.ABORTING):
        return Condition.UNSETTLED, None
    if phase is Phase.APPLYING:
        return Condition.CONSUMING, None
    return (Condition.WAITING if may_have_data else Condition.CURRENT), None


def _of_objective(state: ObjectiveState, *, is_stale: bool) -> Condition:
    """The condition of a stream that does not meet an objective."""
    match state.objective:
        case Objective.STALENESS:
            if state.status is ObjectiveStatus.AT_RISK:
                return Condition.AT_RISK
            return Condition.STALE if is_stale else Condition.UNREACHABLE
        case Objective.LAG:
            return Condition.LATE
        case Objective.QUARANTINE:
            return Condition.QUARANTINED
        case Objective.VERIFICATION:
            return Condition.DIFFERS
