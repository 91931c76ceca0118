"""The part of the engine that defines upsert tables, drops them, and reports their state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from pyspark.sql.types import StructType

from ...catalog.stream_catalog import StreamCatalog
from ...catalog.upsert_jobs import apply_watermark, recent_durations
from ...catalog.upsert_status import UpsertTableStatus
from ...core.arguments.intervals import interval_if_given, interval_of, interval_text, period_of
from ...core.arguments.validation import KEPT, Kept, validated
from ...core.errors import StreamNotFound, TableNotFound
from ...core.upserts.apply_schedule import recommended_max_staleness
from ...core.upserts.definition import TOMBSTONE_HORIZON, UpsertTable
from ...core.upserts.job_records import Usage, usage
from ...storage.state.apply_times import ApplyTimes
from ...storage.state.job_history import JobHistory
from .dropping import Dropping
from .quarantine import Quarantine
from .table_definitions import TableDefinitions
from .upsert_streams import UpsertStreams, is_on
from .upsert_tables import UpsertTables

_WEEK = timedelta(days=7)


@validated
class UpsertAdministration:
    """Definition, removal and state of tables whose changes are written first and applied later."""

    def __init__(
        self,
        catalog: StreamCatalog,
        tables: UpsertTables,
        streams: UpsertStreams,
        definitions: TableDefinitions,
        dropping: Dropping,
        quarantine: Quarantine,
        history: JobHistory,
        apply_times: ApplyTimes,
        clock: Callable[[], datetime],
    ) -> None:
        self._catalog = catalog
        self._upsert_tables = tables
        self._streams = streams
        self._definitions = definitions
        self._dropping = dropping
        self._quarantine = quarantine
        self._history = history
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
        table = self._upsert_tables.get(name)
        self._streams.get(table)
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
            if is_on(self._catalog.get_stream(table.stream), table):
                self._catalog.drop_stream(table.stream)
        self._dropping.drop(table)

    def describe_upsert_table(self, name: str) -> UpsertTableStatus:
        """The status of an upsert table.

        :raises TableNotFound: there is no such table
        :raises InvalidRequest: it is not an upsert table
        :raises StreamStale: the waiting changes can no longer be determined
        """
        table = self._upsert_tables.get(name)
        stream = self._streams.get(table)
        status = self._streams.status(table, stream)
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

    def upsert_usage(
        self, *, since: timedelta | str = _WEEK, period: timedelta | str = timedelta(hours=1)
    ) -> list[Usage]:
        """The usage of the jobs of upsert tables, by period and class, newest first (BigQuery CDC).

        The Delta table ``upsert_jobs`` of the state folder holds the jobs themselves.

        :param since: how far back to count
        :param period: the length of one period
        """
        begin = self._clock() - interval_of(since, "since")
        jobs = self._history.read(begin)
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
