"""The change feed of a table: every change of each commit between two bounds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ...core.change_feed.feed_options import OutOfRange
from ...core.change_feed.feed_request import FeedEdge
from ...core.delta.tracking import offset_before, offset_of
from ...core.errors import CdcError, InvalidRequest
from ...core.model.sources import Base, Offset
from ...core.model.stream import new_stream
from ...core.names import TableName, quote, table_name
from ...storage.delta.delta_log import DeltaLog, LogIncomplete
from ...storage.files.stores import Files
from ...storage.sources.feed_bounds import FeedBounds, cleaned_up
from ...storage.sources.source_log import SourceLog, SourceRange
from ..change_feed.feed_reader import FeedOptions, FeedReader
from ..session.failures import first_line
from .archived_feeds import ArchivedFeeds
from .found_sources import FoundSource, Sources

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class FeedRequest:
    """The feed that a caller asks for; see ``Engine.change_feed``."""

    first: FeedEdge
    last: FeedEdge
    out_of_range: OutOfRange
    options: FeedOptions
    where: str | None = None
    archive: str | None = None


@dataclass(frozen=True, slots=True)
class ChangeFeeds:
    """Reads change feeds; it writes nothing."""

    spark: SparkSession
    sources: Sources
    logs: SourceLog
    reader: FeedReader
    archived: ArchivedFeeds
    files: Files
    clock: Callable[[], datetime]

    def read(self, name: TableName, request: FeedRequest) -> DataFrame:
        """The feed of a table; see ``Engine.change_feed``."""
        subject = f"change feed of {name.sql}"
        bounds = self._bounds(subject, request)
        found = self._table(subject, name)
        try:
            rows = self._rows(subject, found, bounds, request)
        except LogIncomplete as error:
            raise cleaned_up(subject, f"version {error.missing_version}") from None
        return rows if request.where is None else _filtered(subject, rows, request.where)

    def _rows(
        self, subject: str, found: FoundSource, bounds: FeedBounds, request: FeedRequest
    ) -> DataFrame:
        """The feed, without its condition."""
        log = DeltaLog(found.bases[0].source.location, self.files)
        part = None
        if request.archive is not None:
            part = self.archived.part(subject, found, bounds, log, table_name(request.archive))
        if part is None:
            span = self._span(subject, found, log, bounds.versions(subject, log))
            return self._read(subject, span, request.options)
        span = self._span(subject, found, log, part.table_versions, part.offset)
        archived = self.archived.rows(subject, part, span, request.options)
        if not part.table_versions:
            return archived
        rest = self._read(subject, span, request.options)
        return archived.unionByName(rest, allowMissingColumns=True).select(
            *(quote(column) for column in _in_order(archived, rest, request.options))
        )

    def _span(
        self,
        subject: str,
        found: FoundSource,
        log: DeltaLog,
        versions: range,
        before: Offset | None = None,
    ) -> SourceRange:
        """The commits of ``versions``; without any, an empty range at the newest commit.

        :param before: the offset before them, if it is known
        """
        (newest,) = found.newest
        start = newest
        if versions:
            start = before or self._start(subject, log, versions.start)
        through = versions[-1] if versions else newest.version
        passing = new_stream(
            found.name,
            (Base(found.bases[0].source, start),),
            created_at=self.clock(),
            owner="",
        )
        return self.logs.every_commit(passing, through=through)

    def _read(self, subject: str, span: SourceRange, options: FeedOptions) -> DataFrame:
        try:
            return self.reader.read(span, options).rows
        except CdcError as error:
            raise type(error)(subject, error.problem, cause=error.cause, fix=error.fix) from None

    def _table(self, subject: str, name: TableName) -> FoundSource:
        if self.sources.definitions.is_view(name):
            raise InvalidRequest(
                subject,
                "cannot be read, it is a view",
                cause="a view has no commits of its own",
                fix="read the feed of one of its tables, or the net changes of the view with"
                " engine.changes",
            )
        return self.sources.table(name)

    def _bounds(self, subject: str, request: FeedRequest) -> FeedBounds:
        start = request.first.point(subject, self.moment_of)
        if start is None:
            raise InvalidRequest(
                subject,
                "has no beginning",
                cause="expected from_version or from_timestamp, found neither",
                fix="pass the first version or time, such as from_version=0",
            )
        end = request.last.point(subject, self.moment_of)
        return FeedBounds(start, end, request.out_of_range)

    def moment_of(self, text: str) -> datetime | None:
        """The moment of a time in the session's time zone, as Spark understands it."""
        moment = F.unix_micros(F.lit(text).try_cast("timestamp"))
        micros = self.spark.range(1).select(moment).head()
        if micros is None or micros[0] is None:
            return None
        try:
            return _EPOCH + timedelta(microseconds=micros[0])
        except OverflowError:
            return None

    @staticmethod
    def _start(subject: str, log: DeltaLog, first: int) -> Offset:
        """The offset right before version ``first``."""
        try:
            if first == 0:
                return offset_before(log.state_at(0))
            with suppress(LogIncomplete):
                return offset_of(log.state_at(first - 1))
            # The log begins with this version. What was in force before it is still in force.
            oldest = log.commit(first)
            if oldest.metadata is None and oldest.protocol is None:
                return replace(offset_of(log.state_at(first)), version=first - 1, fingerprint="")
            raise LogIncomplete(first - 1)
        except LogIncomplete as error:
            raise cleaned_up(subject, f"version {error.missing_version}") from None


def _in_order(one: DataFrame, other: DataFrame, options: FeedOptions) -> list[str]:
    """All columns of both frames: those of the table, then those of the feed."""
    names = list(dict.fromkeys([*one.columns, *other.columns]))
    own = len(options.columns.names) + options.row_ids
    of_feed = one.columns[-own:]
    return [*(name for name in names if name not in of_feed), *of_feed]


def _filtered(subject: str, rows: DataFrame, condition: str) -> DataFrame:
    try:
        found = rows.where(condition)
        # Over Spark Connect, this is the first look at the condition.
        _ = found.schema
    except PySparkException as error:
        raise InvalidRequest(
            subject,
            f"cannot be filtered by {condition!r}",
            cause=first_line(error),
            fix="pass a condition on the columns of the feed, such as _change_type <> 'delete'",
        ) from None
    return found
