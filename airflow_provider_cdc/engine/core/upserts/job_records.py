"""The jobs of upsert tables, and how much they used (BigQuery CDC)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

HELD_CHANGES = "heldChanges"
LATE_CHANGES = "lateChanges"
"""The metrics that an apply adds to those of its MERGE: the number of changes in quarantine after
the apply. ``HELD_CHANGES`` counts the changes that are bad or wait for a bad one. ``LATE_CHANGES``
counts the late changes.
"""


class JobClass(StrEnum):
    """The three classes of jobs (BigQuery CDC).

    A background apply applies changes, a query reads only the base, and a run-time merge merges
    waiting changes while it reads.
    """

    BACKGROUND_APPLY = "background apply"
    QUERY = "query"
    RUN_TIME_MERGE = "run-time merge"


@dataclass(frozen=True, slots=True)
class Job:
    """One job.

    ``rows`` counts the changes that it applied or merged. ``read_bytes`` is an upper limit of what
    it had to read: the bytes of the files of the base and of changes. ``slot_ms`` is the time that
    all its tasks took together, in milliseconds (``None``: not measured).
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
    """What the jobs of one class used in one period.

    Each job counts by the share of its time that is in the period. ``jobs`` is how many jobs ran in
    it. ``slots`` is how many slots were busy on average over the period.
    """

    period_start: datetime
    job_class: JobClass
    jobs: int
    seconds: float
    read_bytes: int
    slots: float


@dataclass(frozen=True, slots=True)
class _Share:
    """The part of a job in one period."""

    seconds: float
    read_bytes: float
    slot_ms: float


def usage(jobs: Iterable[Job], period: timedelta, since: datetime) -> list[Usage]:
    """Return what jobs used, by period and class, with the newest period first.

    Periods that ended before ``since`` are left out. BigQuery CDC: the slots of a period are its
    slot time divided by its length.
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
    """The start of each period that a job ran in, and the job's share in it."""
    began, ended = job.started_at.timestamp(), job.ended_at.timestamp()
    start = began // length * length
    while start == began // length * length or start < ended:
        seconds = max(0.0, min(ended, start + length) - max(began, start))
        part = seconds / (ended - began) if ended > began else 1.0
        yield start, _Share(seconds, job.read_bytes * part, (job.slot_ms or 0) * part)
        start += length
