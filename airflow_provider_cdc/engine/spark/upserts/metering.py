"""Record the jobs of upsert tables: when they ran, how much they did, and their task time."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from ...core.upserts.job_records import Job, JobClass
from ...storage.state.job_history import JobHistory


@dataclass
class Figures:
    """The figures of a job that are measured while it runs; see :class:`Job`."""

    rows: int = 0
    read_bytes: int = 0


class Metering:
    """Records jobs in the history of a state folder.

    :param slot_meter: returns the milliseconds that the tasks of the application have taken so far
    :param principal: the principal that runs the jobs
    """

    def __init__(
        self,
        history: JobHistory,
        clock: Callable[[], datetime],
        slot_meter: Callable[[], int] | None,
        principal: str,
    ) -> None:
        self._history = history
        self._clock = clock
        self._slot_meter = slot_meter
        self._principal = principal

    @contextmanager
    def job(self, table: str, job_class: JobClass) -> Iterator[Figures]:
        """Record the block as one job, unless it fails."""
        figures, started_at, before = Figures(), self._clock(), self._slot_milliseconds()
        yield figures
        after = self._slot_milliseconds()
        slot_ms = None if after is None or before is None else after - before
        ended_at = self._clock()
        self._history.record(
            Job(
                uuid.uuid4().hex,
                job_class,
                table,
                started_at,
                ended_at,
                figures.rows,
                figures.read_bytes,
                slot_ms,
                self._principal,
            )
        )

    def _slot_milliseconds(self) -> int | None:
        return None if self._slot_meter is None else self._slot_meter()
