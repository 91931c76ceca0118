"""The jobs of upsert tables, and how much they used (seed 004)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
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
    """What the jobs of one class used that started in one period: ``slots`` is how many were busy
    on average over the period.
    """

    period_start: datetime
    job_class: JobClass
    jobs: int
    seconds: float
    read_bytes: int
    slots: float


def usage(jobs: Iterable[Job], period: timedelta) -> list[Usage]:
    """What jobs used, by period and class, the newest period first.

    Seed 004: the slots of a period are its slot time by its length.
    """
    found: dict[tuple[datetime, JobClass], list[Job]] = defaultdict(list)
    for job in jobs:
        start = datetime.fromtimestamp(
            job.started_at.timestamp() // period.total_seconds() * period.total_seconds(), UTC
        )
        found[start, job.job_class].append(job)
    return [
        Usage(
            start,
            job_class,
            len(group),
            sum((job.ended_at - job.started_at).total_seconds() for job in group),
            sum(job.read_bytes for job in group),
            sum(job.slot_ms or 0 for job in group) / 1000 / period.total_seconds(),
        )
        for (start, job_class), group in sorted(
            found.items(), key=lambda item: (-item[0][0].timestamp(), item[0][1])
        )
    ]
