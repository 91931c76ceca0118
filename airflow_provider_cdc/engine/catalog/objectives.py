"""What each stream has to meet, and whether its status meets it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ..core.change_sets.read_plan import ReadPlan
from ..core.figures import counted, length_text
from ..core.model.alerts import Objective, ObjectiveState, ObjectiveStatus
from ..core.model.stream import Stream
from ..core.summaries import moment_text
from ..core.upserts.quarantine_size import QuarantineSize
from ..core.verification.proof import VerificationState
from .stream_status import StreamStatus
from .upsert_jobs import LONGEST_WITHOUT_MAX_STALENESS


@dataclass(frozen=True, slots=True)
class Observation:
    """What the monitor read of a stream: its status, and its record if that can be read.

    For a stream on the changes of an upsert table, ``quarantine`` is the size of the table's
    quarantine. ``None``: the quarantine cannot be read. ``verifications`` are the results of the
    last checks of its targets. ``plan`` is how its change set would be read (``None``: no change
    waits, or the change set cannot be read).
    """

    status: StreamStatus
    stream: Stream | None = None
    upsert_table: str | None = None
    quarantine: QuarantineSize | None = None
    verifications: tuple[VerificationState, ...] = ()
    plan: ReadPlan | None = None


def objective_states(seen: Observation, now: datetime, margin: timedelta) -> list[ObjectiveState]:
    """The status of each objective of a stream at the moment ``now``.

    :param margin: how long before ``stale_after`` the objective counts as at risk
    """
    status, found = seen.status, [_staleness(seen.status, now, margin)]
    if seen.verifications:
        found.append(_verification(seen.verifications))
    if seen.upsert_table is None:
        return [*found, _lag(status, now)]
    found.append(_apply_lag(seen.upsert_table, status, now))
    if seen.quarantine is not None:
        found.append(_quarantine(seen.upsert_table, seen.quarantine))
    return found


def lag_of(status: StreamStatus, now: datetime) -> timedelta:
    """How long the oldest change that is not consumed has waited. Zero: no change waits."""
    return now - (status.behind_since or now)


def _staleness(status: StreamStatus, now: datetime, margin: timedelta) -> ObjectiveState:
    objective_status, reason = (
        ObjectiveStatus.MET,
        f"it is kept until {moment_text(status.stale_after)}",
    )
    if status.invalid_reason is not None:
        objective_status, reason = ObjectiveStatus.BREACHED, status.invalid_reason
    elif status.stale:
        objective_status, reason = (
            ObjectiveStatus.BREACHED,
            f"stale_after has passed: {moment_text(status.stale_after)}",
        )
    elif now >= status.stale_after - margin:
        objective_status, reason = (
            ObjectiveStatus.AT_RISK,
            f"it goes stale after {moment_text(status.stale_after)}",
        )
    elif status.may_have_data and now >= status.kept_until:
        objective_status = ObjectiveStatus.AT_RISK
        reason = (
            "its source promises to keep what it needs only until"
            f" {moment_text(status.kept_until)}: run MaintainStreams"
        )
    return ObjectiveState(Objective.STALENESS, objective_status, reason)


def _lag(status: StreamStatus, now: datetime) -> ObjectiveState:
    lag = lag_of(status, now)
    if status.max_lag is None:
        return ObjectiveState(Objective.LAG, ObjectiveStatus.MET, "it has no max_lag")
    longest = length_text(status.max_lag)
    reason = f"its oldest change has waited for {length_text(lag)}, max_lag is {longest}"
    return ObjectiveState(Objective.LAG, _kept_within(status.max_lag, lag), reason)


def _apply_lag(table: str, status: StreamStatus, now: datetime) -> ObjectiveState:
    """Whether the changes of an upsert table wait too long. A table without a ``max_staleness`` has
    a limit too.
    """
    lag = lag_of(status, now)
    waits = f"has waited for {length_text(lag)} to be applied"
    reason = f"the oldest change of upsert table {table} {waits}"
    if status.max_lag:
        longest, promised = status.max_lag, f"its max_staleness is {length_text(status.max_lag)}"
    else:
        longest = LONGEST_WITHOUT_MAX_STALENESS
        promised = f"without a max_staleness it should wait for {length_text(longest)} at most"
    return ObjectiveState(Objective.LAG, _kept_within(longest, lag), f"{reason}; {promised}")


def _quarantine(table: str, size: QuarantineSize) -> ObjectiveState:
    """Whether the quarantine holds changes. Late changes do not block others, so they cause only a
    warning.
    """
    holds = f"the quarantine of upsert table {table} holds"
    if size.changes == 0:
        return ObjectiveState(Objective.QUARANTINE, ObjectiveStatus.MET, f"{holds} no change")
    count = "" if size.changes is None else f", {size.changes} in all"
    if size.are_late:
        reason = f"{holds} only late changes{count}: older than a delete whose tombstone has ended"
        return ObjectiveState(Objective.QUARANTINE, ObjectiveStatus.AT_RISK, reason)
    reason = (
        f"{holds} changes that are not applied{count}: they are bad, wait for a bad change of"
        " their key, are late, or were released since"
    )
    return ObjectiveState(Objective.QUARANTINE, ObjectiveStatus.BREACHED, reason)


def _verification(checks: Sequence[VerificationState]) -> ObjectiveState:
    differing = [check for check in checks if check.differing_keys]
    if not differing:
        through = min(check.checked_version for check in checks)
        reason = f"its {counted(len(checks), 'target')} equal the source through version {through}"
        return ObjectiveState(Objective.VERIFICATION, ObjectiveStatus.MET, reason)
    first = differing[0]
    reason = (
        f"target {first.target} differs from the source in {counted(first.differing_keys, 'key')}"
        f" at version {first.checked_version}: run VerifyTarget with heal=True"
    )
    return ObjectiveState(Objective.VERIFICATION, ObjectiveStatus.BREACHED, reason)


def _kept_within(longest: timedelta, lag: timedelta) -> ObjectiveStatus:
    return ObjectiveStatus.BREACHED if lag > longest else ObjectiveStatus.MET
