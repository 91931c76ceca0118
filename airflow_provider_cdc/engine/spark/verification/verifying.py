"""Checks that a target holds the rows of its source, and heals it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame

from ...consumption.attempts import ConsumptionServices
from ...core.archives.definition import Archive
from ...core.delta.log_actions import Commit
from ...core.delta.tracking import offset_of
from ...core.errors import InvalidRequest, StreamConflict
from ...core.model.access import Right, check_access
from ...core.model.outcomes import Outcome
from ...core.model.sources import Offset
from ...core.model.stream import Stream, StreamMode
from ...core.model.tables import Table
from ...core.names import stream_name, table_name
from ...core.verification.proof import Proof, TablePoint, VerificationState
from ...core.verification.verification import (
    MOST_NAMED_KEYS,
    DifferenceKind,
    KeyDifference,
    Verification,
)
from ...storage.delta.delta_log import DeltaLog, LogIncomplete
from ...storage.delta.table_snapshots import newest_snapshot
from ...storage.files.scratch import Scratch
from ...storage.files.stores import Files
from ...storage.sources.source_log import SourceRange, StreamSpan
from ...storage.state.verifications import Verifications
from ..archives.archive_tables import ArchiveTables
from ..archives.archived_changes import ArchivedChanges
from ..consumption.keyed_targets import keyed_target
from ..consumption.recovery import Recovery
from ..consumption.stream_views import SparkChangeSets
from ..reading.stream_reader import StreamReader
from ..tables.delta_tables import Tables
from .changed_rows import ChangedRows, changed_rows
from .row_digests import compared, differing_keys, in_ranges, rows_of_keys
from .sides import ArchiveSides, CopySides, Sides

# How long a check waits for an open consumption to end.
PATIENCE_SECONDS = 60.0
_PAUSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class _Pinned:
    """A stream whose consumptions have ended, and its target at that time."""

    stream: Stream
    table: Table
    target: Offset
    archive: Archive | None


@dataclass(frozen=True, slots=True)
class _Found:
    """What a comparison found. ``frames`` are what it compared."""

    frames: tuple[DataFrame, ...]
    ranges: tuple[int, ...]
    bytes_read: int
    source_bytes: int
    target_bytes: int
    is_incremental: bool
    roots: tuple[str, ...]


class Verifying:
    """Checks targets, and keeps what the checks found."""

    def __init__(
        self,
        parts: ConsumptionServices,
        change_sets: SparkChangeSets,
        reader: StreamReader,
        tables: Tables,
        archives: ArchiveTables,
        archived: ArchivedChanges,
        verifications: Verifications,
        files: Files,
        clock: Callable[[], datetime],
    ) -> None:
        self._parts = parts
        self._change_sets = change_sets
        self._spark = change_sets.spark
        self._scratch: Scratch = change_sets.scratch
        self._reader = reader
        self._tables = tables
        self._archives = archives
        self._archived = archived
        self._verifications = verifications
        self._files = files
        self._clock = clock

    def verify(
        self, name: str, target: str, key: str | Collection[str] | None, *, heal: bool, full: bool
    ) -> Verification:
        """Check a target; see ``Engine.verify_target``."""
        began = time.monotonic()
        pinned = self._pinned(name, target, Right.CONSUME if heal else Right.READ)
        if heal and pinned.archive is not None:
            raise InvalidRequest(
                pinned.archive.subject,
                "cannot be healed",
                cause="only archive_changes writes to an archive",
                fix="verify it without heal; if it differs, begin a new archive",
            )
        sides = self._sides(pinned, target, key)
        state = self._verifications.find(pinned.stream.stream_id, pinned.table.location)
        proof = None if full or state is None else _usable(state.proof, pinned, sides)
        found = self._compared(pinned, sides, proof)
        differences, count = self._differences(pinned, sides, found)
        healed, is_equal = None, not count
        verified = None if state is None else state.verified_through
        if not count:
            verified = pinned.stream.offset.version
        self._save(pinned, sides, found, state, verified, count)
        if count and heal:
            assert key is not None
            healed = self._healed(pinned, sides, target, key, found.ranges)
            again = self.verify(name, target, key, heal=False, full=False)
            verified, is_equal = again.verified_through, again.is_equal
        return Verification(
            pinned.stream.name,
            pinned.table.name,
            pinned.stream.offset.version,
            verified,
            is_equal,
            count,
            differences,
            found.is_incremental,
            found.bytes_read,
            found.source_bytes + found.target_bytes,
            round(time.monotonic() - began, 3),
            healed,
        )

    def _pinned(self, name: str, target: str, right: Right) -> _Pinned:
        """The stream and its target, at a moment without an open consumption."""
        table = self._tables.get(table_name(target))
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            stream = self._parts.registry.snapshot().get(stream_name(name))
            check_access(stream, self._parts.principal, right)
            newest = self._tables.newest_offset(table)
            archive = Archive.of(table.name, table.sql, table.location, newest.metadata)
            _check_kind(stream, table, archive)
            now = self._parts.registry.snapshot().get(stream_name(name))
            if stream.consumption is None and now.sequence == stream.sequence:
                return _Pinned(stream, table, newest, archive)
            if time.monotonic() > deadline:
                raise StreamConflict(
                    f"stream {name}",
                    "cannot be compared with its target now",
                    cause="a consumption of it is open, so the target may hold a part of it",
                    fix="run the check when the consumption has ended",
                )
            time.sleep(_PAUSE_SECONDS)

    def _sides(self, pinned: _Pinned, target: str, key: str | Collection[str] | None) -> Sides:
        if pinned.archive is not None:
            self._archives.check_untouched(pinned.archive)
            return ArchiveSides(self._archived, pinned.archive, pinned.stream.offset)
        if key is None:
            raise InvalidRequest(
                f"target {target}",
                "cannot be verified without a key",
                cause="differences are named by a key",
                fix="name the columns that identify its rows, such as key=['id']",
            )
        found = keyed_target(self._spark, self._tables, target, key, "verified")
        return CopySides(self._spark, found, pinned.stream.table_on, pinned.target.version)

    def _compared(self, pinned: _Pinned, sides: Sides, proof: Proof | None) -> _Found:
        found = None if proof is None else self._changes_compared(pinned, sides, proof)
        if found is not None:
            return found
        source = newest_snapshot(pinned.stream.source.location, self._files).size_bytes
        target = newest_snapshot(pinned.table.location, self._files).size_bytes
        frames = self._whole(pinned, sides)
        return _Found(frames, compared(frames).ranges, source + target, source, target, False, ())

    def _whole(self, pinned: _Pinned, sides: Sides) -> tuple[DataFrame, DataFrame]:
        """All rows of both sides."""
        ends = tuple(
            SourceRange(each, each.offset, each.offset, ()) for each in pinned.stream.by_base()
        )
        rows = self._reader.all_rows(StreamSpan(pinned.stream, ends))
        return sides.source(rows), sides.target()

    def _changes_compared(self, pinned: _Pinned, sides: Sides, proof: Proof) -> _Found | None:
        """Compare what changed on both sides since ``proof``; ``None``: that is not possible."""
        assert proof.source is not None
        source = self._changed(pinned.stream.source.location, proof.source, pinned.stream.offset)
        target = self._changed(pinned.table.location, proof.target, pinned.target)
        if source is None or target is None:
            return None
        frames = []
        if source.rows is not None:
            frames.append(sides.source_changes(source.rows))
        changes = sides.target_changes(target, proof.source.version)
        if changes is not None:
            frames.append(changes)
        return _Found(
            tuple(frames),
            compared(frames).ranges if frames else (),
            source.bytes_read + target.bytes_read,
            proof.source.size_bytes + source.size_delta,
            proof.target.size_bytes + target.size_delta,
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

    def _differences(
        self, pinned: _Pinned, sides: Sides, found: _Found
    ) -> tuple[tuple[KeyDifference, ...], int]:
        """At most 100 of the keys whose rows differ, and how many there are."""
        try:
            if not found.ranges:
                return (), 0
            keys = differing_keys(found.frames, found.ranges)
            named = keys.limit(MOST_NAMED_KEYS + 1).collect()
            count = len(named) if len(named) <= MOST_NAMED_KEYS else keys.count()
            shown = named[:MOST_NAMED_KEYS]
            return self._kinds(pinned, sides, found.ranges, [row[0] for row in shown]), count
        finally:
            for root in found.roots:
                self._scratch.remove(root)

    def _kinds(
        self, pinned: _Pinned, sides: Sides, ranges: Sequence[int], keys: Sequence[str]
    ) -> tuple[KeyDifference, ...]:
        counts = rows_of_keys(self._whole(pinned, sides), ranges, keys)
        kinds = {key: _kind(*counts.get(key, (0, 0))) for key in sorted(keys)}
        return tuple(KeyDifference(key, kind) for key, kind in kinds.items())

    def _healed(
        self,
        pinned: _Pinned,
        sides: Sides,
        target: str,
        key: str | Collection[str],
        ranges: Sequence[int],
    ) -> Outcome:
        """Write the rows of ``ranges`` that differ, as a consumption of the stream."""
        assert isinstance(sides, CopySides)
        name = pinned.stream.name
        recovery = Recovery(
            self._parts,
            self._change_sets,
            self._reader,
            self._tables,
            f"verify.{name}",
            within=lambda side: in_ranges(sides.key_values(side), ranges),
        )
        return recovery.recover(name, target, key)

    def _save(
        self,
        pinned: _Pinned,
        sides: Sides,
        found: _Found,
        state: VerificationState | None,
        verified: int | None,
        differing_keys: int,
    ) -> None:
        stream, now = pinned.stream, self._clock()
        proof = None if state is None else state.proof
        if not differing_keys:
            source = None
            if stream.view is None:
                source = _point(stream.source.location, stream.offset, found.source_bytes)
            target = _point(pinned.table.location, pinned.target, found.target_bytes)
            proof = Proof(source, target, sides.key, sides.columns, now)
        self._verifications.save(
            VerificationState(
                stream.stream_id,
                pinned.table.location,
                proof,
                verified,
                now,
                stream.offset.version,
                differing_keys,
            )
        )


def _usable(proof: Proof | None, pinned: _Pinned, sides: Sides) -> Proof | None:
    """``proof`` if the check may continue from it."""
    if proof is None or proof.source is None or pinned.stream.view is not None:
        return None
    ends = ((proof.source, pinned.stream.offset), (proof.target, pinned.target))
    is_same = all(
        point.table_id == end.table_id and point.version <= end.version for point, end in ends
    )
    is_same = is_same and (proof.key, proof.columns) == (sides.key, sides.columns)
    return proof if is_same else None


def _point(location: str, offset: Offset, size_bytes: int) -> TablePoint:
    return TablePoint(location, offset.table_id, offset.version, offset.fingerprint, size_bytes)


def _kind(in_source: int, in_target: int) -> DifferenceKind:
    if not in_target:
        return DifferenceKind.MISSING
    return DifferenceKind.DIFFERENT if in_source else DifferenceKind.UNEXPECTED


def _check_kind(stream: Stream, table: Table, archive: Archive | None) -> None:
    """Refuse a stream whose target is no copy of its source."""
    cause = fix = None
    if archive is not None and archive.stream_id != stream.stream_id:
        cause = f"it is an archive, and stream {archive.stream} fills it"
        fix = f"name stream {archive.stream}"
    elif archive is None and stream.mode is not StreamMode.STANDARD:
        cause = f"stream {stream.name} has the mode {stream.mode.value}, so the target need not"
        cause += " equal the source"
        fix = "name a stream with the mode standard, or an archive"
    elif stream.shows_initial_rows:
        cause = f"the initial rows of stream {stream.name} are not consumed yet"
        fix = "run the check after the first consumption"
    if cause is not None and fix is not None:
        raise InvalidRequest(f"target {table.name}", "cannot be verified", cause=cause, fix=fix)
