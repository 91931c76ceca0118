"""The status of a stream."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from rich.filesize import decimal

from ..core.change_sets.candidates import WaitingRows, waiting_rows
from ..core.change_sets.net_files import inserted_files
from ..core.change_sets.new_files import unread_files
from ..core.delta.log_actions import Commit
from ..core.errors import StreamUnusable
from ..core.figures import counted, known_sum
from ..core.folders.folder_log import FolderFile
from ..core.html_tables import html_fields
from ..core.model.serialization import UnreadableStream
from ..core.model.sources import FileFormat, View
from ..core.model.stream import AppendSemantics, ColumnStyle, Phase, Stream, StreamMode
from ..core.retention.staleness import MAX_DATA_EXTENSION, rows_missing_after, stale_after
from ..core.retention.table_retention import log_retention, retention
from ..core.summaries import moment_text, place_text, versions_text
from ..core.verification.proof import VerificationState
from ..storage.sources.source_log import SourceLog, SourceRange, StreamSpan

_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class BaseStatus:
    """The status of a stream for one table that it reads.

    ``versions_behind`` counts all commits after the offset. ``commits_behind`` counts the commits
    that changed data. For a stream that records only inserts, it counts the commits that added
    files with rows. ``bytes_behind`` is the size in bytes of the files in which the ends of the
    range differ. For an append-only stream, it is the size of the files that hold inserted rows.
    These fields are ``None`` if the table cannot be read, and ``invalid_reason`` gives the reason.
    ``rows_waiting`` and ``has_data`` are those of :class:`StreamStatus` for this table.
    """

    table: str
    location: str
    offset_version: int
    latest_version: int | None
    versions_behind: int | None
    commits_behind: int | None
    bytes_behind: int | None
    rows_waiting: int | None
    may_have_data: bool
    has_data: bool | None
    stale_after: datetime
    kept_until: datetime
    behind_since: datetime | None
    complete_through: datetime | None
    invalid_reason: str | None

    def __repr__(self) -> str:
        waits = _waiting(self)
        return f"<BaseStatus {place_text(self.table)} at version {self.offset_version}, {waits}>"


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """The status of a stream. Snowflake: SHOW STREAMS, with STALE and STALE_AFTER.

    ``base_tables`` holds the status for each table that the stream reads. Versions and counts are
    sums over these tables, or ``None`` if one of them cannot be read. ``may_have_data`` is false
    only if there is certainly no change for the stream's mode. ``has_data`` is whether there is a
    change, if the log shows it, otherwise ``None``. ``rows_waiting`` is the number of rows of the
    change set, if the log shows it: if the commits only added rows to files with statistics, or
    only deleted rows by deletion vectors. It is ``None`` after an UPDATE, a MERGE or an overwrite,
    for initial rows and for files, and for a view whose tables changed. ``behind_since`` is the
    time of the first commit with data that is not consumed, if there may be a change.
    ``stale_after`` is a prediction that assumes extended retentions. ``kept_until`` is what the
    current properties of the sources guarantee. ``stale`` means that ``stale_after`` has passed, or
    that the stream can no longer be read. A source that cannot be reached at the moment does not
    make a stream stale.
    ``file_format`` is set for a stream on files. The commits of such a stream are the refreshes
    that found changes in its folder. ``view`` is set for a stream on a view. Only an engine with
    Spark can check whether that view has changed.

    ``verifications`` are the results of the last checks of its targets.

    ``complete_through`` is a moment. The stream has consumed every change up to this moment that
    its source held when the source was read. If changes wait, it is the millisecond before the
    first of them, by the times of the commits (for files, by the times at which they were written).
    Otherwise it is the moment at which the check began. For a view, it is the earliest such moment
    of its tables. A commit in progress, a writer with a slow clock, or a file that is moved into a
    folder may still bring an earlier time, so a later check can return an earlier moment. ``None``:
    unknown, because the stream cannot be read or its initial rows wait.

    If the record of the stream in the registry cannot be read, ``invalid_reason`` gives the reason,
    and unknown fields are ``None``. Then ``stale_after`` and ``kept_until`` are the moment of the
    check.
    """

    name: str
    stream_id: str
    table_on: str | None
    mode: StreamMode | None
    append_semantics: AppendSemantics | None
    phase: Phase | None
    owner: str | None
    comment: str | None
    created_at: datetime | None
    last_consumed_at: datetime | None
    last_consumer: str | None
    base_tables: tuple[BaseStatus, ...]
    offset_version: int
    latest_version: int | None
    versions_behind: int | None
    commits_behind: int | None
    bytes_behind: int | None
    may_have_data: bool
    stale_after: datetime
    kept_until: datetime
    stale: bool
    invalid_reason: str | None
    behind_since: datetime | None = None
    max_lag: timedelta | None = None
    file_format: FileFormat | None = None
    view: View | None = None
    complete_through: datetime | None = None
    column_style: ColumnStyle | None = ColumnStyle.SNOWFLAKE
    readers: tuple[str, ...] | None = None
    consumers: tuple[str, ...] | None = None
    max_data_extension: timedelta | None = MAX_DATA_EXTENSION
    verifications: tuple[VerificationState, ...] = ()
    rows_waiting: int | None = None
    has_data: bool | None = None

    @property
    def verified_through(self) -> int | None:
        """The version through which all checked targets equal the source; ``None``: no target was
        checked, or one was never equal.
        """
        through = [each.verified_through for each in self.verifications]
        known = [version for version in through if version is not None]
        return min(known) if known and len(known) == len(through) else None

    def __repr__(self) -> str:
        where = (
            self.name if self.table_on is None else f"{self.name} on {place_text(self.table_on)}"
        )
        if self.invalid_reason is not None:
            return f"<StreamStatus {where}, {_waiting(self)}>"
        at = versions_text(base.offset_version for base in self.base_tables)
        phase = "" if self.phase is None else f", {self.phase.value}"
        return (
            f"<StreamStatus {where} at {at}{phase}, {_waiting(self)},"
            f" stale after {moment_text(self.stale_after)}>"
        )

    def _repr_html_(self) -> str:
        """The table that a notebook shows."""
        waits = self.behind_since
        fields = {
            "source": None if self.table_on is None else place_text(self.table_on),
            "mode": None if self.mode is None else self.mode.value,
            "offset": versions_text(base.offset_version for base in self.base_tables),
            "waiting": _waiting(self),
            "waiting since": None if waits is None else moment_text(waits),
            "stale after": moment_text(self.stale_after),
            "kept until": moment_text(self.kept_until),
            "last consumer": self.last_consumer,
            "problem": self.invalid_reason,
        }
        return html_fields(fields, self.name)


def unreadable_status(stream: UnreadableStream, now: datetime) -> StreamStatus:
    """The status of a stream whose record cannot be read: the fields that can be read, and the
    reason.
    """
    known, bases = stream.parts, stream.bases or ()
    view, folder = known.get("view"), known.get("folder")
    table_on = bases[0].source.name if bases else None
    return StreamStatus(
        name=stream.name,
        stream_id=stream.stream_id,
        table_on=table_on if view is None else view.name,
        mode=known.get("mode"),
        append_semantics=known.get("append_semantics"),
        phase=known.get("phase"),
        owner=stream.owner,
        comment=known.get("comment"),
        created_at=known.get("created_at"),
        last_consumed_at=known.get("last_consumed_at"),
        last_consumer=known.get("last_consumer"),
        base_tables=(),
        offset_version=sum(base.offset.version for base in bases),
        latest_version=None,
        versions_behind=None,
        commits_behind=None,
        bytes_behind=None,
        may_have_data=False,
        stale_after=now,
        kept_until=now,
        stale=True,
        invalid_reason=str(stream.error),
        max_lag=known.get("max_lag"),
        file_format=None if folder is None else folder.file_format,
        view=view,
        column_style=known.get("column_style"),
        readers=stream.readers,
        consumers=stream.consumers,
        max_data_extension=known.get("max_data_extension"),
    )


def _waiting(status: StreamStatus | BaseStatus) -> str:
    """What waits for a stream or for one of its tables, or why that is unknown."""
    if status.invalid_reason is not None:
        return status.invalid_reason.partition(". Cause: ")[0]
    if not status.may_have_data:
        return "nothing waits"
    lag = f"{counted(status.commits_behind or 0, 'commit')} behind"
    return f"{lag} ({decimal(status.bytes_behind or 0)})"


def status_of(stream: Stream, sources: SourceLog, now: datetime) -> StreamStatus:
    """The status of ``stream``. If the stream cannot be read, ``invalid_reason`` gives the reason.

    :param now: a moment before its sources are read
    """
    return status_and_span(stream, sources, now)[0]


def status_and_span(
    stream: Stream, sources: SourceLog, now: datetime
) -> tuple[StreamStatus, StreamSpan | None]:
    """Like :func:`status_of`, with the range from which the status was made. ``None``: a table
    cannot be read.
    """
    found = [_range_or_reason(each, sources) for each in stream.by_base()]
    pairs = zip(stream.by_base(), found, strict=True)
    bases = [
        _status_of_span(each, None, span, now)
        if isinstance(span, str)
        else _status_of_span(each, span, None, now)
        for each, span in pairs
    ]
    ranges = tuple(span for span in found if not isinstance(span, str))
    is_whole = len(ranges) == len(found)
    return _status(stream, bases, now), StreamSpan(stream, ranges) if is_whole else None


def status_or_reason(stream: Stream, sources: SourceLog, now: datetime) -> StreamStatus:
    """Like :func:`status_of`. If a source fails with any error except ``StreamUnusable``,
    ``invalid_reason`` gives that error, and the stream does not count as stale.
    """
    try:
        return status_of(stream, sources, now)
    except Exception as error:
        return unanswered_status(stream, error, now)


def unanswered_status(stream: Stream, error: Exception, now: datetime) -> StreamStatus:
    """The status of a stream whose source did not answer. It does not count as stale.

    :param error: what the read of its source raised
    """
    reason = f"{type(error).__name__}: {error}"
    bases = [_status_of_span(each, None, reason, now) for each in stream.by_base()]
    return replace(_status(stream, bases, now), stale=False)


def _status(stream: Stream, bases: Sequence[BaseStatus], now: datetime) -> StreamStatus:
    waiting = _waiting_rows(stream, bases)
    reasons = [base.invalid_reason for base in bases if base.invalid_reason is not None]
    predicted = min(base.stale_after for base in bases)
    kept_until = min(base.kept_until for base in bases)
    return StreamStatus(
        name=stream.name,
        stream_id=stream.stream_id,
        table_on=stream.table_on,
        mode=stream.mode,
        append_semantics=stream.append_semantics,
        phase=stream.phase,
        owner=stream.owner,
        comment=stream.comment,
        created_at=stream.created_at,
        last_consumed_at=stream.last_consumed_at,
        last_consumer=stream.last_consumer,
        base_tables=tuple(bases),
        offset_version=sum(base.offset_version for base in bases),
        latest_version=known_sum(base.latest_version for base in bases),
        versions_behind=known_sum(base.versions_behind for base in bases),
        commits_behind=known_sum(base.commits_behind for base in bases),
        bytes_behind=known_sum(base.bytes_behind for base in bases),
        may_have_data=not reasons
        and (stream.shows_initial_rows or any(base.may_have_data for base in bases)),
        stale_after=predicted,
        kept_until=kept_until,
        behind_since=min((base.behind_since for base in bases if base.behind_since), default=None),
        max_lag=stream.max_lag,
        stale=bool(reasons) or predicted <= now,
        invalid_reason=reasons[0] if reasons else None,
        file_format=None if stream.folder is None else stream.folder.file_format,
        view=stream.view,
        complete_through=_least(base.complete_through for base in bases),
        column_style=stream.column_style,
        readers=stream.readers,
        consumers=stream.consumers,
        max_data_extension=stream.max_data_extension,
        rows_waiting=waiting.count,
        has_data=waiting.are_there,
    )


def _waiting_rows(stream: Stream, bases: Sequence[BaseStatus]) -> WaitingRows:
    """The rows of the change set of ``stream``, as far as its tables show them."""
    if stream.shows_initial_rows:
        return WaitingRows(None, None)
    found = [WaitingRows(base.rows_waiting, base.has_data) for base in bases]
    if len(found) == 1 and stream.view is None:
        return found[0]
    # A view may filter and join the changes of its tables.
    is_empty = all(each.are_there is False for each in found)
    return WaitingRows(0, False) if is_empty else WaitingRows(None, None)


def _range_or_reason(stream: Stream, sources: SourceLog) -> SourceRange | str:
    """What ``stream`` has not consumed of its only base table, or why that cannot be read."""
    try:
        return sources.range(stream)
    except StreamUnusable as error:
        return str(error)


def _status_of_span(
    stream: Stream, span: SourceRange | None, reason: str | None, now: datetime
) -> BaseStatus:
    """The status of a stream on one table.

    :param span: the range that it has not consumed; ``None``: the range cannot be read, because of
        ``reason``
    """
    end = stream.offset if span is None else span.end
    found = None if span is None else span.candidates
    changed = [] if span is None else _commits_with_data(span)
    may_have_data = found is not None and found.are_there
    waiting = WaitingRows(None, None)
    if span is not None and found is not None:
        waiting = waiting_rows(stream, span.commits, found)
    oldest = min((commit.timestamp for commit in changed), default=None)
    behind_since = oldest if may_have_data else None
    predicted, kept_until = _kept(stream, span, now, may_have_data=may_have_data)
    return BaseStatus(
        table=stream.source.name,
        location=stream.source.location,
        offset_version=stream.offset.version,
        latest_version=None if span is None else end.version,
        versions_behind=None if span is None else len(span.commits),
        commits_behind=None if span is None else len(changed),
        bytes_behind=None if found is None else found.size_bytes,
        rows_waiting=waiting.count,
        may_have_data=may_have_data,
        has_data=waiting.are_there,
        stale_after=predicted,
        kept_until=kept_until,
        behind_since=behind_since,
        complete_through=None if span is None else _complete_through(span, behind_since, now),
        invalid_reason=reason,
    )


def _complete_through(
    span: SourceRange, behind_since: datetime | None, now: datetime
) -> datetime | None:
    """The moment up to which the stream has consumed all changes that the table of ``span`` held.

    :param now: a moment before the table was read
    """
    if span.stream.shows_initial_rows:
        return None
    if behind_since is None:
        return now
    times = [behind_since]
    if span.stream.folder is not None:
        # A file is in the folder before a refresh finds it.
        files = map(FolderFile.of, unread_files(span.commits).files)
        times.extend(file.modified_at for file in files)
    return min(now, min(times) - _MILLISECOND)


def _least(moments: Iterable[datetime | None]) -> datetime | None:
    """The earliest of ``moments``, or ``None`` if one of them is unknown."""
    least: datetime | None = None
    for moment in moments:
        if moment is None:
            return None
        least = moment if least is None else min(least, moment)
    return least


def _commits_with_data(span: SourceRange) -> list[Commit]:
    """The commits of ``span`` that may hold a change for the stream's mode."""
    if span.stream.mode in (StreamMode.STANDARD, StreamMode.FEED):
        return [commit for commit in span.commits if commit.changes_data]
    return [commit for commit in span.commits if inserted_files([commit])]


def _kept(
    stream: Stream, span: SourceRange | None, now: datetime, *, may_have_data: bool
) -> tuple[datetime, datetime]:
    """Until when the sources keep what ``stream`` needs: as predicted, and as guaranteed."""
    if span is None:
        since, properties = stream.last_consumed_at or stream.created_at, stream.offset.properties
    else:
        # If changes wait, the files do not have to be checked again.
        may_rest = not may_have_data and not stream.shows_initial_rows
        is_quiet = may_rest and StreamSpan(stream, (span,)).holds_nothing
        since, properties = now if is_quiet else span.oldest or now, span.end.properties
    extension = stream.max_data_extension
    predicted = stale_after(since, properties, extension)
    promised = since + retention(properties)
    if stream.shows_initial_rows and span is not None and span.commits:
        at = stream.offset.timestamp
        predicted = min(predicted, rows_missing_after(at, properties, extension))
        promised = min(promised, at + log_retention(properties))
    return predicted, promised
