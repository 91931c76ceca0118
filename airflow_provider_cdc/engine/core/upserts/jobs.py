"""The jobs of upsert tables, and how much they used (seed 004)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

HELD_CHANGES = "heldChanges"
LATE_CHANGES = "lateChanges"
"""What an apply adds to the metrics of its MERGE: how many changes are in quarantine after it,
because they are bad or wait for a bad one, and because they are late.
"""


class JobClass(StrEnum):
    """The three classes of jobs (seed 004): what applies changes in the background, what reads the
    base alone, and what merges waiting changes while it reads.
    """

    BACKGROUND_APPLY = "background apply"
    QUERY = "query"
    RUN_TIME_MERGE = "run-time merge"


@dataclass(frozen=True, slots=True)
class Job:
    """One job: ``rows`` are the changes that it applied or merged, ``read_bytes`` those of files of
    the base and of changes that it had to read at most, ``slot_ms`` the milliseconds that its tasks
    took together (``None``: nobody measured).
    """

    job_id: str
    job_class: JobClass
    table: str
    started_at: datetime
    ended_at: datetime
    rows: int
    read_bytes: int
    slot_ms: int | None
    principal: str


@dataclass(frozen=True, slots=True)
class Usage:
    """What the jobs of one class used in one period, of each job the share of its time that lies in
    it: ``jobs`` ran in it, and ``slots`` is how many were busy on average over the period.
    """

    period_start: datetime
    job_class: JobClass
    jobs: int
    seconds: float
    read_bytes: int
    slots: float


@dataclass(frozen=True, slots=True)
class _Share:
    """The part of a job that lies in one period."""

    seconds: float
    read_bytes: float
    slot_ms: float


def usage(jobs: Iterable[Job], period: timedelta, since: datetime) -> list[Usage]:
    """What jobs used, by period and class, the newest period first; without the periods that ended
    before ``since``.

    Seed 004: the slots of a period are its slot time by its length.
    """
    length = period.total_seconds()
    found: dict[tuple[float, JobClass], list[_Share]] = defaultdict(list)
    for job in jobs:
        for start, share in _shares(job, length):
            if start + length > since.timestamp():
                found[start, job.job_class].append(share)
    return [
        Usage(
            datetime.fromtimestamp(start, UTC),
            job_class,
            len(shares),
            sum(share.seconds for share in shares),
            round(sum(share.read_bytes for share in shares)),
            sum(share.slot_ms for share in shares) / 1000 / length,
        )
        for (start, job_class), shares in sorted(
            found.items(), key=lambda item: (-item[0][0], item[0][1])
        )
    ]


def _shares(job: Job, length: float) -> Iterator[tuple[float, _Share]]:
    """The beginning of each period that a job ran in, and its share in it."""
    began, ended = job.started_at.timestamp(), job.ended_at.timestamp()
    start = began // length * length
    while start == began // length * length or start < ended:
        seconds = max(0.0, min(ended, start + length) - max(began, start))
        part = seconds / (ended - began) if ended > began else 1.0
        yield start, _Share(seconds, job.read_bytes * part, (job.slot_ms or 0) * part)
        start += length
