"""The entry point of the engine: streams on Delta tables, for notebooks and jobs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from pyspark.sql import SparkSession

from ..catalog.change_stream_catalog import ChangeStreamCatalog
from ..catalog.stream_catalog import StreamCatalog
from ..clock import utc_now
from ..core.arguments.points import Point
from ..core.arguments.validation import validated_call
from ..core.change_sets.read_plan import Strategy
from ..core.model.stream import AppendSemantics, ColumnStyle, Stream, StreamMode
from ..core.model.stream_spec import StreamSpec
from ..core.progress import Listener
from ..core.retention.staleness import MAX_DATA_EXTENSION
from ..storage.files.best_effort import log_failures
from .archiving.archives import Archives
from .change_streams.change_stream_verbs import ChangeStreamVerbs
from .change_streams.partition_verbs import PartitionVerbs
from .consumption.stream_consumption import StreamConsumption
from .history.history_verbs import HistoryVerbs
from .parts import Parts
from .reading.stream_reading import StreamReading
from .services import Services
from .session.failures import lost_sessions_explained
from .session.session_checks import check_session
from .streams.administration import StreamAdministration
from .tables.target_provenance import TargetProvenance
from .upserts.upsert_administration import UpsertAdministration
from .upserts.upserting import Upserting
from .verification.target_verification import TargetVerification

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")
Service = TypeVar("Service")


def _delegate(
    method: Callable[Concatenate[Service, Arguments], Answer],
    service: Callable[[Engine], Service],
) -> Callable[Concatenate[Engine, Arguments], Answer]:
    """A method of the engine that calls the ``method`` of one of its services."""

    @wraps(method)
    def call(engine: Engine, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
        with lost_sessions_explained():
            return method(service(engine), *args, **kwargs)

    return call


def _catalog(engine: Engine) -> StreamCatalog:
    return engine._parts.catalog


def _administration(engine: Engine) -> StreamAdministration:
    return engine._services.administration


def _reading(engine: Engine) -> StreamReading:
    return engine._services.reading


def _consumption(engine: Engine) -> StreamConsumption:
    return engine._services.consumption


def _upserts(engine: Engine) -> UpsertAdministration:
    return engine._services.upserts


def _upserting(engine: Engine) -> Upserting:
    return engine._services.upserting


def _archives(engine: Engine) -> Archives:
    return engine._services.archives


def _change_streams(engine: Engine) -> ChangeStreamVerbs:
    return engine._parts.change_streams


def _change_stream_catalog(engine: Engine) -> ChangeStreamCatalog:
    return engine._parts.change_stream_catalog


def _partitions(engine: Engine) -> PartitionVerbs:
    return engine._parts.partitions


def _history(engine: Engine) -> HistoryVerbs:
    return engine._parts.history


def _provenance(engine: Engine) -> TargetProvenance:
    return engine._services.provenance


def _verification(engine: Engine) -> TargetVerification:
    return engine._services.verification


class Engine:
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
        ``airflow_provider_cdc.jobs.slot_meter.slot_meter(spark)``
    :param show_progress: show how far a consumption is if it takes longer than two seconds: as a
        bar in a notebook or a terminal, elsewhere as a line of the log every 30 seconds
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
        show_progress: bool = True,
    ) -> None:
        check_session(spark)
        parts = Parts(
            spark,
            state,
            storage_options=storage_options,
            on_progress=on_progress,
            clock=clock,
            strategy=strategy,
            principal=principal,
            slot_meter=slot_meter,
            show_progress=show_progress,
        )
        self._parts = parts
        self._services = Services(spark, parts, clock)
        for sweep in (parts.scratch.sweep, parts.results.sweep):
            with log_failures(f"sweeping {state}"):
                sweep()

    @validated_call
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
        :param mode: ``standard``, the default, ``append_only``, or ``feed``: every change of each
            commit, with the columns of :meth:`change_feed`; for a stream on files always
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
        :param max_data_extension: the longest time for which :meth:`maintain_streams` makes its
            sources keep what it has not consumed, as ``INTERVAL 14 DAY``, ``P14D`` or a
            ``timedelta``; zero: only as long as the sources keep it by themselves
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
        with lost_sessions_explained():
            return self._parts.creation.create(spec)

    @validated_call
    def rewind_stream(self, name: str, *, to: Point) -> Stream:
        """Move a stream back to an earlier point. It then returns the changes after it again.

        The registry records the actor and the time (:meth:`stream_history`). A target of a MERGE by
        a key does not change if it gets the same changes again.

        :param to: the new offset, as ``at`` of :meth:`create_stream`
        :raises StreamNotFound: there is no such stream
        :raises StreamConflict: a consumption of it is open
        :raises StreamAccessDenied: the principal may not consume it
        :raises InvalidRange: the source's history does not hold the point, or it is after the
            stream's offset
        :raises InvalidRequest: it is the stream of an upsert table
        :raises StreamUnusable: the change set after the point can no longer be read
        """
        with lost_sessions_explained():
            return self._parts.rewinding.rewind(name, to)

    describe_streams = _delegate(StreamAdministration.describe_streams, _administration)
    show_streams = _delegate(StreamAdministration.show_streams, _administration)
    describe_stream = _delegate(StreamAdministration.describe_stream, _administration)
    stream_history = _delegate(StreamCatalog.stream_history, _catalog)
    maintain_streams = _delegate(StreamAdministration.maintain_streams, _administration)
    advance_stream = _delegate(StreamCatalog.advance_stream, _catalog)
    enable_change_tracking = _delegate(StreamAdministration.enable_change_tracking, _administration)
    clone_table = _delegate(StreamAdministration.clone_table, _administration)
    drop_stream = _delegate(StreamCatalog.drop_stream, _catalog)
    undrop_stream = _delegate(StreamAdministration.undrop_stream, _administration)
    alter_stream = _delegate(StreamCatalog.alter_stream, _catalog)
    rename_stream = _delegate(StreamAdministration.rename_stream, _administration)
    clone_stream = _delegate(StreamAdministration.clone_stream, _administration)

    stream_has_data = _delegate(StreamReading.stream_has_data, _reading)
    read_stream = _delegate(StreamReading.read_stream, _reading)
    changes = _delegate(StreamReading.changes, _reading)
    change_feed = _delegate(StreamReading.change_feed, _reading)
    explain_stream = _delegate(StreamReading.explain_stream, _reading)

    consume = _delegate(StreamConsumption.consume, _consumption)
    transaction = _delegate(StreamConsumption.transaction, _consumption)
    read_and_consume = _delegate(StreamConsumption.read_and_consume, _consumption)
    recover_stream = _delegate(StreamConsumption.recover_stream, _consumption)
    abort_consumption = _delegate(StreamConsumption.abort_consumption, _consumption)

    apply_changes = _delegate(HistoryVerbs.apply_changes, _history)
    read_scd = _delegate(HistoryVerbs.read_scd, _history)
    rebuild_history = _delegate(HistoryVerbs.rebuild_history, _history)

    archive_changes = _delegate(Archives.archive_changes, _archives)
    replay = _delegate(Archives.replay, _archives)
    provenance = _delegate(TargetProvenance.provenance, _provenance)
    verify_target = _delegate(TargetVerification.verify_target, _verification)

    create_change_stream = _delegate(ChangeStreamVerbs.create_change_stream, _change_streams)
    alter_change_stream = _delegate(ChangeStreamVerbs.alter_change_stream, _change_streams)
    drop_change_stream = _delegate(ChangeStreamVerbs.drop_change_stream, _change_streams)
    list_change_streams = _delegate(ChangeStreamCatalog.list_change_streams, _change_stream_catalog)
    advance_change_stream = _delegate(ChangeStreamVerbs.advance_change_stream, _change_streams)
    split_partition = _delegate(ChangeStreamVerbs.split_partition, _change_streams)
    merge_partitions = _delegate(ChangeStreamVerbs.merge_partitions, _change_streams)
    read_change_stream = _delegate(ChangeStreamVerbs.read_change_stream, _change_streams)
    list_partitions = _delegate(ChangeStreamCatalog.list_partitions, _change_stream_catalog)
    consume_partition = _delegate(PartitionVerbs.consume_partition, _partitions)
    process_partition = _delegate(PartitionVerbs.process_partition, _partitions)
    settle_partitions = _delegate(ChangeStreamCatalog.settle_partitions, _change_stream_catalog)
    published_watermark = _delegate(ChangeStreamCatalog.published_watermark, _change_stream_catalog)
    describe_change_streams = _delegate(
        ChangeStreamCatalog.describe_change_streams, _change_stream_catalog
    )
    query_change_stream = _delegate(ChangeStreamVerbs.query_change_stream, _change_streams)
    change_records = _delegate(ChangeStreamVerbs.change_records, _change_streams)

    create_upsert_table = _delegate(UpsertAdministration.create_upsert_table, _upserts)
    alter_upsert_table = _delegate(UpsertAdministration.alter_upsert_table, _upserts)
    add_columns = _delegate(UpsertAdministration.add_columns, _upserts)
    drop_upsert_table = _delegate(UpsertAdministration.drop_upsert_table, _upserts)
    describe_upsert_table = _delegate(UpsertAdministration.describe_upsert_table, _upserts)
    write_changes = _delegate(Upserting.write_changes, _upserting)
    change_sink = _delegate(Upserting.change_sink, _upserting)
    redrive_changes = _delegate(Upserting.redrive_changes, _upserting)
    apply_upserts = _delegate(Upserting.apply_upserts, _upserting)
    read_upsert_table = _delegate(Upserting.read_upsert_table, _upserting)
    query_upsert_table = _delegate(Upserting.query_upsert_table, _upserting)
    upsert_usage = _delegate(UpsertAdministration.upsert_usage, _upserts)
    recommended_max_staleness = _delegate(UpsertAdministration.recommended_max_staleness, _upserts)
