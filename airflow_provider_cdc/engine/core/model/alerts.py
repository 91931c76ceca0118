"""The alerts about streams that lag or go stale, and about upsert tables whose quarantine fills.

An alert is sent when a state changes, and only then.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from rich.filesize import decimal

from ..figures import counted, length_text


class Promise(StrEnum):
    """What a stream can break: not to go stale, and not to lag beyond its own ``max_lag``.

    The stream of an upsert table also promises that the table applies all that it takes, and keeps
    nothing in quarantine.
    """

    STALENESS = "staleness"
    LAG = "lag"
    QUARANTINE = "quarantine"


class Standing(StrEnum):
    """The state of a promise: kept, about to be broken, broken."""

    KEPT = "kept"
    NEAR = "near"
    BROKEN = "broken"


class AlertKind(StrEnum):
    """What an alert reports: a promise is about to be broken, is broken, or is kept again."""

    WARNING = "warning"
    MISS = "miss"
    RECOVERY = "recovery"


@dataclass(frozen=True, slots=True)
class Finding:
    """The state of one promise of a stream, and why."""

    promise: Promise
    standing: Standing
    reason: str


@dataclass(frozen=True, slots=True)
class Alert:
    """One notification.

    ``upsert_table`` is the table whose changes the stream is on, if there is one. ``lag_seconds``
    is the age of the oldest change that is not consumed (0: no such change). The counts are
    ``None`` if the stream cannot be read.
    """

    kind: AlertKind
    promise: Promise
    reason: str
    stream: str
    stream_id: str
    source: str
    upsert_table: str | None
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
        return f"{self.promise.value} {self.kind.value} of {subject}: {self.reason}"

    @property
    def details(self) -> str:
        """How much waits, when the stream goes stale, and who consumed last."""
        waits = "nothing waits"
        if self.lag_commits is None or self.lag_bytes is None:
            waits = "what waits cannot be told"
        elif self.lag_commits:
            age = length_text(timedelta(seconds=int(self.lag_seconds)))
            commits, size = counted(self.lag_commits, "commit"), decimal(self.lag_bytes)
            waits = f"{commits} with {size} wait, the oldest for {age}"
        moment = f"{self.stale_after.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
        consumer = (
            f"last consumed by {self.last_consumer}" if self.last_consumer else "not consumed yet"
        )
        return f"{waits}; stale after {moment}; {consumer}"


def kind_of(before: Standing, now: Standing) -> AlertKind | None:
    """The alert about a promise whose state was ``before`` at the last alert and is ``now``.
    ``None``: no alert.

    A broken promise that is only near to it now gives a warning.
    """
    if before is now:
        return None
    kinds = {
        Standing.KEPT: AlertKind.RECOVERY,
        Standing.NEAR: AlertKind.WARNING,
        Standing.BROKEN: AlertKind.MISS,
    }
    return kinds[now]
