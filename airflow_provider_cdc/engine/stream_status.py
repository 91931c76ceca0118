"""How a stream stands towards its source, and how SHOW STREAMS tells it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .core.errors import StreamUnusable
from .core.model import AppendSemantics, Phase, Source, Stream, StreamMode
from .core.names import table_name
from .core.net_files import inserted_files
from .core.staleness import stale_after
from .storage.source_log import SourceLog, SourceRange, holds_candidates


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """How a stream stands towards its source (seed 000: SHOW STREAMS, STALE, STALE_AFTER).

    ``versions_behind`` counts all commits after the offset, ``commits_behind`` those that changed
    data, ``bytes_behind`` the bytes of the files in which the range's ends differ (of an
    append-only stream: that hold inserted rows); they are ``None`` for a stream that cannot be
    read, and ``invalid_reason`` says why. ``may_have_data`` is false only when there is certainly
    no change for the stream's mode. ``stale_after`` is a prediction; ``stale`` says that it has
    passed, or that the stream cannot be read already.
    """

    name: str
    stream_id: str
    source: Source
    mode: StreamMode
    append_semantics: AppendSemantics
    phase: Phase
    owner: str
    comment: str | None
    created_at: datetime
    last_consumed_at: datetime | None
    last_consumer: str | None
    offset_version: int
    latest_version: int | None
    versions_behind: int | None
    commits_behind: int | None
    bytes_behind: int | None
    may_have_data: bool
    stale_after: datetime
    stale: bool
    invalid_reason: str | None


def status_of(stream: Stream, sources: SourceLog, now: datetime) -> StreamStatus:
    """How ``stream`` stands at the moment ``now``; a stream that cannot be read says why."""
    span: SourceRange | None = None
    reason: str | None = None
    try:
        span = sources.range(stream)
    except StreamUnusable as error:
        reason = str(error)
    end = stream.offset if span is None else span.end
    # What is not consumed is as old as its first commit, however young the stream is.
    since = stream.last_consumed_at or stream.created_at
    if span is not None and span.commits:
        since = min(since, span.commits[0].timestamp)
    configuration = json.loads(end.metadata).get("configuration") or {}
    predicted = stale_after(since, configuration)
    return StreamStatus(
        name=stream.name,
        stream_id=stream.stream_id,
        source=stream.source,
        mode=stream.mode,
        append_semantics=stream.append_semantics,
        phase=stream.phase,
        owner=stream.owner,
        comment=stream.comment,
        created_at=stream.created_at,
        last_consumed_at=stream.last_consumed_at,
        last_consumer=stream.last_consumer,
        offset_version=stream.offset.version,
        latest_version=None if span is None else end.version,
        versions_behind=None if span is None else len(span.commits),
        commits_behind=None
        if span is None
        else sum(commit.changes_data for commit in span.commits),
        bytes_behind=None if span is None else _bytes_behind(span),
        may_have_data=span is not None and holds_candidates(span),
        stale_after=predicted,
        stale=reason is not None or predicted <= now,
        invalid_reason=reason,
    )


def shown(status: StreamStatus) -> dict[str, Any]:
    """One line of SHOW STREAMS: its columns in their order, each a plain value.

    ``catalog`` and ``database`` are those that the source was named with; a path has none.
    """
    parts = table_name(status.source.name).parts
    return {
        "created_on": status.created_at,
        "name": status.name,
        "catalog": parts[-3] if len(parts) > 2 else None,  # noqa: PLR2004 - catalog, schema, table
        "database": parts[-2] if len(parts) > 1 else None,
        "table_on": status.source.name,
        "owner": status.owner,
        "comment": status.comment,
        "mode": status.mode.value,
        "append_semantics": status.append_semantics.value
        if status.mode is StreamMode.APPEND_ONLY
        else None,
        "type": "DELTA",
        "base_tables": status.source.name,
        "phase": status.phase.value,
        "offset": status.offset_version,
        "latest_version": status.latest_version,
        "commits_behind": status.commits_behind,
        "bytes_behind": status.bytes_behind,
        "stale": status.stale,
        "stale_after": status.stale_after,
        "invalid_reason": status.invalid_reason,
        "last_consumed_on": status.last_consumed_at,
        "last_consumer": status.last_consumer,
    }


def _bytes_behind(span: SourceRange) -> int:
    if span.stream.mode is StreamMode.STANDARD:
        return span.net_files().size_bytes
    return sum(file.size_bytes for _, file in inserted_files(span.commits))
