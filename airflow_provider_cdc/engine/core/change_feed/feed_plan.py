"""Decides from the log only which files hold the changes of each commit of a range."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from ..change_sets.net_files import NetFiles, fold, inserted_files
from ..change_sets.read_plan import OPENING_BYTES, ReadPlan, Strategy
from ..delta.layout_history import LayoutHistory, layout_history
from ..delta.log_actions import Commit, DataFile
from ..delta.tracking import ENABLED as ROWS_ENABLED
from ..errors import ChangeTrackingDisabled, StreamStale
from ..figures import counted, known_sum
from ..model.sources import Offset
from .feed_options import FeedSource
from .recordings import FEED_ENABLED, Recording, recordings

_NOTHING = NetFiles((), (), (), changes_data=False)
_MERGE = "MERGE"
# A MERGE may rewrite files and change no row. Then it writes no change files either.
_MERGED_ROWS = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")
# Pairing the rows of two sides takes about as long as reading them.
_PAIRING = 2


class Rewrite(StrEnum):
    """What a commit did to the rows of the files that it rewrote, as far as its log shows.

    ``UPDATES``: it kept each row. ``REMOVES``: it kept the values of each row that is left.
    """

    ANY = "any"
    UPDATES = "updates"
    REMOVES = "removes"


@dataclass(frozen=True, slots=True)
class FeedCommit:
    """The files that hold the changes of one commit.

    ``before`` and ``after`` are the places in the layout history of the layouts in force before and
    after it. ``change_files`` hold rows with their kind of change. ``inserted`` are data files
    whose own rows were inserted; they are read instead of the inserts in change files if row ids
    are wanted. ``net`` is the file difference. If ``is_paired`` is true, its rows are paired by
    their row ids; otherwise each row of a removed file is a delete, and each row of an added file
    is an insert.
    """

    version: int
    before: int
    after: int
    change_files: tuple[DataFile, ...] = ()
    inserted: tuple[DataFile, ...] = ()
    net: NetFiles = _NOTHING
    is_paired: bool = False
    rewrite: Rewrite = Rewrite.ANY

    @property
    def files(self) -> tuple[DataFile, ...]:
        """All of these files. A file whose deletion vector changed is listed with both vectors."""
        return (*self.change_files, *self.inserted, *self.net.files)

    @property
    def file_count(self) -> int:
        """How many files have to be read."""
        return len(self.change_files) + len(self.inserted) + self.net.file_count

    @property
    def size_bytes(self) -> int:
        """The bytes of these files."""
        own = sum(file.size_bytes for file in (*self.change_files, *self.inserted))
        return own + self.net.size_bytes

    @property
    def cost_bytes(self) -> int:
        """The cost by which two ways to read one commit are compared."""
        read = self.size_bytes + self.file_count * OPENING_BYTES
        return read * (_PAIRING if self.is_paired and self.net.has_both_sides else 1)


@dataclass(frozen=True, slots=True)
class FeedPlan:
    """How the feed of a range is read.

    ``protocols`` has the protocol action for each layout of the ``history``. ``commits`` are the
    commits that changed rows. ``others`` has, by version, the other way to read a commit if there
    is one.
    """

    history: LayoutHistory
    protocols: tuple[Mapping[str, Any], ...]
    commits: tuple[FeedCommit, ...]
    others: Mapping[int, FeedCommit]

    def read_plan(self, commit_count: int) -> ReadPlan:
        """What the feed reads, for logs and outcomes.

        :param commit_count: the number of commits of the range
        """
        changes = [commit for commit in self.commits if commit.change_files]
        return ReadPlan(
            Strategy.FEED if self.commits else Strategy.NOTHING,
            sum(commit.file_count for commit in self.commits),
            sum(commit.size_bytes for commit in self.commits),
            commit_count,
            f"{counted(len(self.commits), 'commit')} changed data, {len(changes)} of them are read"
            " from change files",
        )

    def instead(self, versions: Collection[int]) -> FeedPlan:
        """The plan with the other way for the commits of ``versions`` that have one."""
        return replace(
            self,
            commits=tuple(
                self.others.get(commit.version, commit) if commit.version in versions else commit
                for commit in self.commits
            ),
            others={},
        )


def plan_feed(
    subject: str, start: Offset, commits: Sequence[Commit], source: FeedSource, *, row_ids: bool
) -> FeedPlan:
    """Where to read the changes of each of ``commits``, which follow ``start``.

    :param subject: the feed, for messages
    :param row_ids: whether the row id of each change is wanted
    :raises ChangeTrackingDisabled: a commit has its changes recorded nowhere, or not in the
        ``source``
    :raises StreamStale: the table was replaced, or a commit hides what it changed
    """
    found = recordings(start.metadata, commits)
    _check_recorded(subject, found, source, row_ids=row_ids)
    _check_same_table(subject, start.table_id, found)
    history = layout_history(start, commits)
    planned: list[FeedCommit] = []
    others: dict[int, FeedCommit] = {}
    protocol, protocols, place = start.protocol, [start.protocol], 0
    for item in found:
        commit, before = item.commit, place
        protocol = commit.protocol or protocol
        if commit.metadata is not None:
            place += 1
            protocols.append(protocol)
        protocols[place] = protocol
        if not commit.changes_data:
            continue
        ways = _ways(item, FeedCommit(commit.version, before, place), source, row_ids=row_ids)
        ways.sort(key=lambda way: way.cost_bytes)
        if ways and ways[0].file_count:
            planned.append(ways[0])
            others |= {way.version: way for way in ways[1:]}
    return FeedPlan(history, tuple(protocols), tuple(planned), others)


def _ways(
    item: Recording, empty: FeedCommit, source: FeedSource, *, row_ids: bool
) -> list[FeedCommit]:
    """The ways to read one commit that lead to the same changes."""
    found = []
    is_tracked = item.gap is None and not item.unreadable and source is not FeedSource.FEED
    if is_tracked:
        net = fold([item.commit])
        rewrite = _rewrite(item.commit, net)
        found.append(replace(empty, net=net, is_paired=True, rewrite=rewrite))
    if item.is_fed and source is not FeedSource.ROW_TRACKING:
        if item.commit.change_files:
            inserted = inserted_files([item.commit]) if row_ids else []
            files = tuple(file for _, file in inserted)
            found.append(replace(empty, change_files=item.commit.change_files, inserted=files))
        elif not is_tracked:
            found.append(replace(empty, net=_as_delta_reads(item.commit)))
    return found


def _rewrite(commit: Commit, net: NetFiles) -> Rewrite:
    if commit.operation == "DELETE":
        return Rewrite.REMOVES
    has_vectors = net.revectored or any(file.deletion_vector for file in (*net.removed, *net.added))
    # The log rarely shows how many rows a removed file has.
    before, after = (
        known_sum(file.record_count for file in files) for files in (net.removed, net.added)
    )
    differs = before is not None and after is not None and before != after
    if commit.operation == "UPDATE" and not has_vectors and not differs:
        return Rewrite.UPDATES
    return Rewrite.ANY


def _as_delta_reads(commit: Commit) -> NetFiles:
    """The difference that Delta's feed derives from a commit without change files: each file action
    that changes data.
    """
    counts = [commit.metrics.get(name) for name in _MERGED_ROWS]
    if commit.operation == _MERGE and counts == [0] * len(counts):
        return _NOTHING
    return fold(
        [
            replace(
                commit,
                adds=tuple(file for file in commit.adds if file.data_change),
                removes=tuple(file for file in commit.removes if file.data_change),
            )
        ]
    )


def _check_recorded(
    subject: str, found: Sequence[Recording], source: FeedSource, *, row_ids: bool
) -> None:
    """Refuse a range with a commit whose changes are not recorded."""
    missing = [(item, why) for item in found if (why := _obstacle(item, source, row_ids=row_ids))]
    if not missing and row_ids:
        missing = _between_changes(found)
    if not missing:
        return
    first, cause = missing[0]
    last, _ = missing[-1]
    raise ChangeTrackingDisabled(
        subject,
        f"cannot include version {first.commit.version}",
        cause=cause,
        fix=_way_out(last, found[-1], source),
    )


def _obstacle(item: Recording, source: FeedSource, *, row_ids: bool) -> str | None:
    """Why the changes of a commit cannot be read from ``source``; ``None`` if they can."""
    version = item.commit.version
    unfed = f"the change data feed was off at version {version}"
    if source is FeedSource.FEED and not item.is_fed:
        return unfed
    if not item.has_changes:
        return None
    reads_change_files = item.is_fed and bool(item.commit.change_files)
    if item.unreadable and (source is FeedSource.ROW_TRACKING or not reads_change_files):
        return item.unreadable
    if item.gap is None:
        return None
    if source is FeedSource.ROW_TRACKING or row_ids:
        return item.gap
    if source is FeedSource.AUTO and not item.commit.changes_data:
        return item.gap
    return None if item.is_fed else f"{item.gap}, and {unfed}"


def _between_changes(found: Sequence[Recording]) -> list[tuple[Recording, str]]:
    """The commits between two changes that gave rows other ids, or switched row tracking off."""
    changed = [place for place, item in enumerate(found) if item.has_changes]
    if not changed:
        return []
    return [(item, item.gap) for item in found[changed[0] : changed[-1]] if item.gap is not None]


def _way_out(last: Recording, newest: Recording, source: FeedSource) -> str:
    """What to do about a range whose last unrecorded commit is ``last``."""
    later = last.commit.version + 1
    if last is not newest:
        return f"begin with version {later}: from there on every change is recorded"
    if source is not FeedSource.AUTO and (newest.is_fed or newest.is_tracked):
        return 'pass source="auto", which reads what is recorded'
    if newest.is_fed or newest.is_tracked:
        return f"begin with version {later}, and take the rows of before that from a snapshot"
    wanted = FEED_ENABLED if source is FeedSource.FEED else ROWS_ENABLED
    return f"switch {wanted} on; changes are recorded from then on"


def _check_same_table(subject: str, table_id: str, found: Sequence[Recording]) -> None:
    for item in found:
        if item.table_id != table_id:
            raise StreamStale(
                subject,
                "cannot include a replacement of the table",
                cause=f"version {item.commit.version} replaced the table by another one",
                fix=f"begin with version {item.commit.version + 1}, and take the rows of before"
                f" that from a snapshot, or end with version {item.commit.version - 1}",
            )
