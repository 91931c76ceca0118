"""The stream that fills an archive: its name, and whether only archiving moved it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from ..delta.log_actions import Commit
from ..delta.table_schema import Layout
from ..model.outcomes import StreamOutcome
from ..model.stream import Stream
from ..names import TableName
from .definition import Archive

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


def archived_by(archive: Archive, stream: Stream) -> StreamOutcome | None:
    """What the newest consumption of ``stream`` put into ``archive``; ``None``: not known."""
    if stream.last_outcome is None or stream.last_consumer != consumer_of(archive.stream):
        return None
    taken = stream.last_outcome.streams
    return next((each for each in taken if each.stream_id == stream.stream_id), None)


def moved_by_others(
    archive: Archive, stream: Stream, newest: int | None, commits: Sequence[Commit]
) -> str | None:
    """How others moved a stream, so that its archive has a gap or would get changes twice.

    ``None`` if they did not.

    :param newest: the newest version in the archive; ``None``: it is empty
    :param commits: those after :func:`filled_through` up to the offset
    """
    if stream.last_consumer not in (None, consumer_of(archive.stream)):
        return f"{stream.last_consumer} consumed it"
    through = filled_through(archive, stream, newest)
    if stream.offset.version < through:
        return f"it was moved back from version {through} to version {stream.offset.version}"
    is_begun = newest is not None or stream.last_consumer is not None
    if not is_begun and archive.has_initial_rows and not stream.shows_initial_rows:
        return "its initial rows were skipped"
    layout = archive.eras[archive.era_at(through)].layout
    changed = [commit.version for commit in commits if _is_missed(commit, layout)]
    if changed:
        return f"it was moved past version {changed[0]} without a consumption"
    return None


def filled_through(archive: Archive, stream: Stream, newest: int | None) -> int:
    """The version through which the archive holds every change, as far as it is known."""
    taken = archived_by(archive, stream)
    return max(
        archive.after if newest is None else newest,
        archive.after if taken is None else taken.through_version,
    )


def _is_missed(commit: Commit, layout: Layout) -> bool:
    metadata = commit.metadata
    return commit.changes_data or (
        metadata is not None and not Layout.of(metadata).reads_as(layout)
    )
