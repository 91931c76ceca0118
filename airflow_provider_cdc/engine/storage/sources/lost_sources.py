"""The errors for streams whose source, or the part of its log that they need, is missing."""

from __future__ import annotations

from ...core.errors import StreamStale
from ...core.model.stream import Stream
from ..delta.delta_log import LogIncomplete


def source_missing(stream: Stream) -> StreamStale:
    """The error for a source that has no table at its location."""
    renamed = (
        f'; if it was renamed, create_stream("{stream.name}", on_table="its_new_name",'
        f' at=OffsetOf("{stream.name}"), or_replace=True) continues at the offset of the stream'
    )
    is_on_table = stream.view is None and stream.folder is None
    return StreamStale(
        f"stream {stream.name}",
        f"is stale, its source {stream.source.name} is missing",
        cause=f"expected a Delta table at {stream.source.location}, found none",
        fix="bring the table back, and the stream continues at its offset; or drop the stream"
        + (renamed if is_on_table else ""),
    )


def log_incomplete(stream: Stream, last: int, error: LogIncomplete) -> StreamStale:
    """The error if a commit up to version ``last`` was cleaned up."""
    return StreamStale(
        f"stream {stream.name}",
        "is stale, commits after its offset were cleaned up",
        cause=f"expected versions {stream.offset.version + 1} to {last} of"
        f" {stream.source.name}, version {error.missing_version} is missing",
        fix=f"{stream.way_back}; consume it within the source's delta.logRetentionDuration",
    )


def source_replaced(stream: Stream, found: str) -> StreamStale:
    """The error if the log is that of another table.

    :param found: what shows this, for the message
    """
    return StreamStale(
        f"stream {stream.name}",
        f"is stale, its source {stream.source.name} was replaced",
        cause=f"expected version {stream.offset.version} as it was consumed, {found}",
        fix=stream.way_back,
    )
