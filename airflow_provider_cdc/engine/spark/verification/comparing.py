"""Compares the two sides of a check: all rows, or what changed since the last proof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from ...core.archives.definition import Archive
from ...core.delta.log_actions import Commit
from ...core.delta.tracking import offset_of
from ...core.model.sources import Offset
from ...core.model.stream import Stream
from ...core.model.tables import Table
from ...core.upserts.definition import UpsertTable
from ...core.verification.proof import Proof, TablePoint
from ...storage.delta.delta_log import DeltaLog, LogIncomplete
from ...storage.delta.table_snapshots import newest_snapshot
from ...storage.files.scratch import Scratch
from ...storage.files.stores import Files
from ...storage.sources.source_log import SourceRange, StreamSpan
from ..reading.stream_reader import StreamReader
from .changed_rows import ChangedRows, changed_rows, grown_by
from .row_digests import differing_ranges
from .sides import Sides


@dataclass(frozen=True, slots=True)
class Pinned:
    """A stream whose consumptions have ended, and its target at that time.

    ``upsert`` is the upsert table whose base the target is.
    """

    stream: Stream
    table: Table
    target: Offset
    archive: Archive | None
    upsert: UpsertTable | None


@dataclass(frozen=True, slots=True)
class Found:
    """What a comparison found. ``frames`` are what it compared."""

    frames: tuple[DataFrame, ...]
    ranges: tuple[int, ...]
    bytes_read: int
    source_bytes: int
    target_bytes: int
    is_incremental: bool
    roots: tuple[str, ...]


class Comparing:
    """Compares a pinned stream's source with its target."""

    def __init__(
        self, spark: SparkSession, reader: StreamReader, scratch: Scratch, files: Files
    ) -> None:
        self._spark = spark
        self._reader = reader
        self._scratch = scratch
        self._files = files

    def compare(self, pinned: Pinned, sides: Sides, proof: Proof | None) -> Found:
        """Compare what changed since ``proof`` if that is possible, and else all rows."""
        found = None if proof is None else self._changes_compared(pinned, sides, proof)
        if found is not None:
            return found
        source = self._size_at(pinned.stream.source.location, pinned.stream.offset.version)
        target = newest_snapshot(pinned.table.location, self._files).size_bytes
        frames = self.whole(pinned, sides)
        return Found(frames, differing_ranges(frames), source + target, source, target, False, ())

    def _size_at(self, location: str, version: int) -> int:
        """The bytes of the files of a table at a version."""
        newest = newest_snapshot(location, self._files)
        later = DeltaLog(location, self._files).commits(after=version, through=newest.version)
        try:
            return newest.size_bytes - sum(map(grown_by, later))
        except LogIncomplete:
            return newest.size_bytes

    def whole(self, pinned: Pinned, sides: Sides) -> tuple[DataFrame, DataFrame]:
        """All rows of both sides."""
        ends = tuple(
            SourceRange(each, each.offset, each.offset, ()) for each in pinned.stream.by_base()
        )
        rows = self._reader.all_rows(StreamSpan(pinned.stream, ends))
        return sides.source(rows), sides.target()

    def _changes_compared(self, pinned: Pinned, sides: Sides, proof: Proof) -> Found | None:
        """Compare what changed on both sides since ``proof``; ``None``: that is not possible, or
        reads more than all rows.
        """
        assert proof.source is not None
        source = self._changed(pinned.stream.source.location, proof.source, pinned.stream.offset)
        target = self._changed(pinned.table.location, proof.target, pinned.target)
        if source is None or target is None:
            return None
        source_bytes = proof.source.size_bytes + source.size_delta
        target_bytes = proof.target.size_bytes + target.size_delta
        read = source.bytes_read + target.bytes_read
        if read > source_bytes + target_bytes:
            # All rows are fewer bytes.
            return None
        frames = []
        if source.rows is not None:
            frames.append(sides.source_changes(source.rows))
        changes = sides.target_changes(target, proof.source.version)
        if changes is not None:
            frames.append(changes)
        return Found(
            tuple(frames),
            differing_ranges(frames) if frames else (),
            read,
            source_bytes,
            target_bytes,
            True,
            (*source.scratch, *target.scratch),
        )

    def _changed(self, location: str, point: TablePoint, end: Offset) -> ChangedRows | None:
        """What changed in a table after ``point`` up to ``end``; ``None``: the log does not show
        it.
        """
        log = DeltaLog(location, self._files)
        try:
            if log.fingerprint(point.version) != point.fingerprint:
                return None
            commits: Sequence[Commit] = ()
            if end.version > point.version:
                commits = list(log.commits(after=point.version, through=end.version))
            if not commits:
                return ChangedRows(None, 0, 0)
            state = log.state_at(point.version)
        except LogIncomplete:
            return None
        start = offset_of(state)
        return changed_rows(self._spark, self._files, self._scratch, location, start, commits)


def usable(proof: Proof | None, pinned: Pinned, sides: Sides) -> Proof | None:
    """``proof`` if the check may continue from it."""
    if proof is None or proof.source is None or pinned.stream.view is not None:
        return None
    ends = ((proof.source, pinned.stream.offset), (proof.target, pinned.target))
    is_same = all(
        point.table_id == end.table_id and point.version <= end.version for point, end in ends
    )
    is_same = is_same and (proof.key, proof.columns) == (sides.key, sides.columns)
    return proof if is_same else None
