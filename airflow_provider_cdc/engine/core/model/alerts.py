"""The alerts about streams that lag or go stale, and about upsert tables whose quarantine fills.

An alert is sent only when the status of an objective changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from rich.filesize import decimal

from ..figures import counted, length_text


class Objective(StrEnum):
    """What a stream has to meet: it does not go stale, and its lag does not exceed ``max_lag``.

    The stream of an upsert table has one more objective: the quarantine of the table is empty. A
    stream whose targets are verified has another one: the last check of each found them equal.
    """

    STALENESS = "staleness"
    LAG = "lag"
    QUARANTINE = "quarantine"
    VERIFICATION = "verification"


class ObjectiveStatus(StrEnum):
    """Whether an objective is met, at risk or breached."""

    MET = "met"
    AT_RISK = "at_risk"
    BREACHED = "breached"


class AlertKind(StrEnum):
    """What an alert reports: an objective is at risk, is breached, or is met again."""

    WARNING = "warning"
    BREACH = "breach"
    RECOVERY = "recovery"


@dataclass(frozen=True, slots=True)
class ObjectiveState:
    """The status of one objective of a stream, and why."""

    objective: Objective
    status: ObjectiveStatus
    reason: str


@dataclass(frozen=True, slots=True)
class Alert:
    """One notification.

    ``upsert_table`` is the upsert table whose changes wait in the stream, and ``change_stream`` the
    change stream that captures them, if there is one.
    ``lag_seconds`` is the age of the oldest change that is not consumed (0: no such change). The
    counts are ``None`` if the stream cannot be read.
    """

    kind: AlertKind
    objective: Objective
    reason: str
    stream: str
    stream_id: str
    source: str
    upsert_table: str | None
    change_stream: str | None
    lag_commits: int | None
    lag_bytes: int | None
    lag_seconds: float
    stale_after: datetime
    last_consumer: str | None
    at: datetime

    @property
    def sentence(self) -> str:
        """What the alert reports, about which stream or upsert table, and why."""
        subject = f"stream {self.stream} on {self.source}"
        if self.upsert_table is not None:
            subject = f"upsert table {self.upsert_table}"
        elif self.change_stream is not None:
            subject = f"change stream {self.change_stream} on {self.source}"
        return f"{self.objective.value} {self.kind.value} of {subject}: {self.reason}"

    @property
    def details(self) -> str:
        """How much waits, when the stream goes stale, and who consumed last."""
        waits = "nothing waits"
        if self.lag_commits is None or self.lag_bytes is None:
            waits = "the waiting changes are unknown"
        elif self.lag_commits:
            age = length_text(timedelta(seconds=int(self.lag_seconds)))
            commits, size = counted(self.lag_commits, "commit"), decimal(self.lag_bytes)
            waits = f"{commits} with {size} wait, the oldest for {age}"
        moment = f"{self.stale_after.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
        consumer = (
            f"last consumed by {self.last_consumer}" if self.last_consumer else "not consumed yet"
        )
        return f"{waits}; stale after {moment}; {consumer}"


def alert_kind(before: ObjectiveStatus, now: ObjectiveStatus) -> AlertKind | None:
    """The alert about an objective whose status was ``before`` at the last alert and is ``now``.

    ``None``: no alert. If an objective was breached and is at risk now, the alert is a warning.
    """
    if before is now:
        return None
    kinds = {
        ObjectiveStatus.MET: AlertKind.RECOVERY,
        ObjectiveStatus.AT_RISK: AlertKind.WARNING,
        ObjectiveStatus.BREACHED: AlertKind.BREACH,
    }
    return kinds[now]
