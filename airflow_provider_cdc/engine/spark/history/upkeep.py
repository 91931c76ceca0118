"""Lets the memory of a history target forget what is older than its horizon."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import SparkSession

from ...core.history.memory_sql import forget_text
from ...core.names import quote
from ...storage.files.best_effort import log_failures
from ...storage.files.due_marks import DueMarks
from ...storage.files.stores import Files
from ..session.idempotent_writes import plain_write
from .history_target import HistoryTarget


@dataclass(frozen=True, slots=True)
class HistoryUpkeep:
    """The upkeep of history targets. A caller that applied events runs it when it is due."""

    spark: SparkSession
    files: Files
    clock: Callable[[], datetime]

    def run_when_due(self, target: HistoryTarget) -> None:
        """Forget what is older than the horizon, unless this was done recently.

        A failure is logged, and a later call does the work.
        """
        horizon = target.options.tombstone_horizon
        if horizon is None or not target.shape.remembers or not target.has_memory(self.files):
            return
        marks = DueMarks(self.files, self.clock)
        with log_failures(f"forgetting events of {target.name}", logging.WARNING):
            if not marks.is_due(target.table.location, horizon):
                return
            now = self.clock()
            memory = f"delta.{quote(target.memory)}"
            text = forget_text(target.shape, memory, target.sql, now, horizon)
            with plain_write(self.spark):
                self.spark.sql(text)
            marks.note(target.table.location, now)
