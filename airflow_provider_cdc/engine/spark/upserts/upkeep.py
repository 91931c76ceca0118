"""Remove what an upsert table no longer needs: old tombstones, and changes applied long ago."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from pyspark.sql import SparkSession

from ...core.names import quote
from ...core.upserts.definition import UpsertTable
from ...core.upserts.purging import forget_text, purge_text, remember_text
from ...storage.files.due_marks import DueMarks
from ...storage.files.stores import Files
from ..session.idempotent_writes import plain_write

log = logging.getLogger(__name__)

CHANGES_KEPT_FOR = timedelta(days=7)
"""How long changes stay after they were ingested. Delta then keeps their files equally long."""


class Upkeep:
    """The upkeep of upsert tables. A caller that applied changes runs it when it is due."""

    def __init__(self, spark: SparkSession, files: Files, clock: Callable[[], datetime]) -> None:
        self._spark = spark
        self._clock = clock
        self._marks = DueMarks(files, clock)

    def run_when_due(self, table: UpsertTable) -> None:
        """End tombstones and remove old changes, unless this was done recently.

        A failure is logged, and a later call does the work.

        An upkeep first records a hash of each tombstone that is older than the table's horizon in
        the table of deletes. The next upkeep ends the tombstone. So a concurrent apply finds the
        delete in one of the two places.

        The stream on the changes returns an inserted change even after it was removed, until VACUUM
        removes its file. VACUUM waits as long as streams need files.
        """
        try:
            if self._marks.is_due(table.location, table.tombstone_horizon):
                self._run(table)
        except Exception as error:
            # The most likely cause is a concurrent change of the table.
            log.warning("The upkeep of %s was postponed: %s", table.name, error)

    def _run(self, table: UpsertTable) -> None:
        now = self._clock()
        deletes, changes = f"delta.{quote(table.deletes)}", f"delta.{quote(table.changes)}"
        for text in (
            purge_text(table, deletes),
            remember_text(table, deletes, now - table.tombstone_horizon),
            forget_text(changes, now - CHANGES_KEPT_FOR),
            f"VACUUM {changes}",
        ):
            with plain_write(self._spark):
                self._spark.sql(text)
        self._marks.note(table.location, now)
