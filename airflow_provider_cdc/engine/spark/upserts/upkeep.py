"""What an upsert table no longer needs goes: old tombstones, and changes applied long ago."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from pyspark.sql import SparkSession

from ...core.names import quote
from ...core.upserts.definition import UpsertTable
from ...core.upserts.purging import forget_text, purge_text, remember_text
from ...storage.delta_log import DeltaLog
from ...storage.files import Files

log = logging.getLogger(__name__)

CHANGES_KEPT_FOR = timedelta(days=7)
"""How long changes stay after they were ingested; Delta keeps their files as long again."""

_PER_HORIZON = 8


class Upkeep:
    """The upkeep of upsert tables, now and then, by whoever has applied changes."""

    def __init__(self, spark: SparkSession, files: Files, clock: Callable[[], datetime]) -> None:
        self._spark = spark
        self._files = files
        self._clock = clock

    def run_when_due(self, table: UpsertTable) -> None:
        """End the tombstones that are older than the table's horizon, which are remembered first,
        and remove old changes. What fails is logged, and done later.

        The stream on the changes returns what was inserted, also where it was removed since, until
        VACUUM takes its file; and that waits as long as streams need files.
        """
        now = self._clock()
        remembered = DeltaLog(table.deletes, self._files)
        last = remembered.commit(remembered.latest_version()).timestamp
        if now - last < table.tombstone_horizon / _PER_HORIZON:
            return
        before = now - table.tombstone_horizon
        changes = f"delta.{quote(table.changes)}"
        try:
            for text in (
                remember_text(table, f"delta.{quote(table.deletes)}", before),
                purge_text(table, before),
                forget_text(changes, now - CHANGES_KEPT_FOR),
                f"VACUUM {changes}",
            ):
                self._spark.sql(text)
        except Exception as error:
            # Most likely somebody else changes the table.
            log.warning("The upkeep of %s was put off: %s", table.name, error)
