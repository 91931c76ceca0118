"""The sources of history targets: streams, queries and snapshots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession

from ...consumption.attempts import BEGIN_TRIES
from ...consumption.ports import OpenChangeSets
from ...core.arguments.expressions import plain_column
from ...core.consumption.batches import BatchLimit
from ...core.delta.columns import Column
from ...core.errors import InvalidRequest, StreamConflict, StreamMoved
from ...core.history.request import HistoryRequest
from ...core.model.outcomes import Outcome
from ...core.names import name_key, table_name
from ...core.sql.stream_queries import is_query
from ...storage.delta.commit_times import CommitTimes
from ...storage.delta.delta_log import DeltaLog
from ...storage.files.stores import Files
from ...storage.sources.source_log import StreamSpan
from ..session.session_settings import any_version
from .applying import Applying
from .event_rows import events
from .history_target import HistoryTarget
from .payloads import unwrapped
from .plans import Planning, named_faults
from .snapshots import Snapshots
from .source_rows import SourceRows
from .staging import Staging, staged_events
from .stream_queries import query_of_stream, query_of_tables
from .target_tables import HistoryTables


@dataclass(frozen=True, slots=True)
class HistorySources:
    """Applies the events of any source."""

    spark: SparkSession
    tables: HistoryTables
    planning: Planning
    applying: Applying
    staging: Staging
    snapshots: Snapshots
    files: Files
    clock: Callable[[], datetime]

    def apply(self, request: HistoryRequest, consumer: str) -> Outcome | None:
        """Apply what the source of ``request`` has. ``None``: it has nothing new."""
        if request.stream is not None:
            return self._apply_stream(request, request.stream, consumer)
        if request.query is not None:
            rows = SourceRows(self._queried(request.query))
            target, found = self._events(request, self._unwrapped(request, rows))
            outcome = self._drain(target, consumer)
            return self._stage_and_apply(target, found, consumer) or outcome
        assert request.snapshot is not None
        return self._apply_snapshot(request, request.snapshot, consumer)

    def _apply_stream(self, request: HistoryRequest, stream: str, consumer: str) -> Outcome | None:
        def find(span: StreamSpan, views: OpenChangeSets) -> tuple[HistoryTarget, DataFrame]:
            name = span.stream.name
            if request.query is None:
                rows = self.spark.table(views.names[name])
            else:
                rows = query_of_stream(self.spark, name, views.names[name], request.query)
            source = self._unwrapped(request, self._source(span, rows))
            if request.query is None:
                _check_deletes(request, source)
            return self._events(request, source)

        def is_missing() -> bool:
            return self.tables.tables.find(table_name(request.target)) is None

        limit = request.limit
        return self.applying.apply(request.subject, stream, consumer, limit, find, is_missing)

    def _apply_snapshot(
        self, request: HistoryRequest, snapshot: str, consumer: str
    ) -> Outcome | None:
        rows, moment = self._snapshot(snapshot)
        moment = request.snapshot_at or moment
        target = self._opened(request, SourceRows(rows, moment=moment))
        outcome = self._drain(target, consumer)
        self.snapshots.check_newer(target, moment)
        for _ in range(BEGIN_TRIES):
            before = DeltaLog(target.table.location, self.files).latest_version()
            found = self.snapshots.events(target, rows, moment)
            outcome = self._stage_and_apply(target, found, consumer) or outcome
            # What others wrote meanwhile may differ from the snapshot again.
            if outcome is None or outcome.statements[-1].target_version == before + 1:
                return outcome
        raise StreamConflict(
            target.subject,
            "could not be compared with a snapshot",
            cause="others kept writing to it",
            fix="let one task write to it",
        )

    def _stage_and_apply(
        self, target: HistoryTarget, rows: DataFrame, consumer: str
    ) -> Outcome | None:
        """Let events wait, and apply them. What cannot be applied is refused before it waits, so it
        never blocks other events. ``None``: there is no event.
        """
        with named_faults(target):
            # A query may return other rows when it runs again.
            events = rows.localCheckpoint(eager=True)
        if events.isEmpty():
            return None
        with self.planning.plan(target, staged_events(target, events)) as plan:
            self.staging.stage(target, events)
            try:
                return self.applying.apply_planned(target, plan, consumer)
            except StreamMoved:
                pass
        return self._drain(target, consumer)

    def _snapshot(self, snapshot: str) -> tuple[DataFrame, datetime]:
        """The rows of a table, or of a query, and the moment that they show."""
        if is_query(snapshot):
            return self._queried(snapshot), self.clock()
        table = self.tables.tables.get(table_name(snapshot))
        log = DeltaLog(table.location, self.files)
        version = log.latest_version()
        rows = self.spark.read.format("delta").option("versionAsOf", version)
        with any_version(self.spark):
            found = rows.load(table.location)
        return found, CommitTimes(log).of_newest()

    def _drain(self, target: HistoryTarget, consumer: str) -> Outcome | None:
        """Apply the events that wait beside the target. ``None``: none waits."""

        def find(span: StreamSpan, views: OpenChangeSets) -> tuple[HistoryTarget, DataFrame]:
            rows = self.spark.table(views.names[span.stream.name])
            return target, staged_events(target, rows)

        if not self.staging.is_begun(target):
            return None
        limit = BatchLimit()
        return self.applying.apply(target.subject, target.stream, consumer, limit, find)

    def _opened(self, request: HistoryRequest, source: SourceRows) -> HistoryTarget:
        name = table_name(request.target)
        return self.tables.opened(name, request.options, source, request.cluster_by)

    def _events(
        self, request: HistoryRequest, source: SourceRows
    ) -> tuple[HistoryTarget, DataFrame]:
        target = self._opened(request, source)
        return target, events(self.spark, source, target)

    def _unwrapped(self, request: HistoryRequest, source: SourceRows) -> SourceRows:
        def known() -> Sequence[Column] | None:
            return self.tables.known_columns(table_name(request.target))

        return unwrapped(source, request.options, request.subject, known)

    def _source(self, span: StreamSpan, rows: DataFrame) -> SourceRows:
        stream, (table, *_) = span.stream, span.tables
        if stream.folder is not None:
            return SourceRows(rows, stream, table.end.timestamp)
        log = DeltaLog(table.stream.source.location, self.files)
        return SourceRows(rows, stream, CommitTimes(log).of_offset(table.end))

    def _queried(self, query: str) -> DataFrame:
        streams = self.applying.parts.registry.snapshot().streams()
        return query_of_tables(self.spark, [each.name for each in streams], query)


def _check_deletes(request: HistoryRequest, source: SourceRows) -> None:
    """Refuse a history whose deletes have no sequence of their own.

    :raises InvalidRequest: a deleted row would have the sequence of the row before it, and replace
        it
    """
    options, own = request.options, set(map(name_key, source.metadata_columns))
    names = [plain_column(text) for text in options.sequence_by]
    is_of_row = all(name is not None and name_key(name) not in own for name in names)
    is_unsaid = options.apply_as_deletes is None
    if options.is_type_2 and names and is_of_row and source.shows_updates and is_unsaid:
        raise InvalidRequest(
            request.subject,
            "cannot order the deletes of its stream",
            cause=f"a deleted row has the {', '.join(options.sequence_by)} that it had before",
            fix="leave sequence_by out; or pass apply_as_deletes='false' to ignore deletes; or"
            " let a query give them a sequence of their own",
        )
