"""The log of a stream's source: where the stream is in it, and which commits came after that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from ...clock import utc_now
from ...core.change_sets.candidates import Candidates, candidates
from ...core.change_sets.has_data_scan import DataProbe, HasDataScan
from ...core.change_sets.net_files import inserted_files
from ...core.change_sets.new_files import without_superseded
from ...core.change_sets.rewrites import net_difference
from ...core.consumption.batches import BatchLimit
from ...core.consumption.statement_log import settled_batch
from ...core.delta.layout_history import keeps_fields
from ...core.delta.log_actions import Commit, DataFile
from ...core.delta.table_features import check_range_readable
from ...core.delta.table_schema import Layout
from ...core.delta.tracking import (
    check_source,
    check_tracking,
    describe_offset,
    is_tracked,
    offset_after,
    offset_of,
    precedes_all,
)
from ...core.errors import ChangeTrackingDisabled, InvalidRange, NotADeltaTable, StreamUnusable
from ...core.model.sources import Offset
from ...core.model.stream import AppendSemantics, Stream, StreamMode
from ..delta.delta_log import DeltaLog, Listing, LogIncomplete
from ..files.schemes import read_allowed
from ..files.stores import Files
from .folder_logs import FolderLogs
from .lost_sources import log_incomplete, source_missing, source_replaced

_RECENT_COMMITS = 20
_ALL = BatchLimit()
_LATER = "name a later point, or create a stream without one: it switches row tracking on"


@dataclass(frozen=True, slots=True)
class SourceRange:
    """What a stream has not consumed of one table: the commits after ``start`` up to ``end``,
    inclusive. For a folder, they leave out the files that were found overwritten or removed up to
    version ``seen_through``.
    """

    stream: Stream
    start: Offset
    end: Offset
    commits: tuple[Commit, ...]
    seen_through: int | None = None

    @property
    def added_files(self) -> list[DataFile]:
        """The files that its commits added, even if they no longer exist."""
        return [file for commit in self.commits for file in commit.adds]

    @property
    def layout(self) -> Layout | None:
        """The layout at its start if a commit may have changed the layout, otherwise ``None``."""
        is_kept = all(commit.metadata is None for commit in self.commits)
        return None if is_kept else Layout.of(self.start.metadata)

    @property
    def candidates(self) -> Candidates:
        """The files that may hold a change for the stream's mode."""
        return candidates(self.stream, self.commits, self.layout)

    @property
    def oldest(self) -> datetime | None:
        """The time of its oldest commit; ``None`` if it has no commit. The clocks of writers may
        differ, so the oldest commit is not always the first.
        """
        return min((commit.timestamp for commit in self.commits), default=None)


@dataclass(frozen=True, slots=True)
class StreamSpan:
    """What a stream has not consumed yet, table by table in the order of its bases."""

    stream: Stream
    tables: tuple[SourceRange, ...]

    @property
    def holds_nothing(self) -> bool:
        """Whether the stream may skip this range: it certainly holds no change for the stream's
        mode, and never will.

        For a view, any change of a table counts, because the rows that others are joined with have
        changed. A change of the columns of a table counts too, because the view may have another
        meaning after it. It also counts for a feed, because an archive has to follow each change.
        """
        return not self.may_be_refilled and all(map(self._is_empty, self.tables))

    @property
    def may_be_refilled(self) -> bool:
        """Whether a RESTORE may restore rows that were inserted in this range and deleted later. A
        stream with surviving semantics and an offset after this range would treat them as rows that
        it has seen, because of their ids.
        """
        if self.stream.mode is not StreamMode.APPEND_ONLY:
            return False
        is_surviving = self.stream.append_semantics is AppendSemantics.SURVIVING
        return is_surviving and any(inserted_files(table.commits) for table in self.tables)

    def _is_empty(self, table: SourceRange) -> bool:
        if table.candidates.are_there:
            return False
        if self.stream.mode is StreamMode.FEED:
            return keeps_fields(table.start, table.commits)
        if self.stream.view is None:
            return True
        is_empty = net_difference(table.commits, table.layout).is_empty
        return is_empty and keeps_fields(table.start, table.commits)


@dataclass(frozen=True, slots=True)
class StreamProbe:
    """The range that a stream has not consumed yet: the versions of its source after
    ``offset_version`` up to ``latest_version``, and whether they may hold a change. For a view, the
    versions are sums over its base tables, so they grow when the version of any table grows.

    ``data_version`` is the newest version whose commit says that it changed data, or the offset.
    Unlike the latest version, it does not move when files are only rearranged.
    """

    offset_version: int
    latest_version: int
    may_have_data: bool
    data_version: int


