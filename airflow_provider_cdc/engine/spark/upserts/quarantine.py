"""The quarantine of upsert tables: the changes that cannot be applied."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ...core.names import quote, spark_literal
from ...core.upserts.change_rows import BATCH, INGESTED_AT, ORDER, reason
from ...core.upserts.definition import UpsertTable
from ...core.upserts.diversion import REDRIVE, Memory, is_late, releasable
from ...storage.delta.delta_log import DeltaLog
from ...storage.delta.table_snapshots import newest_snapshot
from ...storage.files.stores import Files
from ..session.idempotent_writes import plain_write
from .writing import write_again

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Quarantined:
    """How many changes of an upsert table are in quarantine. Redriven changes are not counted.

    ``late`` changes came too late. ``held`` changes are bad, or wait for a bad one. ``held_since``
    is the time when the write of the oldest change that is not late began. It includes redriven
    changes until they are applied.
    """

    held: int = 0
    late: int = 0
    held_since: datetime | None = None


class Quarantine:
    """The quarantines of upsert tables."""

    def __init__(self, spark: SparkSession, files: Files) -> None:
        self._spark = spark
        self._files = files

    def memory(self, table: UpsertTable, *, pinned: bool = False) -> Memory:
        """The relations that decide which changes of ``table`` go to quarantine.

        :param pinned: name their current versions, so that a later read finds the same rows
        """
        return Memory(
            self._relation(table.quarantine, pinned=pinned),
            self._relation(table.deletes, pinned=pinned),
        )

    def holds(self, relation: str) -> bool:
        """Whether a change in quarantine blocks others. Late changes do not block others.

        :param relation: the quarantine, as :meth:`memory` names it
        """
        found = self._spark.sql(f"SELECT 1 FROM {relation} WHERE NOT {is_late()} LIMIT 1")
        return found.head() is not None

    def counted(self, table: UpsertTable) -> Quarantined:
        """How many changes are in quarantine."""
        relation = self._relation(table.quarantine, pinned=False)
        if relation is None:
            return Quarantined()
        found = self._spark.sql(
            f"SELECT count_if(NOT {is_late()} AND {REDRIVE} IS NULL),"
            f" count_if({is_late()} AND {REDRIVE} IS NULL),"
            # A timestamp would be converted to the time zone of this process.
            f" unix_micros(min({INGESTED_AT}) FILTER (WHERE NOT {is_late()})) FROM {relation}"
        ).head()
        if found is None:
            return Quarantined()
        held, late, since = found
        return Quarantined(held, late, None if since is None else _EPOCH + since * _MICROSECOND)

    def mark(self, table: UpsertTable, *, late: bool) -> None:
        """Mark the changes that can be applied now, in one commit."""
        relation = self._relation(table.quarantine, pinned=False)
        if relation is None:
            return
        found = releasable(table, relation, reason(table), late=late)
        with plain_write(self._spark):
            self._spark.sql(
                f"MERGE INTO {relation} AS t USING ({found}) AS c"
                f" ON t.{BATCH} = c.{BATCH} AND t.{ORDER} = c.{ORDER}"
                f" WHEN MATCHED THEN UPDATE SET {REDRIVE} = {spark_literal(uuid.uuid4().hex)}"
            )

    def release(self, table: UpsertTable) -> int:
        """Let the marked changes wait with the others again, and return their number.

        Each mark is released once. A change leaves the quarantine when it is applied.

        :param table: the table as looked up after :meth:`mark`, because the changes may have values
            in all its columns
        """
        relation = self._relation(table.quarantine, pinned=False)
        if relation is None:
            return 0
        marked = self._spark.sql(f"SELECT * FROM {relation} WHERE {REDRIVE} IS NOT NULL")
        changes, released = DeltaLog(table.changes, self._files), 0
        for redrive, count in marked.groupBy(REDRIVE).count().collect():
            before = changes.latest_version()
            write_again(table, marked.where(F.col(REDRIVE) == redrive), redrive)
            released += count if changes.latest_version() > before else 0
        return released

    def _relation(self, location: str, *, pinned: bool) -> str | None:
        found = newest_snapshot(location, self._files)
        if not found.files:
            return None
        version = f" VERSION AS OF {found.version}" if pinned else ""
        return f"delta.{quote(location)}{version}"
