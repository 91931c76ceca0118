"""Computes a history target anew, from everything that an archive of its source holds."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ...consumption.ports import OpenChangeSets
from ...core.archives.definition import COMMIT_VERSION, ROW_ID, Archive
from ...core.change_feed.feed_options import ChangeType, FeedColumns, OutOfRange
from ...core.change_feed.feed_request import FeedEdge
from ...core.errors import InvalidRequest
from ...core.history.options import SourceKind
from ...core.model.outcomes import Outcome
from ...core.model.stream import ColumnStyle, StreamMode
from ...core.names import moment_sql, quote, table_name
from ...storage.delta.commit_times import CommitTimes
from ...storage.delta.delta_log import DeltaLog
from ...storage.files.stores import Files
from ...storage.sources.source_log import StreamSpan
from ..archives.archive_tables import ArchiveTables
from ..archives.archived_changes import ArchivedChanges
from ..change_feed.feed_reader import OF_ARCHIVES
from ..reading.change_feeds import ChangeFeeds, FeedRequest
from .applying import Applying
from .event_rows import events
from .history_target import HistoryTarget
from .payloads import unwrapped
from .source_rows import SourceRows
from .stream_queries import query_of_stream
from .target_tables import HistoryTables

_FEED = FeedColumns()


@dataclass(frozen=True, slots=True)
class Rebuilding:
    """Rebuilds the history targets of one session."""

    spark: SparkSession
    tables: HistoryTables
    applying: Applying
    archives: ArchiveTables
    archived: ArchivedChanges
    feeds: ChangeFeeds
    files: Files

    def rebuild(
        self, name: str, archive_name: str, stream: str, query: str | None, consumer: str
    ) -> Outcome:
        """Replace all rows of a target in one commit; see ``Engine.rebuild_history``."""
        target = self.tables.get(table_name(name))
        if target.options.source is not SourceKind.STREAM:
            raise InvalidRequest(
                target.subject,
                "cannot be rebuilt from an archive",
                cause=f"its source is a {target.options.source}, which no archive holds",
                fix="name a target whose source is a stream",
            )
        archive = self.archives.get(table_name(archive_name))
        self.archives.check_untouched(archive)
        made: list[str] = []

        def find(span: StreamSpan, _: OpenChangeSets) -> tuple[HistoryTarget, DataFrame]:
            rows = self._rows(target, archive, span)
            if query is not None:
                view = f"cdc_{uuid.uuid4().hex}"
                rows.createOrReplaceTempView(view)
                made.append(view)
                rows = query_of_stream(self.spark, span.stream.name, view, query)
            # The rows of an archive have the form of a feed, whatever the stream returns.
            feed = replace(span.stream, mode=StreamMode.FEED, column_style=ColumnStyle.SNOWFLAKE)
            log = DeltaLog(span.stream.source.location, self.files)
            moment = CommitTimes(log).of_offset(span.tables[0].end)
            source = unwrapped(
                SourceRows(rows, feed, moment),
                target.options,
                target.subject,
                lambda: target.data_columns,
            )
            # The last changes may have columns that the target does not have yet.
            found = self.tables.opened(table_name(name), target.options, source, None)
            return found, events(self.spark, source, found)

        try:
            return self.applying.replace_all(target.subject, stream, consumer, find)
        finally:
            for view in made:
                self.spark.catalog.dropTempView(view)

    def _rows(self, target: HistoryTarget, archive: Archive, span: StreamSpan) -> DataFrame:
        """Every change of the source up to the end of ``span``."""
        stream, end = span.stream, span.tables[0].end
        if stream.source.table_id != archive.table_id:
            raise InvalidRequest(
                target.subject,
                f"cannot be rebuilt from {archive.name}",
                cause=f"that is an archive of {archive.source}, and stream {stream.name} is on"
                f" {stream.table_on}",
                fix="name the archive of the table that the stream is on",
            )
        if end.version <= archive.after and not archive.has_initial_rows:
            raise InvalidRequest(
                target.subject,
                f"cannot be rebuilt from {archive.name}",
                cause="it holds no change before the offset of the stream",
                fix="create an archive with bootstrap=True: it begins with all rows",
            )
        initial = self._initial(archive) if archive.has_initial_rows else None
        if end.version <= archive.after:
            assert initial is not None
            return initial
        request = FeedRequest(
            FeedEdge("from", archive.after + 1, None),
            FeedEdge("to", end.version, None),
            OutOfRange.ERROR,
            OF_ARCHIVES,
            archive=archive.sql,
        )
        rows = self.feeds.read(table_name(stream.source.location), request)
        return rows if initial is None else initial.unionByName(rows, allowMissingColumns=True)

    def _initial(self, archive: Archive) -> DataFrame:
        """The rows with which an archive began, as inserts of their version."""
        version = archive.after
        condition = f"{COMMIT_VERSION} <= {version}L"
        place = archive.era_at(version)
        found = self.archived.rows_at(archive, condition, place, with_ids=True)
        return found.select(
            *(quote(name) for name in found.columns if name != ROW_ID),
            F.lit(ChangeType.INSERT.value).alias(_FEED.change_type),
            F.lit(version).cast("bigint").alias(_FEED.commit_version),
            F.expr(moment_sql(archive.after_timestamp)).alias(_FEED.commit_timestamp),
            quote(ROW_ID),
        )
