"""How far a consumer has read each partition of a change stream.

Spanner: the records of a child are processed after those of all its parents. So a partition is
handed out only when all its parents are finished. A partition is finished when its child records
were returned, which its reader gets after all its other records.

A read that was handed out has a fixed end. If its reader crashes, the next one reads the same
range, so that a target that has it already can skip it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from ..errors import InvalidRequest
from .layout import Child, Partition


class PartitionState(StrEnum):
    """What a consumer has done with a partition."""

    CREATED = "created"
    SCHEDULED = "scheduled"
    RUNNING = "running"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Lease:
    """Who reads a partition, and the moment after which another may: a stamp."""

    holder: str
    until: int


@dataclass(frozen=True, slots=True)
class PartitionEntry:
    """A partition in a ledger.

    ``watermark`` is a stamp: the consumer has processed every record of the partition up to it.
    ``through`` is the end of the read that was handed out and is not done.
    """

    state: PartitionState
    watermark: int
    parents: tuple[Partition, ...]
    through: int | None = None
    lease: Lease | None = None


@dataclass(frozen=True, slots=True)
class Ledger:
    """The partitions that a consumer has met, with its progress.

    :param subject: the consumer, for messages
    :param start: the stamp from which it reads
    """

    subject: str
    start: int
    entries: Mapping[Partition, PartitionEntry]

    @classmethod
    def begun(cls, subject: str, start: int, partitions: Collection[Partition]) -> Ledger:
        """The ledger of a consumer that has read nothing.

        :param partitions: those that hold the records of ``start``; their own parents hold only
            records from before it
        """
        entry = PartitionEntry(PartitionState.CREATED, start - 1, ())
        return cls(subject, start, dict.fromkeys(partitions, entry))

    @property
    def watermark(self) -> int:
        """The stamp up to which every record of the stream is processed.

        Spanner: when each reader holds a moment or a later one, everything up to it is complete.
        """
        return min(
            entry.watermark
            for entry in self.entries.values()
            if entry.state is not PartitionState.FINISHED
        )

    def ready_at(self, now: int, holder: str = "") -> tuple[Partition, ...]:
        """The partitions that may be handed out, the oldest first.

        :param now: the stamp of this moment; leases before it have ended
        :param holder: who asks. Its own leases do not count: an earlier answer to it may be lost
        """
        return tuple(
            partition
            for partition in sorted(self.entries)
            if self._is_free(self.entries[partition], now, holder) and self._may_run(partition)
        )

    def scheduled(self, reads: Mapping[Partition, int], lease: Lease) -> Ledger:
        """The ledger with partitions that are handed out, each to be read up to a stamp.

        If a read of one was handed out before and is not done, its end stays.

        :raises InvalidRequest: one is unknown, finished, or one of its parents is not finished
        """
        entries = dict(self.entries)
        for partition, through in reads.items():
            entry = self._unfinished(partition, "cannot hand out a partition")
            if not self._may_run(partition):
                waiting = sum(not self._is_finished(parent) for parent in entry.parents)
                raise InvalidRequest(
                    self.subject,
                    "cannot read a partition before all its parents are finished",
                    cause=f"{waiting} of its {len(entry.parents)} parents are not finished",
                    fix="read the partitions that list_partitions returns",
                )
            fixed = through if entry.through is None else entry.through
            entries[partition] = replace(
                entry, state=PartitionState.SCHEDULED, through=fixed, lease=lease
            )
        return replace(self, entries=entries)

    def running(self, partition: Partition) -> Ledger:
        """The ledger with a partition that a reader begins, or begins again after a crash.

        :raises InvalidRequest: it is unknown or finished, or was not handed out
        """
        entry = self._unfinished(partition, "cannot read a partition")
        if entry.through is None:
            raise InvalidRequest(
                self.subject,
                "cannot read a partition that was not handed out",
                cause="its last read is done",
                fix="read the partitions that list_partitions returns",
            )
        return self._with(partition, replace(entry, state=PartitionState.RUNNING))

    def done(self, reads: Mapping[Partition, tuple[int, Collection[Child]]]) -> Ledger:
        """The ledger after the records of partitions, each up to a stamp, were processed.

        With children, a partition is finished. A child of a merge is registered once, by whichever
        parent is finished first. If a reader that was thought dead reports the same again, nothing
        changes.

        :param reads: the stamp of each partition, and what the child partitions record of its read
            has; empty without one
        :raises InvalidRequest: a partition is unknown
        """
        entries = dict(self.entries)
        for partition, (through, children) in reads.items():
            known = self.entries.get(partition)
            if known is not None and self._knows(known, through, children):
                continue
            entry = self._unfinished(partition, "cannot move the watermark of a partition")
            is_whole = entry.through is None or through >= entry.through
            entries[partition] = replace(
                entry,
                state=PartitionState.FINISHED if children else PartitionState.CREATED,
                watermark=max(entry.watermark, through),
                through=None if is_whole else entry.through,
                lease=None,
            )
            for child in children:
                begin = child.partition.start - 1
                fresh = PartitionEntry(PartitionState.CREATED, begin, child.parents)
                entries.setdefault(child.partition, fresh)
        if entries == self.entries:
            return self
        return replace(self, entries=entries)._without_history()

    def released(self, holder: str) -> Ledger:
        """The ledger without the leases of a holder whose readers have all ended."""
        entries = {
            partition: replace(entry, state=PartitionState.CREATED, lease=None)
            if entry.lease is not None and entry.lease.holder == holder
            else entry
            for partition, entry in self.entries.items()
        }
        return self if entries == self.entries else replace(self, entries=entries)

    def _without_history(self) -> Ledger:
        """The ledger without finished partitions that no other one waits for."""
        needed = {
            parent
            for entry in self.entries.values()
            if entry.state is not PartitionState.FINISHED
            for parent in entry.parents
        }
        kept = {
            partition: entry
            for partition, entry in self.entries.items()
            if entry.state is not PartitionState.FINISHED or partition in needed
        }
        return replace(self, entries=kept)

    @staticmethod
    def _knows(entry: PartitionEntry, through: int, children: Collection[Child]) -> bool:
        if entry.state is PartitionState.FINISHED:
            return True
        return not children and entry.watermark >= through and entry.through != through

    @staticmethod
    def _is_free(entry: PartitionEntry, now: int, holder: str) -> bool:
        if entry.state is PartitionState.FINISHED:
            return False
        lease = entry.lease
        return lease is None or lease.until < now or bool(holder and lease.holder == holder)

    def _may_run(self, partition: Partition) -> bool:
        return all(map(self._is_finished, self.entries[partition].parents))

    def _is_finished(self, partition: Partition) -> bool:
        entry = self.entries.get(partition)
        # Each partition from the start on is met before its children are: an unknown parent is one
        # that another parent of a merge reported first.
        return entry is not None and entry.state is PartitionState.FINISHED

    def _unfinished(self, partition: Partition, problem: str) -> PartitionEntry:
        entry = self.entries.get(partition)
        if entry is None or entry.state is PartitionState.FINISHED:
            raise InvalidRequest(
                self.subject,
                problem,
                cause="the consumer has not met it, or has finished it long ago"
                if entry is None
                else "the consumer has finished it",
                fix="name a partition that list_partitions returns",
            )
        return entry

    def _with(self, partition: Partition, entry: PartitionEntry) -> Ledger:
        return replace(self, entries={**self.entries, partition: entry})
