"""How a stream stands towards its source, and how SHOW STREAMS tells it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from .core.errors import StreamUnusable
from .core.model import AppendSemantics, FileFormat, Phase, Stream, StreamMode, View
from .core.names import table_name
from .core.retention import retention
from .core.staleness import stale_after
from .storage.source_log import SourceLog, SourceRange, candidates


@dataclass(frozen=True, slots=True)
class BaseStatus:
    """How a stream stands towards one table that it reads.

    ``versions_behind`` counts all commits after the offset, ``commits_behind`` those that changed
    data, ``bytes_behind`` the bytes of the files in which the range's ends differ (of an
    append-only stream: that hold inserted rows); they are ``None`` where the table's part cannot
    be read, and ``invalid_reason`` says why.
    """

    table: str
    location: str
    offset_version: int
    latest_version: int | None
    versions_behind: int | None
    commits_behind: int | None
    bytes_behind: int | None
    may_have_data: bool
    stale_after: datetime
    kept_until: datetime
    behind_since: datetime | None
    invalid_reason: str | None


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """How a stream stands towards its source (seed 000: SHOW STREAMS, STALE, STALE_AFTER).

    ``base_tables`` tells it of each table that the stream reads; the versions and what lies behind
    are sums over these, ``None`` where one of them cannot be read. ``may_have_data`` is false only
    when there is certainly no change for the stream's mode. ``behind_since`` is the time of the
    first commit with data that is not consumed, where there may be a change. ``stale_after`` is a
    prediction that counts on extended retentions; ``kept_until`` is what the sources' properties
    promise as they are. ``stale`` says that ``stale_after`` has passed, or that the stream cannot
    be read already. ``file_format`` is that of a stream on files, whose commits are the looks that
    found its folder changed; ``view`` is that of a stream on a view, which only an engine with
    Spark can compare with what it was.
    """

    name: str
    stream_id: str
    table_on: str
    mode: StreamMode
    append_semantics: AppendSemantics
    phase: Phase
    owner: str
    comment: str | None
    created_at: datetime
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


def status_of(stream: Stream, sources: SourceLog, now: datetime) -> StreamStatus:
    """How ``stream`` stands at the moment ``now``; a stream that cannot be read says why."""
    bases = tuple(_base_status(each, sources, now) for each in stream.by_base())
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
        base_tables=bases,
        offset_version=sum(base.offset_version for base in bases),
        latest_version=_total(base.latest_version for base in bases),
        versions_behind=_total(base.versions_behind for base in bases),
        commits_behind=_total(base.commits_behind for base in bases),
        bytes_behind=_total(base.bytes_behind for base in bases),
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
    )


def _base_status(stream: Stream, sources: SourceLog, now: datetime) -> BaseStatus:
    """How ``stream`` stands towards its only base table."""
    span: SourceRange | None = None
    reason: str | None = None
    try:
        span = sources.range(stream)
    except StreamUnusable as error:
        reason = str(error)
    end = stream.offset if span is None else span.end
    found = None if span is None else candidates(span)
    properties = end.properties
    since = stream.last_consumed_at or stream.created_at
    behind_since = None
    if span is not None and span.commits:
        # What is not consumed is as old as its first commit, however young the stream is.
        since = min(since, span.commits[0].timestamp)
        changed = [commit.timestamp for commit in span.commits if commit.changes_data]
        behind_since = min(changed, default=None) if found and found.are_there else None
    if found is not None and not found.are_there and not stream.shows_initial_rows:
        since = now
    return BaseStatus(
        table=stream.source.name,
        location=stream.source.location,
        offset_version=stream.offset.version,
        latest_version=None if span is None else end.version,
        versions_behind=None if span is None else len(span.commits),
        commits_behind=None
        if span is None
        else sum(commit.changes_data for commit in span.commits),
        bytes_behind=None if found is None else found.size_bytes,
        may_have_data=found is not None and found.are_there,
        stale_after=stale_after(since, properties, stream.max_data_extension),
        kept_until=since + retention(properties),
        behind_since=behind_since,
        invalid_reason=reason,
    )


def _total(counts: Iterable[int | None]) -> int | None:
    """The sum of ``counts``; ``None`` where one of them is not known."""
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total


def shown(status: StreamStatus) -> dict[str, Any]:
    """One line of SHOW STREAMS: its columns in their order, each a plain value.

    ``catalog`` and ``database`` are those that the source was named with; a path has none.
    ``offsets`` are those of the base tables, in their order; several have no one ``offset``.
    """
    parts = table_name(status.table_on).parts
    is_one = len(status.base_tables) == 1
    return {
        "created_on": status.created_at,
        "name": status.name,
        "catalog": parts[-3] if len(parts) > 2 else None,  # noqa: PLR2004 - catalog, schema, table
        "database": parts[-2] if len(parts) > 1 else None,
        "table_on": status.table_on,
        "owner": status.owner,
        "comment": status.comment,
        "mode": status.mode.value,
        "append_semantics": status.append_semantics.value
        if status.mode is StreamMode.APPEND_ONLY
        else None,
        "type": "DELTA" if status.file_format is None else status.file_format.value.upper(),
        "base_tables": ", ".join(base.table for base in status.base_tables),
        "phase": status.phase.value,
        "offset": status.offset_version if is_one else None,
        "offsets": ", ".join(str(base.offset_version) for base in status.base_tables),
        "latest_version": status.latest_version if is_one else None,
        "commits_behind": status.commits_behind,
        "bytes_behind": status.bytes_behind,
        "stale": status.stale,
        "stale_after": status.stale_after,
        "invalid_reason": status.invalid_reason,
        "last_consumed_on": status.last_consumed_at,
        "last_consumer": status.last_consumer,
    }
