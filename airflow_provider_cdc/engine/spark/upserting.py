"""The part of the engine for upsert tables: changes are written, applied, and read as applied."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TypeVar

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from ..catalog import StreamCatalog
from ..core.arguments import KEPT, Kept, validated
from ..core.choices import member
from ..core.errors import InvalidRequest, StreamNotFound, StreamStale, TableNotFound
from ..core.intervals import interval_if_given, interval_of, interval_text, period_of
from ..core.model import Stream
from ..core.outcomes import Outcome
from ..core.upserts.definition import TOMBSTONE_HORIZON, OnBadRows, UpsertTable
from ..core.upserts.jobs import JobClass, Usage, usage
from ..core.upserts.schedule import recommended_max_staleness
from ..storage.apply_times import ApplyTimes
from ..storage.files import place_of
from ..stream_status import StreamStatus
from ..upsert_jobs import apply_watermark, recent_durations
from ..upsert_status import UpsertTableStatus
from .upserts.applying import BASE_BYTES_READ, Applying
from .upserts.metering import Metering
from .upserts.quarantine import Quarantine
from .upserts.reads import Reading, Reads
from .upserts.tables import UpsertTables
from .upserts.upkeep import Upkeep
from .upserts.writing import change_sink, write_changes

_WEEK = timedelta(days=7)

Result = TypeVar("Result")


@validated
class Upserting:
    """Tables whose changes are written first and applied later, at reading time if need be."""

    def __init__(
        self,
        catalog: StreamCatalog,
        tables: UpsertTables,
        quarantine: Quarantine,
        applying: Applying,
        reads: Reads,
        metering: Metering,
        upkeep: Upkeep,
        apply_times: ApplyTimes,
        clock: Callable[[], datetime],
    ) -> None:
        self._catalog = catalog
        self._upsert_tables = tables
        self._quarantine = quarantine
        self._applying = applying
        self._reads = reads
        self._metering = metering
        self._upkeep = upkeep
        self._apply_times = apply_times
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
        """Create a table that changes are upserted into by a primary key (seed 004).

        The rows lie in a Delta table ``<name>__base``, whose properties say all this; ``name`` is a
        view of it that shows the data columns of the rows that were not deleted. At a path the base
        has the path itself, and :meth:`read_table` reads it. A call that was killed is finished
        with ``if_not_exists``.

        :param schema: the data columns, as DDL or a ``StructType``; at most 2,000
        :param primary_key: 1 to 16 columns; that they tell rows apart is up to who writes changes
        :param max_staleness: how far a read may lie behind what was written, as
            ``INTERVAL 10 MINUTE``, ``PT10M`` or a ``timedelta``; ``None``: every read is fresh
        :param tombstone_horizon: how long a delete is remembered for changes that come late
        :param cluster_by: what the base is clustered by; by default the first 4 columns of the key
        :param partial_changes: whether a change may leave columns as they are
            (:meth:`write_changes`); the base then keeps a number for each column that is older than
            its row, and changes are compared column by column
        :raises InvalidRequest: the schema, the key or an interval is none
        :raises TableExists: there is such a table
        """
        return self._upsert_tables.create(
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
        """Change what is promised of an upsert table; what is not given stays.

        The monitor of streams tells when a change has waited longer than ``max_staleness``.

        :param max_staleness: how stale its reads may be; ``None``: not at all
        :param tombstone_horizon: how long a delete is remembered; one that was forgotten under a
            shorter horizon does not come back
        :raises TableNotFound: there is no such table
        :raises InvalidRequest: it is no upsert table, or an interval is none
        :raises StreamConflict: changes are being applied; nothing was changed
        """
        longest = interval_if_given(max_staleness, "max_staleness")
        horizon = interval_if_given(tombstone_horizon, "tombstone_horizon")
        table = self._writable(name)
        self._catalog.alter(table.stream, max_lag=longest)
        self._upsert_tables.alter(table, longest, horizon)

    def add_columns(self, name: str, schema: StructType | str) -> UpsertTable:
        """Give an upsert table columns that it lacks; its view shows them too.

        They are NULL in the rows that there are, and in the changes that wait. Columns that it has
        already stay as they are, so a call that was killed is finished by the next one. A write
        that is under way meanwhile may fail, as one that meets any altered Delta table.

        :param schema: the columns, as DDL or a ``StructType``
        :raises TableNotFound: there is no such table
        :raises InvalidRequest: it is no upsert table, it has such a column of another type, or the
            schema breaks a rule of :meth:`create_upsert_table`; nothing was altered
        """
        return self._upsert_tables.add_columns(name, schema)

    def drop_upsert_table(self, name: str, *, if_exists: bool = False) -> None:
        """Drop an upsert table with its view, its stream and, but for an external base, its files.

        A call that was killed is finished by the next one.

        :param if_exists: a missing table is no error
        :raises TableNotFound: there is no such table
        :raises InvalidRequest: it is no upsert table
        :raises StreamConflict: changes are being applied; nothing was dropped
        """
        if self._upsert_tables.is_half_dropped(name):
            self._upsert_tables.remove_rest(name)
            return
        try:
            table = self._upsert_tables.whole(name)
        except TableNotFound:
            if if_exists:
                return
            raise
        with suppress(StreamNotFound):
            # The stream of a table that was copied is that of the first one.
            if _is_on(self._catalog.describe(table.stream), table):
                self._catalog.drop(table.stream)
        self._upsert_tables.drop(table)

    def describe_upsert_table(self, name: str) -> UpsertTableStatus:
        """How an upsert table stands.

        :raises TableNotFound: there is no such table
        :raises InvalidRequest: it is no upsert table
        :raises StreamStale: it can no longer be told which changes wait
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
    ) -> None:
        """Write changes of an upsert table, which wait until they are applied (seed 004).

        Each row has the columns of the primary key, ``_CHANGE_TYPE`` (UPSERT or DELETE) and, for an
        UPSERT, all values: a column that is not given is NULL. ``_CHANGE_SEQUENCE_NUMBER`` is 1 to
        4 sections of 1 to 16 hexadecimal digits, ``FFF/B``: of two changes of one key the greater
        wins; among equal ones, and without a number, the later ingested. One without a number loses
        to one that has it. In a table with ``partial_changes`` an UPSERT may name columns in
        ``_CHANGE_UNCHANGED``, an array: they keep what they hold, and what is given for them is not
        looked at; in which order such changes come makes no difference either.

        :param write_id: what the write is known by: the same id again writes nothing
        :param on_bad_rows: what becomes of a row that has another type, no key, a malformed number
            or a wrong name of a column: ``fail`` writes nothing; with ``quarantine`` the others are
            written, and it lies in the table's quarantine, where later changes of its key wait too
            (:meth:`redrive`)
        :raises InvalidRequest: it is no upsert table, or a column or a row does not fit; nothing
            was written
        :raises TableNotFound: there is no such table
        """
        write_changes(
            self._writable(name),
            rows,
            transaction=None if write_id is None else (f"write/{write_id}", 0),
            quarantines=_quarantines(name, on_bad_rows),
        )

    def change_sink(
        self, name: str, *, query: str, on_bad_rows: OnBadRows | str = OnBadRows.FAIL
    ) -> Callable[[DataFrame, int], None]:
        """What a Structured Streaming ``foreachBatch`` calls to write changes; a batch that comes
        again writes nothing.

        :param query: a name that the query keeps as long as its checkpoint, of its own among all
            that ever wrote to the table: with a new checkpoint batches begin at 0 again, and what
            has the number of one that was written is left out
        :param on_bad_rows: as of :meth:`write_changes`
        :raises TableNotFound: there is no such table
        :raises InvalidRequest: it is no upsert table
        """
        self._writable(name)
        quarantines = _quarantines(name, on_bad_rows)
        return change_sink(lambda: self._writable(name), query, quarantines=quarantines)

    def redrive(self, name: str, *, late: bool = False) -> int:
        """Let the changes in quarantine that can be applied now wait among the others again, at the
        places that they had; gives how many. The next :meth:`apply_upserts` applies them.

        A bad change is corrected, or removed, in the table ``<base>/_cdc/quarantine`` first; what
        follows a change that is still bad stays.

        :param late: those too that came later than a delete is remembered
        :raises TableNotFound: there is no such table
        :raises InvalidRequest: it is no upsert table
        """
        self._quarantine.mark(self._writable(name), late=late)
        return self._quarantine.release(self._writable(name))

    def apply_upserts(self, name: str) -> Outcome | None:
        """Apply the changes that wait, in one MERGE, exactly once; ``None`` where none waits.

        Only rows that change are rewritten. Of a base of 64 MiB or more, files that hold no key of
        a change are not read, where the key begins with a whole number, a date or text and that is
        worth it: the metrics ``baseBytes`` and ``baseBytesRead`` say what share was read. A killed
        call is finished by the next one, whoever makes it. Where changes have to go into
        quarantine, a second MERGE takes them there in the same consumption. Now and then tombstones
        that are older than ``tombstone_horizon`` are ended, and changes of more than seven days
        removed.

        :raises TableNotFound: there is no such table
        :raises InvalidRequest: it is no upsert table
        :raises StatementFailed: the MERGE failed; the table is as it was, the changes wait
        """
        table = self._upsert_tables.get(name)
        stream = self._stream(table)
        if stream.consumption is None and not self._catalog.look_at(stream).may_have_data:
            self._upkeep.run_when_due(table)
            return None
        named = stream.upsert_table or table.name
        with self._metering.job(named, JobClass.BACKGROUND_APPLY) as job:
            outcome = self._applying.apply(table, stream)
            job.rows = sum(found.rows.get("inserted", 0) for found in outcome.streams)
            job.read_bytes = outcome.statements[-1].metrics[BASE_BYTES_READ]
        self._upkeep.run_when_due(table)
        return outcome

    def read_table(self, name: str) -> DataFrame:
        """The rows of an upsert table, as fresh as its ``max_staleness`` asks (seed 004).

        Where the oldest change that waits is younger, these are the rows as they were applied last.
        Otherwise, and without ``max_staleness``, the waiting changes are merged while it is read:
        the result is what applying them would give, and nothing is written.

        :raises TableNotFound: there is no such table
        :raises InvalidRequest: it is no upsert table
        :raises StreamStale: it can no longer be told which changes wait
        """
        return self._read(self._upsert_tables.get(name)).rows

    def query_table(self, name: str, work: Callable[[DataFrame], Result]) -> Result:
        """What ``work`` makes of the rows that :meth:`read_table` gives, as a job in the history:
        a query of the applied rows, or a run-time merge (seed 004).

        :raises TableNotFound: there is no such table
        :raises InvalidRequest: it is no upsert table
        :raises StreamStale: it can no longer be told which changes wait
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
        """What the jobs of upsert tables used lately, by period and class, newest first (seed 004).

        The jobs themselves are the Delta table ``upsert_jobs`` of the state folder.
        """
        begin = self._clock() - interval_of(since, "since")
        jobs = self._metering.history.read(begin)
        return usage(jobs, period_of(period, "period"), begin)

    def recommended_max_staleness(self, name: str) -> timedelta | None:
        """The least ``max_staleness`` that applying can be expected to keep (seed 004): twice the
        95th percentile of the last seven days, and seven minutes; ``None`` where nothing was
        applied in them.

        Applying took as long as its runs in the background from the moment that they were due;
        where none was noted in these days, from the begin of each consumption to its commit.

        :raises TableNotFound: there is no such table
        :raises InvalidRequest: it is no upsert table
        """
        table = self._upsert_tables.get(name)
        stream_id = self._catalog.describe(table.stream).stream_id
        durations = recent_durations(
            stream_id,
            self._apply_times,
            lambda: self._catalog.history(table.stream),
            self._clock() - _WEEK,
        )
        return recommended_max_staleness(durations)

    def _writable(self, name: str) -> UpsertTable:
        """The upsert table of that name, whose changes are those that are applied to it."""
        table = self._upsert_tables.get(name)
        # Writing needs no registry.
        with suppress(StreamNotFound):
            self._stream(table)
        return table

    def _stream(self, table: UpsertTable) -> Stream:
        """The stream on the changes of ``table``.

        :raises InvalidRequest: they lie elsewhere
        """
        stream = self._catalog.describe(table.stream)
        if not _is_on(stream, table):
            raise InvalidRequest(
                f"upsert table {table.name}",
                "was copied or moved",
                cause=f"it lies at {table.location}, and its changes are taken from"
                f" {stream.source.location}",
                fix="use it at its first place, by the path or name that it was created with; a"
                " copy becomes a table of its own by create_upsert_table and write_changes",
            )
        return stream

    def _read(self, table: UpsertTable) -> Reading:
        stream = self._stream(table)
        return self._reads.read(table, stream, self._status(table, stream))

    def _status(self, table: UpsertTable, stream: Stream) -> StreamStatus:
        status = self._catalog.status_of(stream)
        if status.invalid_reason is not None:
            raise StreamStale(
                f"upsert table {table.name}",
                "cannot tell which changes wait",
                cause=status.invalid_reason,
                fix="make the table anew from where its changes come from; what was applied is in"
                " its base",
            )
        return status


def _is_on(stream: Stream, table: UpsertTable) -> bool:
    """Whether ``stream`` is on the changes that lie beside ``table``."""
    return place_of(stream.source.location) == place_of(table.changes)


def _quarantines(name: str, on_bad_rows: OnBadRows | str) -> bool:
    wanted = member(f"changes of {name}", "on_bad_rows", OnBadRows, on_bad_rows)
    return wanted is OnBadRows.QUARANTINE
