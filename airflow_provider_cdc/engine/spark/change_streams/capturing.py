"""Captures the changes that the clock of a change stream has sealed, each exactly once.

The state names the stamp through which a capture writes before it writes. So the next capture
repeats a killed one with the same commits, and skips it if that one was published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ...core.change_feed.feed_options import FeedColumns, FeedSchema, FeedSource
from ...core.change_streams.captures import compactable
from ...core.change_streams.clock import StampedCommit
from ...core.change_streams.definition import ChangeStream
from ...core.change_streams.stamps import stamp_of
from ...core.change_streams.watches import WatchedTable
from ...core.delta.log_actions import Commit
from ...core.delta.table_schema import Layout, physical_name
from ...core.delta.tracking import offset_after
from ...core.errors import (
    CdcError,
    InvalidRequest,
    StatementFailed,
    StreamConflict,
    StreamStale,
    StreamUnusable,
)
from ...core.model.lifecycle import Transition, next_phase
from ...core.model.sources import Offset
from ...core.model.stream import Stream
from ...storage.delta.delta_log import DeltaLog, LogIncomplete
from ...storage.files.best_effort import log_failures
from ...storage.files.scratch import Scratch
from ...storage.files.stores import Files
from ...storage.registry.registry import Registry
from ...storage.registry.registry_snapshot import Change
from ...storage.sources.source_log import SourceLog, SourceRange
from ...storage.state.change_streams import ChangeStreams
from ..change_feed.feed_reader import FeedOptions, FeedRead, FeedReader
from ..session.failures import has_ended, reason
from .capture_files import CaptureFiles
from .captured_rows import DUPLICATE_KEY, CapturedTable, feed_columns

_OPTIONS = FeedOptions(FeedSource.AUTO, FeedSchema.END, FeedColumns(), row_ids=True)
_BYTES_OF_A_TASK = 16 * 1024 * 1024
_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_PLACES_TRIED = 64


@dataclass(frozen=True, slots=True)
class Capturing:
    """Captures the changes of the change streams in one state folder."""

    spark: SparkSession
    streams: ChangeStreams
    captures: CaptureFiles
    files: Files
    registry: Registry
    sources: SourceLog
    reader: FeedReader
    scratch: Scratch
    principal: str
    clock: Callable[[], datetime]

    def capture(self, name: str) -> ChangeStream:
        """Capture everything that is sealed, and return the state after it.

        :raises StreamConflict: another capture of it runs at the same time
        :raises StreamStale: commits or files that are not captured yet were removed
        :raises InvalidRequest: several rows have the same key, or a key was dropped
        """
        found = self._aligned(self.streams.get(name))
        while found.pending:
            found = self._batch(found)
        return self._expired(found, stamp_of(self.clock()))

    def _expired(self, stream: ChangeStream, now: int) -> ChangeStream:
        """From time to time, remove what is older than the retention period, and compact."""
        if not stream.is_expiring_at(now):
            return stream
        before = stream.oldest_at(now)
        captures = self.captures.captures
        # A later advance does what this one cannot do; what is captured stays readable.
        with log_failures(f"removing and compacting captures of {stream.subject}"):
            captures.expire(stream, before, now)
            kept = captures.between(stream, before, stream.captured)
            for several in compactable(kept, stream.captured):
                self.captures.compact(stream, several, now)
        return self.streams.update(stream.name, lambda known: known.expired_before(before))

    def _batch(self, stream: ChangeStream) -> ChangeStream:
        through = stream.capturing
        if through is None:
            through = end = stream.pending[-1].stamp

            def begun(known: ChangeStream) -> ChangeStream:
                if known.capturing is not None or known.pending[:1] != stream.pending[:1]:
                    raise _at_once(stream)
                return replace(known, capturing=end)

            stream = self.streams.update(stream.name, begun)
        taken = [each for each in stream.pending if each.stamp <= through]
        self._write(stream, taken, through)

        def captured(known: ChangeStream) -> ChangeStream:
            return known.after_capture(through) if known.capturing == through else known

        return self._aligned(self.streams.update(stream.name, captured))

    def _write(self, stream: ChangeStream, taken: Sequence[StampedCommit], through: int) -> None:
        span = (taken[0].stamp, through)
        if self.captures.captures.is_published(stream, span):
            return
        try:
            with self._feeds(stream, taken) as parts:
                if parts:
                    self.captures.write(stream, parts, span, stamp_of(self.clock()))
        except CdcError:
            raise
        except Exception as error:  # pyspark has no classes for errors of the JVM
            cause = reason(error)
            if not has_ended(error):
                raise
            if DUPLICATE_KEY in cause:
                raise _duplicate(stream, cause) from None
            raise StatementFailed(
                stream.subject,
                "could not be captured; no record was lost",
                cause=cause,
                fix="advance it again",
            ) from error

    @contextmanager
    def _feeds(
        self, stream: ChangeStream, taken: Sequence[StampedCommit]
    ) -> Iterator[list[tuple[CapturedTable, DataFrame]]]:
        """The rows to capture of each table that has commits in ``taken``."""
        found: list[tuple[CapturedTable, DataFrame]] = []
        roots: list[str] = []
        try:
            for table in stream.tables:
                identity = table.source.table_id
                commits = [each for each in taken if each.commit.table == identity]
                commits.sort(key=lambda each: each.commit.version)
                if not commits:
                    continue
                span = self._span(stream, table, commits[-1].commit.version)
                for run in () if span is None else _runs(span):
                    read = self._feed(stream, table, run)
                    roots.extend(read.scratch)
                    if read.row_count != 0:
                        found.append(self._part(stream, table, run, commits, read))
            yield found
        finally:
            for root in roots:
                self.scratch.remove(root)

    def _part(
        self,
        stream: ChangeStream,
        table: WatchedTable,
        run: SourceRange,
        commits: Sequence[StampedCommit],
        read: FeedRead,
    ) -> tuple[CapturedTable, DataFrame]:
        layout = Layout.of(run.end.metadata)
        _check_keys(stream, table, layout)
        versions = {commit.version for commit in run.commits}
        within = [each for each in commits if each.commit.version in versions]
        part = CapturedTable(table, layout, within, stream.layout, stream.settings)
        rows = None if read.row_count is None else part.inserts(read.rows)
        if rows is None:
            rows = part.rows(read.rows, self._tasks(read.plan.size_bytes), self._placed)
        return part, rows

    def _feed(self, stream: ChangeStream, table: WatchedTable, span: SourceRange) -> FeedRead:
        columns = feed_columns(Layout.of(span.end.metadata))
        try:
            return self.reader.read(span, replace(_OPTIONS, columns=columns))
        except CdcError as error:
            raise _cannot_capture(stream, table, error) from None

    def _span(self, stream: ChangeStream, table: WatchedTable, through: int) -> SourceRange | None:
        """The commits of a table that are not captured, up to the version ``through``; ``None``:
        they were seen to change nothing.
        """
        source = self._source(stream, table)
        if source.offset.version >= through:
            return None
        try:
            return self.sources.range(source, through=through)
        except CdcError as error:
            raise _cannot_capture(stream, table, error) from None

    def _source(self, stream: ChangeStream, table: WatchedTable) -> Stream:
        """The stream that makes a table keep what is not captured."""
        found = self.registry.snapshot().find(table.stream)
        if found is not None and found.offset.version == table.captured:
            return found
        known = self.streams.get(stream.name)
        if known.stream_id != stream.stream_id or known.tables != stream.tables:
            raise _at_once(stream)
        if found is not None and self._was_skipped(found, table.captured):
            return found
        at = "it was dropped" if found is None else f"it is at version {found.offset.version}"
        raise InvalidRequest(
            stream.subject,
            f"cannot capture {table.name}, stream {table.stream} was moved by hand",
            cause=f"expected it at version {table.captured}, and {at}",
            fix=f"bring it back with engine.undrop_stream({table.stream!r})"
            if found is None
            else f"engine.rewind_stream({table.stream!r}, to=Version({table.captured}))",
        )

    def _was_skipped(self, source: Stream, captured: int) -> bool:
        """Whether the stream moved over commits that changed nothing, as empty streams do."""
        log = DeltaLog(source.source.location, self.files)
        try:
            skipped = list(log.commits(after=captured, through=source.offset.version))
        except LogIncomplete:
            return False
        return bool(skipped) and not any(
            commit.changes_data or commit.metadata is not None for commit in skipped
        )

    def _aligned(self, stream: ChangeStream) -> ChangeStream:
        """Let the streams on the tables follow what is captured, so that the tables need not keep
        it. A killed capture may have left them at an earlier version.
        """
        snapshot = self.registry.snapshot()
        changes = []
        for table in stream.tables:
            found = snapshot.find(table.stream)
            if found is None or found.offset.version >= table.captured:
                continue
            end: Offset = self.sources.range(found, through=table.captured).end
            phase = next_phase(found, Transition.ADVANCED)
            moved = replace(found.with_offsets(end), phase=phase)
            changes.append(Change(moved, Transition.ADVANCED))
        if changes:
            # Another capture may do the same at the same time.
            with suppress(StreamConflict):
                self.registry.transact(snapshot, changes, actor=self.principal)
        return stream

    def _tasks(self, size_bytes: int) -> int:
        most = int(self.spark.conf.get(_SHUFFLE_PARTITIONS) or 1)
        return max(1, min(most, size_bytes // _BYTES_OF_A_TASK + 1))

    def _placed(self, tasks: int) -> Sequence[int]:
        return _places(self.spark, tasks)


@cache
def _places(spark: SparkSession, tasks: int) -> Sequence[int]:
    """For each of so many tasks, a number whose hash lets Spark give it to that task."""
    number = F.col("id").cast("int")
    tried = spark.range(0, tasks * _PLACES_TRIED, 1, 1).select(
        F.pmod(F.hash(number), F.lit(tasks)), number
    )
    found = {row[0]: row[1] for row in tried.collect()}
    return [found[task] for task in range(tasks)]


def _runs(span: SourceRange) -> Iterator[SourceRange]:
    """The parts of a range within which the table keeps its columns."""
    layout, start, run = Layout.of(span.start.metadata), span.start, list[Commit]()
    for commit in span.commits:
        if commit.metadata is not None and not Layout.of(commit.metadata).reads_as(layout):
            layout = Layout.of(commit.metadata)
            if run:
                end = offset_after(start, run)
                yield SourceRange(span.stream.with_offsets(start), start, end, tuple(run))
                start, run = end, []
        run.append(commit)
    yield SourceRange(span.stream.with_offsets(start), start, span.end, tuple(run))


def _check_keys(stream: ChangeStream, table: WatchedTable, layout: Layout) -> None:
    names = set(map(physical_name, layout.fields))
    lost = next((key for key in table.keys if key not in names), None)
    if lost is not None:
        raise StreamUnusable(
            stream.subject,
            f"cannot capture {table.name}",
            cause=f"its key column {lost} was dropped",
            fix="create the change stream again with or_replace=True and another key",
        )


def _cannot_capture(stream: ChangeStream, table: WatchedTable, error: CdcError) -> CdcError:
    kind = type(error) if isinstance(error, StreamUnusable) else StreamStale
    return kind(
        stream.subject,
        f"cannot capture {table.name}, {error.problem}",
        cause=error.cause,
        fix="create the change stream again with or_replace=True: it begins with the newest"
        " versions, and its records until now are removed, so read them first",
    )


def _at_once(stream: ChangeStream) -> StreamConflict:
    return StreamConflict(
        stream.subject,
        "was captured by another process at the same time; nothing was written twice",
        cause="two processes called advance_change_stream",
        fix="run one at a time",
    )


def _duplicate(stream: ChangeStream, cause: str) -> InvalidRequest:
    found = cause[cause.index(DUPLICATE_KEY) + len(DUPLICATE_KEY) :].partition("\n")[0]
    return InvalidRequest(
        stream.subject,
        "cannot capture rows with the same key, nothing was written",
        cause=f"several rows have a key of {found}",
        fix=f"engine.alter_change_stream({stream.name!r}, on_duplicate_key='quarantine') keeps them"
        " apart; or create the change stream again with a key that is unique",
    )
