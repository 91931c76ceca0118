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
from ...core.delta.catalog_managed import check_not_catalog_managed
from ...core.delta.tracking import offset_before, offset_of
from ...core.errors import CdcError, InvalidRequest
from ...core.model.sources import Base, Offset
from ...core.model.stream import new_stream
from ...core.names import TableName
from ...storage.delta.delta_log import DeltaLog, LogIncomplete
from ...storage.files.stores import Files
from ...storage.sources.feed_bounds import FeedBounds, cleaned_up
from ...storage.sources.source_log import SourceLog
from ..change_feed.feed_reader import FeedOptions, FeedReader
from ..session.failures import first_line
from .found_sources import FoundSource, Sources

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ChangeFeeds:
    """Reads change feeds; it writes nothing."""

    spark: SparkSession
    sources: Sources
    logs: SourceLog
    reader: FeedReader
    files: Files
    clock: Callable[[], datetime]

    def read(
        self,
        name: TableName,
        first: FeedEdge,
        last: FeedEdge,
        out_of_range: OutOfRange,
        options: FeedOptions,
        where: str | None,
    ) -> DataFrame:
        """The feed of a table; see ``Engine.change_feed``."""
        subject = f"change feed of {name.sql}"
        bounds = self._bounds(subject, first, last, out_of_range)
        found = self._table(subject, name)
        (newest,) = found.newest
        check_not_catalog_managed(subject, "cannot be read", newest.protocol)
        log = DeltaLog(found.bases[0].source.location, self.files)
        versions = bounds.versions(subject, log)
        start = self._start(subject, log, versions.start) if versions else newest
        through = versions[-1] if versions else newest.version
        passing = new_stream(
            found.name,
            (Base(found.bases[0].source, start),),
            created_at=self.clock(),
            owner="",
        )
        try:
            span = self.logs.every_commit(passing, through=through)
            rows = self.reader.read(span, options).rows
        except LogIncomplete as error:
            raise cleaned_up(subject, f"version {error.missing_version}") from None
        except CdcError as error:
            raise type(error)(subject, error.problem, cause=error.cause, fix=error.fix) from None
        return rows if where is None else _filtered(subject, rows, where)

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

    def _bounds(
        self, subject: str, first: FeedEdge, last: FeedEdge, out_of_range: OutOfRange
    ) -> FeedBounds:
        start = first.point(subject, self._moment_of)
        if start is None:
            raise InvalidRequest(
                subject,
                "has no beginning",
                cause="expected from_version or from_timestamp, found neither",
                fix="pass the first version or time, such as from_version=0",
            )
        return FeedBounds(start, last.point(subject, self._moment_of), out_of_range)

    def _moment_of(self, text: str) -> datetime | None:
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
