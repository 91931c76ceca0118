"""Checks that a target holds the rows of its source, and heals it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from pyspark.sql import Column
from pyspark.sql import functions as F

from ...consumption.attempts import ConsumptionServices
from ...core.archives.definition import Archive
from ...core.errors import CdcError, InvalidRequest, StreamConflict, StreamUnusable
from ...core.model.access import Right, check_access
from ...core.model.outcomes import Outcome
from ...core.model.sources import Offset
from ...core.model.stream import Stream, StreamMode
from ...core.names import stream_name
from ...core.upserts.merge_sql import IS_LIVE
from ...core.verification.proof import Proof, TablePoint, VerificationState
from ...core.verification.verification import (
    MOST_NAMED_KEYS,
    DifferenceKind,
    KeyDifference,
    Verification,
)
from ...storage.files.scratch import Scratch
from ...storage.files.stores import Files
from ...storage.state.verifications import Verifications
from ..archives.archive_tables import ArchiveTables
from ..archives.archived_changes import ArchivedChanges
from ..consumption.keyed_targets import keyed_target
from ..consumption.recovery import Recovery
from ..consumption.stream_views import SparkChangeSets
from ..reading.stream_reader import StreamReader
from ..session.failures import first_line, has_ended
from ..tables.delta_tables import Tables
from ..tables.store_assignment import unfit_value
from .changed_rows import SIGN
from .comparing import Comparing, Found, Pinned, usable
from .row_digests import differing_keys, in_ranges, rows_of_keys
from .sides import ArchiveSides, CopySides, Sides
from .upsert_targets import UpsertTargets

# How long a check waits for an open consumption to end.
PATIENCE_SECONDS = 60.0
_PAUSE_SECONDS = 1.0


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
        upserts: UpsertTargets,
        verifications: Verifications,
        files: Files,
        clock: Callable[[], datetime],
    ) -> None:
        self._parts = parts
        self._change_sets = change_sets
        self._spark = change_sets.spark
        self._scratch: Scratch = change_sets.scratch
        self._comparing = Comparing(change_sets.spark, reader, change_sets.scratch, files)
        self._reader = reader
        self._tables = tables
        self._archives = archives
        self._archived = archived
        self._upserts = upserts
        self._verifications = verifications
        self._clock = clock

    def verify(
        self, name: str, target: str, key: str | Collection[str] | None, *, heal: bool, full: bool
    ) -> Verification:
        """Check a target; see ``Engine.verify_target``."""
        with _unreadable(target):
            return self._verified(name, target, key, heal=heal, full=full)

    def _verified(
        self, name: str, target: str, key: str | Collection[str] | None, *, heal: bool, full: bool
    ) -> Verification:
        began = time.monotonic()
        if heal and key is not None:
            self._finish_heal(name, target, key)
        pinned = self._pinned(name, target, Right.CONSUME if heal else Right.READ)
        if heal:
            _check_heals(pinned)
        sides = self._sides(pinned, target, key)
        if SIGN in sides.columns:
            raise InvalidRequest(
                f"target {target}",
                "cannot be verified",
                cause=f"it has a column {SIGN}, and a check needs that name",
                fix="rename that column",
            )
        state = self._verifications.find(pinned.stream.stream_id, pinned.table.location)
        proof = None if full or state is None else usable(state.proof, pinned, sides)
        found = self._comparing.compare(pinned, sides, proof)
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
            pinned.upsert.name if pinned.upsert else pinned.table.name,
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

    def _finish_heal(self, name: str, target: str, key: str | Collection[str]) -> None:
        """Finish what a killed call began to heal: compare all rows of its target."""
        stream = self._parts.registry.snapshot().get(stream_name(name))
        begun = stream.consumption
        if begun is not None and begun.consumer == _healer(stream.name):
            check_access(stream, self._parts.principal, Right.CONSUME)
            self._recovery(stream.name, lambda _side: F.lit(True)).recover(name, target, key)

    def _recovery(self, name: str, within: Callable[[str], Column]) -> Recovery:
        return Recovery(
            self._parts,
            self._change_sets,
            self._reader,
            self._tables,
            _healer(name),
            within=within,
        )

    def _pinned(self, name: str, target: str, right: Right) -> Pinned:
        """The stream and its target, at a moment without an open consumption."""
        table = self._upserts.table(target)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            stream = self._parts.registry.snapshot().get(stream_name(name))
            check_access(stream, self._parts.principal, right)
            newest = self._tables.newest_offset(table)
            archive = Archive.of(table.name, table.sql, table.location, newest.metadata)
            _check_kind(stream, target, archive)
            upsert = self._upserts.find(target, table, newest)
            if upsert is not None:
                self._upserts.check_applied(upsert)
            now = self._parts.registry.snapshot().get(stream_name(name))
            if stream.consumption is None and now.sequence == stream.sequence:
                return Pinned(stream, table, newest, archive, upsert)
            if time.monotonic() > deadline:
                raise StreamConflict(
                    f"stream {name}",
                    "cannot be compared with its target now",
                    cause="a consumption of it is open, so the target may hold a part of it",
                    fix="run the check when the consumption has ended; if a heal was killed, run it"
                    " again with heal=True",
                )
            time.sleep(_PAUSE_SECONDS)

    def _sides(self, pinned: Pinned, target: str, key: str | Collection[str] | None) -> Sides:
        if pinned.archive is not None:
            self._archives.check_untouched(pinned.archive)
            if not pinned.archive.is_whole:
                raise InvalidRequest(
                    pinned.archive.subject,
                    "cannot be verified",
                    cause="it began without the rows of its source, and cannot return them",
                    fix="create a new archive with bootstrap=True",
                )
            return ArchiveSides(self._archived, pinned.archive, pinned.stream.offset)
        source, version = pinned.stream.table_on, pinned.target.version
        if pinned.upsert is not None:
            keyed = self._upserts.keyed(pinned.upsert, pinned.table, key)
            return CopySides(self._spark, keyed, source, version, IS_LIVE)
        if key is None:
            raise InvalidRequest(
                f"target {target}",
                "cannot be verified without a key",
                cause="differences are named by a key",
                fix="name the columns that identify its rows, such as key=['id']",
            )
        found = keyed_target(self._spark, self._tables, target, key, "verified")
        return CopySides(self._spark, found, source, version)

    def _differences(
        self, pinned: Pinned, sides: Sides, found: Found
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
        self, pinned: Pinned, sides: Sides, ranges: Sequence[int], keys: Sequence[str]
    ) -> tuple[KeyDifference, ...]:
        counts = rows_of_keys(self._comparing.whole(pinned, sides), ranges, keys)
        kinds = {key: _kind(*counts.get(key, (0, 0))) for key in sorted(keys)}
        return tuple(KeyDifference(key, kind) for key, kind in kinds.items())

    def _healed(
        self,
        pinned: Pinned,
        sides: Sides,
        target: str,
        key: str | Collection[str],
        ranges: Sequence[int],
    ) -> Outcome:
        """Write the rows of ``ranges`` that differ, as a consumption of the stream."""
        assert isinstance(sides, CopySides)
        name = pinned.stream.name
        recovery = self._recovery(name, lambda side: in_ranges(sides.key_values(side), ranges))
        return recovery.recover(name, target, key)

    def _save(
        self,
        pinned: Pinned,
        sides: Sides,
        found: Found,
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


def _healer(stream: str) -> str:
    """The consumer that heals targets of ``stream``."""
    return f"verify.{stream}"


@contextmanager
def _unreadable(target: str) -> Iterator[None]:
    """Turn what ends a job of a check into an error of the engine.

    :raises StreamUnusable: rows cannot be read, or do not fit the columns of the target
    """
    try:
        yield
    except CdcError:
        raise
    except Exception as error:  # pyspark has no classes for errors of the JVM
        if not has_ended(error):
            raise
        raise StreamUnusable(
            f"target {target}",
            "cannot be compared with its source",
            cause=unfit_value(error) or first_line(error),
            fix="give the column a type that holds the value, or restore the files that are"
            " missing, and run the check again",
        ) from error


def _point(location: str, offset: Offset, size_bytes: int) -> TablePoint:
    return TablePoint(location, offset.table_id, offset.version, offset.fingerprint, size_bytes)


def _kind(in_source: int, in_target: int) -> DifferenceKind:
    if not in_target:
        return DifferenceKind.MISSING
    return DifferenceKind.DIFFERENT if in_source else DifferenceKind.UNEXPECTED


def _check_heals(pinned: Pinned) -> None:
    """Refuse to heal a target that only its own writer may change."""
    if pinned.archive is not None:
        raise InvalidRequest(
            pinned.archive.subject,
            "cannot be healed",
            cause="only archive_changes writes to an archive",
            fix="verify it without heal; if it differs, begin a new archive",
        )
    if pinned.upsert is not None:
        raise InvalidRequest(
            f"target {pinned.upsert.name}",
            "cannot be healed",
            cause="an upsert table changes only by its changes",
            fix="verify it without heal; write the rows of the keys that differ with write_changes,"
            " with a sequence number greater than theirs",
        )


def _check_kind(stream: Stream, target: str, archive: Archive | None) -> None:
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
        raise InvalidRequest(f"target {target}", "cannot be verified", cause=cause, fix=fix)
