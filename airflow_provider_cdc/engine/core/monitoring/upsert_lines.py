"""What the page of streams shows of an upsert table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ..upserts.job_records import Job


@dataclass(frozen=True, slots=True)
class JobUse:
    """The jobs of one class of a table within :data:`USED_WITHIN`: how many ran, and the seconds of
    their median and of the longest.
    """

    job_class: str
    jobs: int
    median_seconds: float
    longest_seconds: float


@dataclass(frozen=True, slots=True)
class UpsertLine:
    """The status of an upsert table, whose changes wait in the stream ``stream_id``.

    Every change up to ``watermark`` is applied or in quarantine (``None``: unknown).
    ``quarantined_changes`` is ``None`` if the log of the quarantine does not show it.
    ``recommended_max_staleness_seconds`` is the least that its applies can be expected to keep
    (``None``: there was no apply yet).
    """

    name: str
    stream_id: str
    max_staleness_seconds: float | None
    watermark: datetime | None
    pending_since: datetime | None
    pending_commits: int | None
    pending_bytes: int | None
    quarantined_changes: int | None
    recommended_max_staleness_seconds: float | None
    jobs: tuple[JobUse, ...]
    problem: str | None


USED_WITHIN = timedelta(days=1)
"""The time before a check whose jobs a line counts."""


def job_uses(jobs: Iterable[Job]) -> dict[str, tuple[JobUse, ...]]:
    """The jobs of each table, by its class."""
    seconds: dict[str, dict[str, list[float]]] = {}
    for job in jobs:
        took = (job.ended_at - job.started_at).total_seconds()
        seconds.setdefault(job.table, {}).setdefault(job.job_class.value, []).append(took)
    return {
        table: tuple(_use(job_class, took) for job_class, took in sorted(classes.items()))
        for table, classes in seconds.items()
    }


def _use(job_class: str, took: Sequence[float]) -> JobUse:
    ordered = sorted(took)
    return JobUse(job_class, len(ordered), ordered[len(ordered) // 2], ordered[-1])
