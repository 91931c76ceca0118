"""The part of the engine for upsert tables: it writes, applies and reads changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TypeVar

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from ...catalog.stream_catalog import StreamCatalog
from ...catalog.stream_status import StreamStatus
from ...catalog.upsert_jobs import apply_watermark, recent_durations
from ...catalog.upsert_status import UpsertTableStatus
from ...core.arguments.choices import parse_enum
from ...core.arguments.intervals import interval_if_given, interval_of, interval_text, period_of
from ...core.arguments.validation import KEPT, Kept, validated
from ...core.errors import InvalidRequest, StreamNotFound, StreamStale, TableNotFound
from ...core.model.outcomes import Outcome
from ...core.model.stream import Stream
from ...core.upserts.apply_schedule import recommended_max_staleness
from ...core.upserts.definition import TOMBSTONE_HORIZON, OnBadRows, UpsertTable
from ...core.upserts.job_records import JobClass, Usage, usage
from ...core.upserts.write_result import WriteResult
from ...storage.delta.change_writes import result_of_write
from ...storage.files.stores import Files, store_key
from ...storage.state.apply_times import ApplyTimes
from .applying import BASE_BYTES_READ, Applying
from .dropping import Dropping
from .metering import Metering
from .quarantine import Quarantine
from .reads import Reads, TableRead
from .table_definitions import TableDefinitions
from .upkeep import Upkeep
from .upsert_tables import UpsertTables
from .writing import change_sink, write_changes

_WEEK = timedelta(days=7)

Result = TypeVar("Result")


@validated
class Upserting:
    """Tables whose changes are written first, and are applied later or merged into a read."""

    def __init__(
        self,
        catalog: StreamCatalog,
        tables: UpsertTables,
        definitions: TableDefinitions,
        dropping: Dropping,
        quarantine: Quarantine,
        applying: Applying,
        reads: Reads,
        metering: Metering,
        upkeep: Upkeep,
        apply_times: ApplyTimes,
        files: Files,
        clock: Callable[[], datetime],
    ) -> None:
        self._catalog = catalog
        self._upsert_tables = tables
        self._definitions = definitions
        self._dropping = dropping
        self._quarantine = quarantine
        self._applying = applying
        self._reads = reads
        self._metering = metering
        self._upkeep = upkeep
        self._apply_times = apply_times
        self._files = files
        self._clock = clock

    def create_upsert_table(
        self,
        name: str,
        schema: StructType | str,
        primary_key: str | Sequence[str],
        *,
        max_staleness: timedelta | str | None = None,
        tombstone_horizon: timedelta | str = TOMBSTONE_HORIZON,
        cluster_by: str | Collection[str] | None = None,
        partial_changes: bool = False,
        if_not_exists: bool = False,
    ) -> UpsertTable:
        """Create a table whose changes are upserted by a primary key (BigQuery CDC).

        The Delta table ``<name>__base`` holds the rows, and its properties record the arguments.
        ``name`` is a view of it that shows the data columns of the rows that were not deleted. If
        ``name`` is a path, the base is at that path, and :meth:`read_upsert_table` reads it. To
        finish a call that was killed, call this method again with ``if_not_exists``.

        :param schema: the data columns, as DDL or a ``StructType``; at most 2,000 columns
        :param primary_key: 1 to 16 columns; the writer of changes must ensure that they identify a
            row
        :param max_staleness: how far a read may be behind what was written, as
            ``INTERVAL 10 MINUTE``, ``PT10M`` or a ``timedelta``; ``None``: every read is fresh
        :param tombstone_horizon: how long a delete is remembered for changes that come late
        :param cluster_by: the columns that the base is clustered by; by default the first 4 columns
            of the key
        :param partial_changes: whether a change may leave columns unchanged
            (:meth:`write_changes`). The base then keeps a sequence number for each column that is
            older than its row, and changes are compared column by column
        :param if_not_exists: an existing table is not an error; it keeps its definition
        :raises InvalidRequest: the schema, the key or an interval is not valid
        :raises TableExists: the table exists, and ``if_not_exists`` is false
        """
        return self._definitions.create(
            name,
            schema,
            primary_key,
            max_staleness=max_staleness,
            tombstone_horizon=tombstone_horizon,
            cluster_by=cluster_by,
            partial_changes=partial_changes,
            if_not_exists=if_not_exists,
        )

    def alter_upsert_table(
        self,
        name: str,
        *,
        max_staleness: timedelta | str | Kept | None = KEPT,
        tombstone_horizon: timedelta | str | Kept = KEPT,
    ) -> None:
        """Change the intervals of an upsert table. An interval that is not given stays unchanged.

        The monitor of streams sends an alert when a change has waited longer than
        ``max_staleness``.

        :param max_staleness: how far a read may be behind what was written; ``None``: every read is
            fresh
        :param tombstone_horizon: how long a delete is remembered. A longer horizon does not restore
            a delete that was forgotten under a shorter one
        :raises TableNotFound: there is no such table
        :raises InvalidRequest: it is not an upsert table, or an interval is not valid
        :raises StreamConflict: changes are being applied; nothing was changed
        """
        longest = interval_if_given(max_staleness, "max_staleness")
        horizon = interval_if_given(tombstone_horizon, "tombstone_horizon")
        table = self._writable(name)
        self._catalog.alter_stream(table.stream, max_lag=longest)
        self._definitions.alter(table, longest, horizon)

    def add_columns(self, name: str, schema: StructType | str) -> UpsertTable:
        """Add columns to an upsert table and to its view.

        The new columns are NULL in existing rows and in waiting changes. Existing columns stay
        unchanged, so the next call finishes a call that was killed. A concurrent write may fail, as
        with any Delta table that is altered.

        :param schema: the columns, as DDL or a ``StructType``
        :raises TableNotFound: there is no such table
        :raises InvalidRequest: it is not an upsert table, it has a column of that name with another
            type, or the schema breaks a rule of :meth:`create_upsert_table`; nothing was altered
        """
        return self._definitions.add_columns(name, schema)

    def drop_upsert_table(self, name: str, *, if_exists: bool = False) -> None:
        """Drop an upsert table with its view, its stream and its files.

        The files of an external base stay. The next call finishes a call that was killed.

        :param if_exists: a missing table is not an error
        :raises TableNotFound: there is no such table
        :raises InvalidRequest: it is not an upsert table
        :raises StreamConflict: changes are being applied; nothing was dropped
        """
        if self._dropping.is_half_dropped(name):
            self._dropping.remove_rest(name)
            return
        try:
            table = self._upsert_tables.whole(name)
        except TableNotFound:
            if if_exists:
                return
            raise
        with suppress(StreamNotFound):
            # A copied table names the stream of its original. That stream must stay.
            if _is_on(self._catalog.get_stream(table.stream), table):
                self._catalog.drop_stream(table.stream)
        self._dropping.drop(table)

    def describe_upsert_table(self, name: str) -> UpsertTableStatus:
        """The status of an upsert table.

        :raises TableNotFound: there is no such table
        :raises InvalidRequest: it is not an upsert table
        :raises StreamStale: the waiting changes can no longer be determined
        """
        table = self._upsert_tables.get(name)
        stream = self._stream(table)
        status = self._status(table, stream)
        staleness, quarantined = table.max_staleness, self._quarantine.counted(table)
        return UpsertTableStatus(
            name,
            table.location,
            table.primary_key,
            None if staleness is None else interval_text(staleness),
            interval_text(table.tombstone_horizon),
            apply_watermark(stream, status),
            status.behind_since,
            status.commits_behind or 0,
            status.bytes_behind or 0,
            quarantined.held,
            quarantined.held_since,
            quarantined.late,
            table.stream,
        )

    def write_changes(
        self,
        name: str,
        rows: DataFrame,
        *,
        write_id: str | None = None,
        on_bad_rows: OnBadRows | str = OnBadRows.FAIL,
    ) -> WriteResult:
        """Write changes of an upsert table. They wait until they are applied (BigQuery CDC).

        Each row has the columns of the primary key, ``_CHANGE_TYPE`` (UPSERT or DELETE) and, for an
        UPSERT, all values. A column that is not given is NULL. ``_CHANGE_SEQUENCE_NUMBER`` is 1 to
        4 sections of 1 to 16 hexadecimal digits, such as ``FFF/B``. Of two changes of one key, the
        greater number wins. If the numbers are equal, or both are missing, the change that was
        ingested later wins. A change without a number loses to a change with a number.

        In a table with ``partial_changes`` an UPSERT may name columns in the array
        ``_CHANGE_UNCHANGED``. These columns keep their values, and values given for them are
        ignored. The order in which such changes come does not change the result.

        :param write_id: the id of the write; a second write with the same id writes nothing
        :param on_bad_rows: what happens to a bad row: its type is not UPSERT or DELETE, it has no
            key, its sequence number is malformed, or ``_CHANGE_UNCHANGED`` has a wrong name of a
            column. ``fail``: nothing is written. ``quarantine``: the other rows are written, and
            the bad row goes to the table's quarantine. Later changes of its key wait there too
            (:meth:`redrive_changes`)
        :returns: how many changes were written. A repeated write returns what the first one wrote
        :raises InvalidRequest: it is not an upsert table, or a column or a row does not fit;
            nothing was written
        :raises TableNotFound: there is no such table
        """
        table = self._upsert_tables.get(name)
        stream = self._stream_if_registered(table)
        transaction = None if write_id is None else (f"write/{write_id}", 0)
        quarantines = _quarantines(name, on_bad_rows)
        mark = write_changes(table, rows, transaction=transaction, quarantines=quarantines)
        since = 0 if stream is None else stream.offset.version
        return result_of_write(table.changes, self._files, mark, transaction, since=since)

    def change_sink(
        self, name: str, *, query: str, on_bad_rows: OnBadRows | str = OnBadRows.FAIL
    ) -> Callable[[DataFrame, int], None]:
        """Return the function that a Structured Streaming ``foreachBatch`` calls to write changes.

        A batch that is repeated writes nothing.

        :param query: a name that the query keeps as long as its checkpoint. No other query that
            ever wrote to the table may have this name. With a new checkpoint, the numbers of
            batches begin at 0 again, and a batch is left out if one with its number was written
            under the same name
        :param on_bad_rows: as for :meth:`write_changes`
        :raises TableNotFound: there is no such table
        :raises InvalidRequest: it is not an upsert table
        """
        self._writable(name)
        quarantines = _quarantines(name, on_bad_rows)
        return change_sink(lambda: self._writable(name), query, quarantines=quarantines)

    def redrive_changes(self, name: str, *, late: bool = False) -> int:
        """Release the changes in quarantine that can be applied now, and return their number.

        They wait with the other changes again, at their former places. The next
        :meth:`apply_upserts` applies them.

        Before the call, correct or remove a bad change in the table ``<base>/_cdc/quarantine``. A
        change that follows a change of its key that is still bad stays in quarantine.

        :param late: release late changes too: those that are older than a delete whose tombstone
            has ended
        :raises TableNotFound: there is no such table
        :raises InvalidRequest: it is not an upsert table
        """
        self._quarantine.mark(self._writable(name), late=late)
        return self._quarantine.release(self._writable(name))

    def apply_upserts(self, name: str) -> Outcome | None:
        """Apply the waiting changes in one MERGE, exactly once. ``None``: no change waits.

        Only rows that change are rewritten. In a base of 64 MiB or more, files that hold no key of
        a change are not read, if the key begins with a whole number, a date or text, and if this
        saves at least a quarter of the base's bytes. The metrics ``baseBytes`` and
        ``baseBytesRead`` show what share was read. The next call, by any caller, finishes a call
        that was killed. If changes must go into quarantine, a second MERGE moves them there in the
        same consumption. Some calls also end the tombstones that are older than
        ``tombstone_horizon``, and remove the changes that are older than seven days.

        :raises TableNotFound: there is no such table
        :raises InvalidRequest: it is not an upsert table
        :raises StatementFailed: the MERGE failed; the table is unchanged, and the changes wait
        """
        table = self._upsert_tables.get(name)
        stream = self._stream(table)
        if stream.consumption is None and not self._catalog.probe_of(stream).may_have_data:
            self._upkeep.run_when_due(table)
            return None
        named = stream.upsert_table or table.name
        with self._metering.job(named, JobClass.BACKGROUND_APPLY) as job:
            outcome = self._applying.apply(table, stream)
            job.rows = sum(found.rows.get("inserted", 0) for found in outcome.streams)
            job.read_bytes = outcome.statements[-1].metrics[BASE_BYTES_READ]
        self._upkeep.run_when_due(table)
        return outcome

    def read_upsert_table(self, name: str) -> DataFrame:
        """The rows of an upsert table, as fresh as its ``max_staleness`` asks (BigQuery CDC).

        If the oldest waiting change is not older than ``max_staleness``, these are the rows as of
        the last apply. Otherwise, and without ``max_staleness``, the read merges the waiting
        changes: the result is the same as after an apply, and nothing is written.

        :raises TableNotFound: there is no such table
        :raises InvalidRequest: it is not an upsert table
        :raises StreamStale: the waiting changes can no longer be determined
        """
        return self._read(self._upsert_tables.get(name)).rows

    def query_upsert_table(self, name: str, work: Callable[[DataFrame], Result]) -> Result:
        """Return the result of ``work`` on the rows of an upsert table, and record the job.

        The rows are those of :meth:`read_upsert_table`.

        The class of the job is a query of the applied rows, or a run-time merge (BigQuery CDC).

        :raises TableNotFound: there is no such table
        :raises InvalidRequest: it is not an upsert table
        :raises StreamStale: the waiting changes can no longer be determined
        """
        table = self._upsert_tables.get(name)
        found = self._read(table)
        with self._metering.job(found.table, found.job_class) as job:
            for commit in found.merged:
                job.rows += int(commit.metrics.get("numOutputRows", 0))
                job.read_bytes += sum(file.size_bytes for file in commit.adds)
            base = found.base or self._upsert_tables.snapshot(table)
            job.read_bytes += base.size_bytes
            return work(found.rows)

    def upsert_usage(
        self, *, since: timedelta | str = _WEEK, period: timedelta | str = timedelta(hours=1)
    ) -> list[Usage]:
        """The usage of the jobs of upsert tables, by period and class, newest first (BigQuery CDC).

        The Delta table ``upsert_jobs`` of the state folder holds the jobs themselves.

        :param since: how far back to count
        :param period: the length of one period
        """
        begin = self._clock() - interval_of(since, "since")
        jobs = self._metering.history.read(begin)
        return usage(jobs, period_of(period, "period"), begin)

    def recommended_max_staleness(self, name: str) -> timedelta | None:
        """The least ``max_staleness`` that applies can be expected to meet (BigQuery CDC).

        It is twice the 95th percentile of the apply times of the last seven days, plus seven
        minutes. ``None``: nothing was applied in these days.

        The apply time of an apply in the background is the time from when it was due to its end. If
        no such apply was recorded in these days, the apply time is the time from the begin of each
        consumption to its commit.

        :raises TableNotFound: there is no such table
        :raises InvalidRequest: it is not an upsert table
        """
        table = self._upsert_tables.get(name)
        stream_id = self._catalog.get_stream(table.stream).stream_id
        durations = recent_durations(
            stream_id,
            self._apply_times,
            lambda: self._catalog.stream_history(table.stream),
            self._clock() - _WEEK,
        )
        return recommended_max_staleness(durations)

    def _writable(self, name: str) -> UpsertTable:
        """The upsert table of that name, after a check that its stream is on its changes."""
        table = self._upsert_tables.get(name)
        self._stream_if_registered(table)
        return table

    def _stream_if_registered(self, table: UpsertTable) -> Stream | None:
        """Like :meth:`_stream`; ``None`` if the table has no stream; a write needs none."""
        with suppress(StreamNotFound):
            return self._stream(table)
        return None

    def _stream(self, table: UpsertTable) -> Stream:
        """The stream on the changes of ``table``.

        :raises InvalidRequest: the stream is on changes at another location
        """
        stream = self._catalog.get_stream(table.stream)
        if not _is_on(stream, table):
            raise InvalidRequest(
                f"upsert table {table.name}",
                "was copied or moved",
                cause=f"it is at {table.location}, and its changes come from"
                f" {stream.source.location}",
                fix="use it at its original location, by the path or name that it was created with;"
                " to make a copy, use create_upsert_table and write_changes",
            )
        return stream

    def _read(self, table: UpsertTable) -> TableRead:
        stream = self._stream(table)
        return self._reads.read(table, stream, self._status(table, stream))

    def _status(self, table: UpsertTable, stream: Stream) -> StreamStatus:
        status = self._catalog.status_of(stream)
        if status.invalid_reason is not None:
            raise StreamStale(
                f"upsert table {table.name}",
                "cannot determine which changes are not yet applied",
                cause=status.invalid_reason,
                fix="create the table again and load it from the origin of its changes; its base"
                " has the changes that were applied",
            )
        return status


def _is_on(stream: Stream, table: UpsertTable) -> bool:
    """Whether ``stream`` is on the changes of ``table``."""
    return store_key(stream.source.location) == store_key(table.changes)


def _quarantines(name: str, on_bad_rows: OnBadRows | str) -> bool:
    wanted = parse_enum(f"changes of {name}", "on_bad_rows", OnBadRows, on_bad_rows)
    return wanted is OnBadRows.QUARANTINE