class SourceLog:
    """Reads the sources of streams, without Spark. The log of a folder is refreshed before it is
    read, unless the end of the range is given.

    :param clock: gives the time of new versions of such a log
    """

    def __init__(self, files: Files, clock: Callable[[], datetime] = utc_now) -> None:
        self._files = files
        self._folders = FolderLogs(files, clock)

    def newest_offset(self, location: str) -> Offset:
        """The offset at the newest version of the table at ``location``.

        :raises NotADeltaTable: there is no Delta log
        :raises InvalidRequest: its store does not let this process read it
        """
        with read_allowed(location):
            return offset_of(DeltaLog(location, self._files).newest_state())

    def newest_version(self, stream: Stream) -> int:
        """The newest version of the first table of ``stream``, from one listing. A folder is
        refreshed first.

        :raises NotADeltaTable: there is no Delta log
        :raises StreamUnusable: the folder is missing
        """
        self._folders.refresh(stream)
        log = DeltaLog(stream.source.location, self._files)
        return log.listing(since=stream.offset.version).latest_version

    def range(
        self,
        stream: Stream,
        *,
        through: int | None = None,
        seen_through: int | None = None,
        limit: BatchLimit = _ALL,
        is_open: bool | None = None,
    ) -> SourceRange:
        """What ``stream`` has not consumed of its only table. The range is checked to be complete.

        :param through: the last version, inclusive; ``None``: the newest
        :param seen_through: for a folder, the version that was the newest when ``through`` was
            chosen; ``None``: ``through``, or the newest
        :param limit: how much of the range to take at most
        :param is_open: whether the range may end earlier, if the undo of a consumption is not
            settled yet; by default only if ``through`` is ``None``
        :raises StreamStale: commits are missing, or the source is another table now
        :raises ChangeTrackingDisabled: row tracking is off
        :raises InvalidRange: ``through`` is before the offset or after the newest version
        """
        if through is None:
            self._folders.refresh(stream)
        log = DeltaLog(stream.source.location, self._files)
        newest = self._listing(stream, log).latest_version
        last = newest if through is None else through
        if not stream.offset.version <= last <= newest:
            raise InvalidRange(
                f"stream {stream.name}",
                f"cannot read through version {last}",
                cause=f"expected {stream.offset.version} to {newest}",
                fix="name a version between the offset and the newest one",
            )
        self._check_same_log(stream, log, newest)
        is_open = through is None if is_open is None else is_open
        return self._range(stream, log, last, seen_through or last, limit, is_open=is_open)

    def span(
        self,
        stream: Stream,
        *,
        through: Sequence[int] | None = None,
        seen_through: Sequence[int | None] | None = None,
        limit: BatchLimit = _ALL,
        is_open: bool | None = None,
    ) -> StreamSpan:
        """What ``stream`` has not consumed of all its base tables; raises like :meth:`range`.

        A stream that shows its initial rows returns only these rows, so the range is empty.

        :param through: the last version of each base table
        :param seen_through: as for :meth:`range`, for each of them
        :param limit: how much of each to take at most
        :param is_open: as for :meth:`range`
        """
        if stream.shows_initial_rows:
            through = [base.offset.version for base in stream.bases]
        none: list[int | None] = [None] * len(stream.bases)
        ends = zip(through or none, seen_through or none, strict=True)
        return StreamSpan(
            stream,
            tuple(
                self.range(each, through=end, seen_through=seen, limit=limit, is_open=is_open)
                for each, (end, seen) in zip(stream.by_base(), ends, strict=True)
            ),
        )

    def range_from(self, stream: Stream, *, through: int | None = None) -> SourceRange:
        """The range of a stream whose offset was chosen in the past. Snowflake: change tracking has
        to be on from that offset on. Otherwise changes cannot be determined.

        :param through: the last version, inclusive; ``None``: the newest
        :raises ChangeTrackingDisabled: row tracking was off at the offset, or is off
        :raises StreamStale: row tracking was off in between, or commits are missing
        """
        if not is_tracked(stream.offset.metadata):
            raise ChangeTrackingDisabled(
                f"stream {stream.name}",
                f"cannot begin {describe_offset(stream.offset)} of {stream.source.name}",
                cause="row tracking was off then",
                fix=_LATER,
            )
        try:
            return self.range(stream, through=through)
        except StreamUnusable as error:
            raise type(error)(error.subject, error.problem, cause=error.cause, fix=_LATER) from None

    def every_commit(self, stream: Stream, *, through: int) -> SourceRange:
        """All commits after the offset of ``stream``, whether row tracking was on or not.

        :param through: the last version, inclusive
        :raises StreamStale: commits are missing
        """
        log = DeltaLog(stream.source.location, self._files)
        commits = self._commits(stream, log, through, _ALL, is_open=False)
        end = offset_after(stream.offset, commits)
        check_range_readable(stream, commits, end)
        return SourceRange(stream, stream.offset, end, tuple(commits))

    def span_from(self, stream: Stream, *, through: Sequence[int] | None = None) -> StreamSpan:
        """The ranges of all base tables of such a stream; raises like :meth:`range_from`.

        :param through: the last version of each base table
        """
        ends: Sequence[int | None] = through or [None] * len(stream.bases)
        return StreamSpan(
            stream,
            tuple(
                self.range_from(each, through=end)
                for each, end in zip(stream.by_base(), ends, strict=True)
            ),
        )

    def probe(self, stream: Stream) -> StreamProbe:
        """Whether the range may hold a change: false only if it certainly holds no change.

        Snowflake, SYSTEM$STREAM_HAS_DATA: it may be true without a change, and is never false with
        one. Commits that only rearranged files (OPTIMIZE, statistics) do not count as data. If a
        recent commit answers the question, older ones are not read.

        :raises StreamStale: commits are missing, or the source is seen to be another table now
        :raises ChangeTrackingDisabled: row tracking is seen to be off
        """
        looks = [self._probe(each) for each in stream.by_base()]
        return StreamProbe(
            sum(found.offset_version for found in looks),
            sum(found.latest_version for found in looks),
            stream.shows_initial_rows or any(found.may_have_data for found in looks),
            sum(found.data_version for found in looks),
        )

    def _probe(self, stream: Stream) -> StreamProbe:
        self._folders.refresh(stream)
        log = DeltaLog(stream.source.location, self._files)
        listing = self._listing(stream, log)
        newest, offset = listing.latest_version, stream.offset.version
        self._check_same_log(stream, log, newest)
        recent, changed = HasDataScan(stream), offset
        # A listing may miss a file that exists. Reading the commits of the range by name is
        # reliable.
        with suppress(LogIncomplete):
            listing.check(after=offset)
            after = max(offset, newest - _RECENT_COMMITS)
            for commit in log.newest_first(after=after, through=newest):
                if commit.changes_data:
                    changed = max(changed, commit.version)
                finding = recent.take(commit)
                if finding is DataProbe.DATA:
                    return StreamProbe(offset, newest, True, changed)
                if finding is DataProbe.UNCLEAR:
                    break
        span = self._range(stream, log, newest, newest)
        changes = [commit.version for commit in span.commits if commit.changes_data]
        changed = max(changes, default=offset)
        return StreamProbe(offset, newest, span.candidates.are_there, changed)

    def _range(
        self,
        stream: Stream,
        log: DeltaLog,
        last: int,
        seen: int,
        limit: BatchLimit = _ALL,
        *,
        is_open: bool = False,
    ) -> SourceRange:
        """The range through ``last``, from a log that was checked to be the log of the stream.

        :param is_open: as for :meth:`range`
        """
        commits = self._commits(stream, log, last, limit, is_open=is_open)
        end = offset_after(stream.offset, commits)
        check_source(stream, end)
        check_range_readable(stream, commits, end)
        check_tracking(stream, commits)
        if stream.folder is None:
            return SourceRange(stream, stream.offset, end, tuple(commits))
        left = without_superseded(commits, log.commits(after=end.version, through=seen))
        return SourceRange(stream, stream.offset, end, left, seen)

    def _listing(self, stream: Stream, log: DeltaLog) -> Listing:
        try:
            with read_allowed(log.location):
                found = log.listing(since=stream.offset.version)
        except NotADeltaTable:
            raise source_missing(stream) from None
        if found.latest_version < stream.offset.version:
            raise source_replaced(stream, f"the log ends at version {found.latest_version}")
        return found

    def _check_same_log(self, stream: Stream, log: DeltaLog, newest: int) -> None:
        """Refuse a log that is not the log of the offset."""
        offset = stream.offset
        if precedes_all(offset):
            return
        try:
            found = log.fingerprint(offset.version)
        except LogIncomplete:
            # If the commit of the offset itself was cleaned up, nothing is lost, because the offset
            # already includes it.
            self._check_same_table(stream, log, newest)
            return
        if found != offset.fingerprint:
            raise source_replaced(stream, f"version {offset.version} is now a different commit")

    def _check_same_table(self, stream: Stream, log: DeltaLog, newest: int) -> None:
        # If too much of the log is missing to find out, the read of the range reports that.
        with suppress(LogIncomplete):
            found = log.state_at(newest).table_id
            if found != stream.source.table_id:
                raise source_replaced(stream, f"it now belongs to the table with the id {found}")

    def _commits(
        self, stream: Stream, log: DeltaLog, last: int, limit: BatchLimit, *, is_open: bool
    ) -> Sequence[Commit]:
        try:
            found = list(limit.taken(log.commits(after=stream.offset.version, through=last)))
            if not is_open or not found or stream.mode is not StreamMode.APPEND_ONLY:
                return found
            return settled_batch(found, log.commits(after=found[-1].version, through=last))
        except LogIncomplete as error:
            raise log_incomplete(stream, last, error) from None
