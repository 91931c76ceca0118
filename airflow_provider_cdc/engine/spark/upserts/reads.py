"""Read an upsert table as of the last apply, or merge the waiting changes into the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyspark.sql import DataFrame, SparkSession

from ...catalog.stream_status import StreamStatus
from ...core.delta.log_actions import Commit
from ...core.delta.table_snapshot import TableSnapshot
from ...core.model.stream import Stream
from ...core.upserts.change_rows import are_few, in_order, write_begins
from ...core.upserts.definition import UpsertTable
from ...core.upserts.diversion import Memory, accepted, may_divert
from ...core.upserts.job_records import JobClass
from ...core.upserts.merge_sql import fresh_rows, live_rows
from ...core.upserts.newer_changes import are_newer
from ...core.upserts.partial_changes import partial_fresh_rows
from ...storage.sources.source_log import SourceLog
from ..reading.stream_reader import StreamReader
from ..session.session_settings import any_version, may_broadcast
from .quarantine import Quarantine
from .upsert_tables import UpsertTables

# The placeholder of the DataFrame in the text of a query.
_ROWS = "\0rows\0"


@dataclass(frozen=True, slots=True)
class TableRead:
    """The rows of a read, and the class of the job that reads them.

    ``table`` is the name that the table had at creation. ``merged`` are the commits of the waiting
    changes that the read merges into the rows. ``base`` is the snapshot of the base, if the read
    needed it.
    """

    table: str
    rows: DataFrame
    job_class: JobClass
    merged: tuple[Commit, ...] = ()
    base: TableSnapshot | None = None


class Reads:
    """Reads upsert tables as fresh as their ``max_staleness`` asks (BigQuery CDC)."""

    def __init__(
        self,
        spark: SparkSession,
        tables: UpsertTables,
        quarantine: Quarantine,
        sources: SourceLog,
        reader: StreamReader,
        clock: Callable[[], datetime],
    ) -> None:
        self._spark = spark
        self._tables = tables
        self._quarantine = quarantine
        self._sources = sources
        self._reader = reader
        self._clock = clock

    def read(self, table: UpsertTable, stream: Stream, status: StreamStatus) -> TableRead:
        """The rows of ``table``.

        :param stream: on its changes, read before this call
        :param status: the status of ``stream``, read after ``stream``
        """
        # The order of these reads matters. A change that is applied between them is in the base, is
        # merged, or both: the result is the same. A change that is written later is in neither. A
        # change that leaves the quarantine between them is among the waiting changes.
        named = stream.upsert_table or table.name
        if self._is_fresh_enough(table, status):
            return TableRead(named, self._spark.sql(live_rows(table)), JobClass.QUERY)
        memory = self._quarantine.memory(table, pinned=True)
        base, span = self._tables.snapshot(table), self._sources.span(stream)
        files = span.tables[0].added_files
        is_plain = memory == Memory() and not may_divert(files)
        few = are_few(table, files) and may_broadcast(self._spark)
        changes = accepted(table, _ROWS, memory)
        if is_plain:
            changes = in_order(table, _ROWS, begins=write_begins(span.tables[0].commits))
        if table.has_partial_changes:
            text = partial_fresh_rows(table, changes, base.version, are_few=few)
        else:
            newer = None
            if are_newer(files, base.files):
                newer = _ROWS if is_plain else f"({changes})"
            text = fresh_rows(table, changes, base.version, are_few=few, newer=newer)
        rows = _query_over(self._spark, text, self._reader.read(span).rows)
        return TableRead(named, rows, JobClass.RUN_TIME_MERGE, span.tables[0].commits, base)

    def _is_fresh_enough(self, table: UpsertTable, status: StreamStatus) -> bool:
        if status.behind_since is None:
            return True
        longest = table.max_staleness
        age = self._clock() - status.behind_since
        # If the time is in the future, a clock was ahead, and the age of the change is unknown.
        return longest is not None and timedelta(0) <= age <= longest


def _query_over(spark: SparkSession, text: str, rows: DataFrame) -> DataFrame:
    """The result of the query ``text``, in which ``_ROWS`` is the relation ``rows``."""
    # Spark reads a name in braces as a DataFrame. All other braces must be doubled.
    escaped = text.replace("{", "{{").replace("}", "}}")
    with any_version(spark):
        return spark.sql(escaped.replace(_ROWS, "{rows}"), rows=rows)
