"""The stream that fills an archive: its name, and whether only archiving moved it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from ..delta.log_actions import Commit
from ..delta.table_schema import Layout
from ..model.stream import Stream
from ..names import TableName

_NOT_PLAIN = re.compile(r"\W+", re.ASCII)
_DIGEST_CHARACTERS = 8
_READABLE_CHARACTERS = 60


def stream_of(archive: TableName) -> str:
    """The name of the stream that fills a new archive."""
    last = (
        archive.parts[-1] if archive.path is None else archive.path.rstrip("/").rpartition("/")[2]
    )
    readable = _NOT_PLAIN.sub("_", last)[:_READABLE_CHARACTERS]
    digest = hashlib.sha256(archive.sql.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    return f"archive_{readable}_{digest}"


def consumer_of(stream: str) -> str:
    """The consumer that moves the stream of an archive."""
    return f"archive.{stream}"


def moved_from(stream: Stream) -> int | None:
    """The version through which the archive is known to be filled; ``None``: not known."""
    if stream.last_outcome is None:
        return None
    taken = [each for each in stream.last_outcome.streams if each.stream_id == stream.stream_id]
    return taken[0].through_version if taken else None


def skipped_change(stream: Stream, layout: Layout, commits: Sequence[Commit]) -> str | None:
    """How a stream was moved by others, so that its archive has a gap or would get changes twice.

    ``None`` if it was not.

    :param layout: the columns of the source at :func:`moved_from`
    :param commits: those after :func:`moved_from` up to the offset
    """
    if stream.last_consumer not in (None, consumer_of(stream.name)):
        return f"{stream.last_consumer} consumed it"
    through = moved_from(stream)
    if through is not None and stream.offset.version < through:
        return f"it was moved back from version {through} to version {stream.offset.version}"
    changed = [
        commit.version
        for commit in commits
        if commit.changes_data
        or (commit.metadata is not None and not Layout.of(commit.metadata).reads_as(layout))
    ]
    if changed:
        return f"it was moved past version {changed[0]} without a consumption"
    return None
