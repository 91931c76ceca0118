"""The status of all streams of a state folder at one moment, as the monitor of streams keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ..model.alerts import Alert
from ..model.provenance import Provenance
from .change_stream_lines import ChangeStreamLine
from .conditions import Condition
from .upsert_lines import UpsertLine


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do about the condition of a stream: a sentence, and the code that does it, if code
    can.
    """

    text: str
    code: str | None = None


@dataclass(frozen=True, slots=True)
class TableLine:
    """The status of a stream for one table that it reads. ``location`` has no credentials."""

    table: str
    location: str
    offset_version: int
    latest_version: int | None
    commits_behind: int | None
    bytes_behind: int | None
    problem: str | None


@dataclass(frozen=True, slots=True)
class VerificationLine:
    """What the last check of a target found. ``verified_through`` is the newest version of the
    source that a check found the target equal to.
    """

    target: str
    verified_through: int | None
    checked_at: datetime
    checked_version: int
    differing_keys: int


@dataclass(frozen=True, slots=True)
class PlanLine:
    """How the change set would be read at the check, and why."""

    strategy: str
    file_count: int
    size_bytes: int
    commit_count: int
    reason: str


@dataclass(frozen=True, slots=True)
class OpenConsumption:
    """A consumption that has begun and is neither committed nor aborted."""

    consumption_id: str
    consumer: str
    begun_at: datetime
    attempts: int


@dataclass(frozen=True, slots=True)
class StreamLine:
    """What the page of streams shows of one stream.

    ``waiting_since`` is the time of the oldest commit with data that is not consumed. ``problem``
    is the reason of the condition, if an objective is not met. ``condition_since`` is the first
    check that found this condition. ``plan`` is set if changes wait.
    """

    stream_id: str
    name: str
    source: str | None
    mode: str | None
    condition: Condition
    condition_since: datetime
    problem: str | None
    advice: Advice | None
    commits_behind: int | None
    bytes_behind: int | None
    waiting_since: datetime | None
    max_lag_seconds: float | None
    stale_after: datetime
    kept_until: datetime
    complete_through: datetime | None
    created_at: datetime | None
    last_consumed_at: datetime | None
    last_consumer: str | None
    owner: str | None
    comment: str | None
    consumption: OpenConsumption | None
    upsert_table: str | None
    change_stream: str | None
    tables: tuple[TableLine, ...]
    verifications: tuple[VerificationLine, ...] = ()
    plan: PlanLine | None = None


@dataclass(frozen=True, slots=True)
class TargetLine:
    """Which versions of their sources a target holds. ``location`` has no credentials. Of the
    versions that name no source, only the newest are kept. ``written_version`` is what the last
    consumption wrote. ``fingerprint`` is that of the newest commit that was read.
    """

    target: str
    location: str
    provenance: Provenance
    written_version: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class StatusSnapshot:
    """What a run of the monitor found.

    ``lines`` are sorted by trouble, the worst first. ``alerts`` are the last ones that were sent,
    the newest first. ``omitted`` says what else could not be read.
    """

    as_of: datetime
    lines: tuple[StreamLine, ...]
    alerts: tuple[Alert, ...]
    upsert_tables: tuple[UpsertLine, ...] = ()
    change_streams: tuple[ChangeStreamLine, ...] = ()
    targets: tuple[TargetLine, ...] = ()
    omitted: tuple[str, ...] = ()
