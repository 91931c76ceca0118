"""The entry point of the engine: streams on Delta tables, for notebooks and jobs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ..catalog.stream_catalog import StreamCatalog
from ..clock import utc_now
from ..consumption.attempts import Attempt, ConsumptionServices
from ..consumption.consumer import Consumer
from ..consumption.planning import Planner
from ..consumption.resolution import Resolution
from ..consumption.targets import Targets
from ..core.arguments.one_or_several import one_or_several
from ..core.arguments.points import Point
from ..core.arguments.validation import validated, validated_call
from ..core.change_sets.read_plan import Strategy, parse_strategy
from ..core.consumption.batches import BatchLimit
from ..core.errors import StreamConflict
from ..core.model.access import Right
from ..core.model.outcomes import Outcome
from ..core.model.stream import AppendSemantics, ColumnStyle, Stream, StreamMode
from ..core.model.stream_spec import StreamSpec
from ..core.names import table_name
from ..core.progress import Listener
from ..core.retention.staleness import MAX_DATA_EXTENSION
from ..core.upserts.definition import UpsertTable
from ..storage.files.best_effort import log_failures
from ..storage.files.scratch import Scratch
from ..storage.files.stores import Files
from ..storage.registry.consumptions import Consumptions
from ..storage.registry.registry import Registry
from ..storage.sources.folder_logs import FolderLogs
from ..storage.sources.source_history import SourceHistory
from ..storage.sources.source_log import SourceLog
from ..storage.state.apply_times import ApplyTimes
from ..storage.state.extended_sources import ExtendedSources
from ..storage.state.job_history import JobHistory
from ..storage.state.query_results import Results
from .change_sets.file_rows import FileRows
from .change_sets.table_changes_reader import ChangeSetReader
from .consumption.consuming_query import ConsumingQuery
from .consumption.recovery import Recovery
from .consumption.statement_writer import SparkWriter
from .consumption.stream_views import SparkChangeSets
from .consumption.transactions import Transaction, transaction
from .reading.file_sources import FileSources
from .reading.found_sources import Sources
from .reading.stream_reader import StreamReader
from .reading.stream_reading import StreamReading
from .reading.table_changes import TableChanges
from .session.session_checks import check_session
from .streams.administration import StreamAdministration
from .streams.creation import Creation
from .streams.maintenance import Maintainer
from .streams.rewinding import Readability, Rewinding
from .tables.cloning import Cloning
from .tables.delta_tables import Tables
from .upserts.apply_pruning import Pruning
from .upserts.applying import Applying
from .upserts.metering import Metering
from .upserts.quarantine import Quarantine
from .upserts.reads import Reads
from .upserts.upkeep import Upkeep
from .upserts.upsert_tables import UpsertTables
from .upserts.upserting import Upserting
from .views.view_changes import ViewReader
from .views.view_definitions import ViewDefinitions


@validated
class Engine(StreamAdministration, StreamReading, Upserting):
    """Streams on Delta tables: create, read, consume.

    :param spark: a session with Delta, classic or over Spark Connect
    :param state: the folder of the registry and of scratch files, a URI or an absolute path; Spark
        and this process must both reach it under this name
    :param storage_options: how this process reaches the store, by the option names of delta-rs
    :param on_progress: is called at each step of a consumption
    :param clock: returns the time, in UTC
    :param strategy: read net differences by ``file_difference`` or by ``change_files`` if possible;
        by default in the way that reads the fewest bytes, including the cost of opening files
    :param principal: the user or process that reads, consumes and owns streams; by default the user
        of this process
    :param slot_meter: returns the milliseconds that the tasks of the session's application have
        taken so far, for the history of jobs:
        ``airflow_provider_cdc.jobs.metering.slot_meter(spark)``
    :raises UnsupportedEnvironment: the session has an older Spark, or no Delta
    """

    @partial(validated_call, without=("spark",))
    def __init__(
        self,
        spark: SparkSession,
        state: str,
        *,
        storage_options: Mapping[str, str] | None = None,
        on_progress: Listener | None = None,
        clock: Callable[[], datetime] = utc_now,
        strategy: Strategy | str | None = None,
        principal: str | None = None,
        slot_meter: Callable[[], int] | None = None,
    ) -> None:
        check_session(spark)
        files = Files(storage_options)
        catalog = StreamCatalog(
            state, storage_options=storage_options, clock=clock, principal=principal
        )
        tables = Tables(spark, files)
        definitions = ViewDefinitions(spark, tables)
        self._registry = Registry(state, storage_options=storage_options, clock=clock)
        self._sources = SourceLog(files, clock)
        maintainer = Maintainer(
            catalog=catalog,
            registry=self._registry,
            sources=self._sources,
            tables=tables,
            extended_sources=ExtendedSources(state, files),
            files=files,
            clock=clock,
        )
        cloning = Cloning(spark, tables, files, clock)
        StreamAdministration.__init__(
            self, spark, catalog, tables, cloning, definitions, maintainer
        )
        self._scratch = Scratch(state, files, clock)
        tables_reader = ChangeSetReader(spark, files, self._scratch, parse_strategy(strategy))
        views = ViewReader(spark, tables_reader, definitions)
        self._reader = StreamReader(spark, tables_reader, views, FileRows(spark, files))
        sources = Sources(self._tables, definitions, SourceHistory(files, clock))
        readability = Readability(self._sources, self._reader, self._scratch)
        self._rewinding = Rewinding(self._registry, sources, readability, catalog.principal)
        self._creation = Creation(
            registry=self._registry,
            tables=self._tables,
            sources=sources,
            readability=readability,
            clock=clock,
            principal=catalog.principal,
            file_sources=FileSources(spark, state, files, FolderLogs(files, clock), self._sources),
        )
        changes = TableChanges(
            self._registry, sources, self._sources, self._reader, clock, catalog.principal
        )
        StreamReading.__init__(self, catalog, self._sources, self._reader, self._scratch, changes)
        self._consumptions = Consumptions(self._registry, clock)
        listener: Listener = on_progress or (lambda _: None)
        writer = SparkWriter(spark, files)
        targets = Targets(writer, files)
        self._change_sets = SparkChangeSets(spark, self._reader, self._scratch)
        self._resolution = Resolution(self._consumptions, writer, files, listener)
        self._parts = ConsumptionServices(
            registry=self._registry,
            consumptions=self._consumptions,
            sources=self._sources,
            change_sets=self._change_sets,
            planner=Planner(self._tables, targets),
            targets=targets,
            resolution=self._resolution,
            listener=listener,
            principal=catalog.principal,
        )
        quarantine = Quarantine(spark, files)
        upsert_tables = UpsertTables(spark, self._tables, files, self._create_changes_stream)
        parts = replace(self._parts, is_for_upserts=True)
        Upserting.__init__(
            self,
            catalog.for_upserts(),
            upsert_tables,
            quarantine,
            Applying(spark, parts, upsert_tables, quarantine, Pruning(spark, files)),
            Reads(spark, upsert_tables, quarantine, self._sources, self._reader, clock),
            Metering(JobHistory(state, storage_options), clock, slot_meter, catalog.principal),
            Upkeep(spark, files, clock),
            ApplyTimes(state, files, clock),
            clock,
        )
        self._results = Results(state, files, clock)
        for sweep in (self._scratch.sweep, self._results.sweep):
            with log_failures(f"sweeping {state}"):
                sweep()

    def _create_changes_stream(self, table: UpsertTable) -> None:
        """Create the stream on the changes of an upsert table, from the first change on."""
        spec = StreamSpec(
            name=table.stream,
            on_table=table.changes,
            mode=StreamMode.APPEND_ONLY,
            at={"version": 0},
            comment=f"changes of {table.name} that are not applied",
            # The monitor reports a missed ``max_staleness`` like any other lag.
            max_lag=table.max_staleness,
            if_not_exists=True,
        )
        self._creation.create(spec, upsert_table=table.name)

    def create_stream(
        self,
        name: str,
        *,
        on_table: str | None = None,
        on_view: str | None = None,
        on_files: str | None = None,
        file_format: str | None = None,
        file_options: Mapping[str, Any] | None = None,
        file_schema: str | None = None,
        mode: StreamMode | str | None = None,
        append_semantics: AppendSemantics | str = AppendSemantics.INSERTED,
        column_style: ColumnStyle | str = ColumnStyle.SNOWFLAKE,
        at: Point | None = None,
        before: Point | None = None,
        or_replace: bool = False,
        if_not_exists: bool = False,
        show_initial_rows: bool = False,
        comment: str | None = None,
        owner: str | None = None,
        readers: Collection[str] | None = None,
        consumers: Collection[str] | None = None,
        max_data_extension: timedelta | str = MAX_DATA_EXTENSION,
        max_lag: timedelta | str | None = None,
    ) -> Stream:
        """Create a stream at its source's newest version, or at an earlier point.

        The first stream on a table switches row tracking on. If the creation fails, the engine sets
        row tracking back to what it was. Snowflake: a stream starts at the table's current version
        and holds no data. With Time Travel it starts at an earlier point, and change tracking must
        be on from that point on.

        A stream on files returns the rows of the files that were added later and still exist,
        including files in subfolders. An overwritten file is a new file. Each version of a folder
        is a refresh that found a difference. Version 0 is the empty folder.

        Give one of ``on_table``, ``on_view`` and ``on_files``.

        :param name: one identifier; names ignore case
        :param on_table: a catalog name or the path of a Delta table
        :param on_view: the name of a view made of projections, filters, inner joins and UNION ALL;
            each of its tables must have change tracking on
        :param on_files: the absolute path or URI of a folder
        :param file_format: ``parquet``, ``csv``, ``json``, ``orc`` or, with Spark's package,
            ``avro``
        :param file_options: options of Spark's reader; ``pathGlobFilter`` selects the files by name
        :param file_schema: the columns in DDL, including those of ``key=value`` folders; by default
            Spark infers them from the existing files. The columns do not change later
        :param mode: ``standard``, the default, or ``append_only``; for a stream on files always
            ``insert_only``
        :param append_semantics: what an append-only stream returns, ``inserted`` or ``surviving``
        :param column_style: ``snowflake`` (METADATA$ACTION, ...) or ``databend`` (change$action)
        :param at: the stream returns changes after this point, ``Version(3)``,
            ``OffsetOf("other_stream")`` or ``Timestamp("2026-01-01T00:00:00Z")``; changes of
            exactly that version or time are excluded
        :param before: the same, but changes of exactly that version or time are included
        :param or_replace: drop a stream of that name in the same step
        :param if_not_exists: leave a stream of that name as it is, and return it
        :param show_initial_rows: the first consumption takes the rows at the offset, each as an
            insert; the next consumption takes the later changes
        :param owner: the principal that owns it; by default the one that creates it
        :param readers: the principals that may read it besides its owner; by default everybody
        :param consumers: the principals that may consume it besides its owner; by default its
            readers
        :param max_data_extension: the longest time for which :meth:`maintain` makes its sources
            keep what it has not consumed, as ``INTERVAL 14 DAY``, ``P14D`` or a ``timedelta``;
            zero: only as long as the sources keep it by themselves
        :param max_lag: how old a change may get before the monitor sends an alert, in the same form
        :raises InvalidName: the name is not valid
        :raises InvalidRequest: the arguments contradict each other, or Spark cannot read the files
            with them
        :raises InvalidRange: the source's history does not hold the point
        :raises ChangeTrackingDisabled: row tracking was off at the point, or later
        :raises StreamExists: a stream has that name
        :raises StreamAccessDenied: the principal may not read the stream of an ``OffsetOf``
        :raises StreamConflict: the stream to replace is being consumed
        :raises TableNotFound: there is no such table
        :raises NotADeltaTable: it is not a Delta table
        :raises UnsupportedView: a stream cannot follow the view
        """
        spec = StreamSpec.parsed(
            name=name,
            on_table=on_table,
            on_view=on_view,
            on_files=on_files,
            file_format=file_format,
            file_options=file_options,
            file_schema=file_schema,
            mode=mode,
            append_semantics=append_semantics,
            column_style=column_style,
            at=at,
            before=before,
            or_replace=or_replace,
            if_not_exists=if_not_exists,
            show_initial_rows=show_initial_rows,
            comment=comment,
            owner=owner,
            readers=readers,
            consumers=consumers,
            max_data_extension=max_data_extension,
            max_lag=max_lag,
        )
        return self._creation.create(spec)

    def recover(
        self, name: str, target: str, key: str | Collection[str], *, consumer: str
    ) -> Outcome:
        """Make a target equal to the source of a stale stream, and move the stream to the source's
        newest version, in one consumption.

        The engine compares rows by ``key``, in all columns of the target. It compares values in the
        form in which these columns store them (Delta's store assignment, independent of the
        session's settings). It writes only rows that differ. The target of an append-only stream
        gets only the rows that it lacks.

        The stream may be stale because commits or files are missing, or because its source was
        recreated at the same location. The engine searches the source only there. If the table is
        at another location now, create its stream again (``or_replace``). If the driver crashes,
        the same call finishes the consumption.

        :param target: the name or path of a Delta table; the source must have all its columns, and
            all the fields in them
        :param key: the column or the columns that identify a row
        :param consumer: the stable name of the consumer, such as ``dag_id.task_id``
        :raises StreamNotFound: there is no such stream
        :raises StreamAccessDenied: the principal may not consume it
        :raises InvalidRequest: rows share a key, the source lacks a column or has one of a type
            that the target does not store, or the stream is on files or is the stream of an upsert
            table
        :raises ChangeTrackingDisabled: row tracking of the source is off now
        :raises StatementFailed: a value does not fit its column, or the target could not be
            changed; nothing of the consumption remains
        :raises StreamConflict: another consumer moved the stream first
        """
        found = Recovery(self._parts, self._change_sets, self._reader, self._tables, consumer)
        return found.recover(name, target, key)

    def rewind(self, name: str, *, to: Point) -> Stream:
        """Move a stream back to an earlier point. It then returns the changes after it again.

        The registry records the actor and the time (:meth:`history`). A target of a MERGE by a key
        does not change if it gets the same changes again.

        :param to: the new offset, as ``at`` of :meth:`create_stream`
        :raises StreamNotFound: there is no such stream
        :raises StreamConflict: a consumption of it is open
        :raises StreamAccessDenied: the principal may not consume it
        :raises InvalidRange: the source's history does not hold the point, or it is after the
            stream's offset
        :raises InvalidRequest: it is the stream of an upsert table
        :raises StreamUnusable: the change set after the point can no longer be read
        """
        return self._rewinding.rewind(name, to)

    def consume(
        self,
        statements: str | Sequence[str],
        *,
        consumer: str,
        max_commits: int | None = None,
        max_bytes: int | None = None,
    ) -> Outcome:
        """Apply DML that reads streams and move these streams, exactly once.

        Every statement sees the same records: from each stream's offset to the moment at which the
        consumption began. Either all streams move, or no stream moves. If the driver crashes, the
        next call of the same consumer finishes the consumption. A call of another consumer first
        commits or undoes it. Readers of several targets may see one changed before the other.

        :param statements: one, or several: INSERT, MERGE, UPDATE, DELETE or CREATE TABLE AS; they
            read streams by name
        :param consumer: the stable name of the consumer, such as ``dag_id.task_id``
        :param max_commits: take at most this many commits of each stream, and leave the rest for
            the next consumption
        :param max_bytes: take only the first commits that together added and removed at most this
            many bytes of files, but at least one commit
        :raises InvalidStatement: a statement cannot take part in a consumption; nothing was written
        :raises InvalidRequest: a stream is the stream of an upsert table
        :raises StatementFailed: a statement failed; nothing of the consumption remains
        :raises StreamConflict: another consumer moved a stream first
        :raises StreamAccessDenied: the principal may not consume a stream that is read
        :raises ConsumptionOpen: a failed consumption could not be undone
        """
        limit = BatchLimit(max_commits, max_bytes)
        texts = one_or_several(f"consumer {consumer}", "statements", statements)
        return Consumer(self._parts, consumer, limit).consume(texts)

    def transaction(
        self, *, consumer: str, max_commits: int | None = None, max_bytes: int | None = None
    ) -> AbstractContextManager[Transaction]:
        """A block whose statements see the same records and consume them together, exactly once.

        ``with engine.transaction(consumer="c") as tx:`` begins the transaction. Each stream returns
        its records up to this moment, even if the block uses the stream later. The end of the block
        commits the transaction. If the block raises an exception, the transaction consumes nothing
        and undoes what was done. If the driver crashes, the next transaction of the same consumer,
        or the next consumer of one of its streams, undoes what is left.

        :param consumer: the stable name of the consumer, such as ``dag_id.task_id``
        :param max_commits: as for :meth:`consume`
        :param max_bytes: as for :meth:`consume`
        :raises StreamConflict: another consumer moved a stream first; nothing of the transaction
            remains
        :raises ConsumptionOpen: a failed transaction, or what an earlier attempt left, could not be
            undone
        """
        limit = BatchLimit(max_commits, max_bytes)
        return transaction(Attempt(self._parts, consumer), self._change_sets, limit)

    def read_and_consume(
        self,
        query: str,
        *,
        consumer: str,
        max_commits: int | None = None,
        max_bytes: int | None = None,
    ) -> DataFrame:
        """Return the rows of a query, and move the streams that the query reads.

        Databend: a query WITH CONSUME consumes the streams that it reads.

        The call writes the rows to a result table below the state folder, and consumes them as
        :meth:`consume` does. Then it marks the table and returns its rows. Exactly once: of all
        calls of one consumer with one query, exactly one call gets each row. If a driver crashes
        before the mark, the next call gets its rows. If it crashes after the mark and before it
        used the rows, no call gets them again. The table stays until one day after the mark.

        :param query: SELECT; it reads streams by name
        :param consumer: the stable name of the consumer, such as ``dag_id.task_id``
        :param max_commits: as for :meth:`consume`
        :param max_bytes: as for :meth:`consume`
        :returns: the rows of the query, in no order, with the query's columns
        :raises InvalidStatement: it is not a query, reads no stream, or Spark refuses it
        :raises InvalidRequest: a stream is the stream of an upsert table
        :raises StatementFailed: the query failed; nothing was consumed
        :raises StreamConflict: another consumer moved a stream first
        :raises StreamAccessDenied: the principal may not consume a stream that is read
        """
        found = ConsumingQuery(self._spark, self._parts, self._results, consumer, query)
        return found.rows(BatchLimit(max_commits, max_bytes))

    def abort(self, name: str, *, keep: str | Collection[str] = ()) -> Stream:
        """End the open consumption of a stream without moving its offset.

        The engine undoes what was applied, except in the targets in ``keep``. These targets stay as
        they are, and the next consumption applies the same changes to them again.

        :param keep: the target, or the targets, as the statements name them
        :raises StreamConflict: no consumption is open
        :raises ConsumptionOpen: somebody else has written to a target that is not in ``keep``
        """
        stream = self._streams.permitted(name, Right.ABORT)
        if stream.consumption is None:
            raise StreamConflict(
                f"stream {stream.name}",
                "has no open consumption to abort",
                cause=f"expected it to be applying or resolving, it is {stream.phase.value}",
                fix="nothing needs to be done",
            )
        named = one_or_several(f"stream {name}", "keep", keep)
        kept = {table_name(target).sql for target in named}
        self._resolution.abort(stream.consumption, self._streams.principal, kept)
        return self._streams.describe(name)
