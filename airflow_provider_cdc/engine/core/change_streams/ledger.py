"""How far a consumer has read each partition of a change stream.

Spanner: the records of a child are processed after those of all its parents. So a partition is
handed out only when all its parents are finished. A partition is finished when its child records
were returned, which its reader gets after all its other records.
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
    RUNNING = "running"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class PartitionEntry:
    """A partition in a ledger.

    ``watermark`` is in microseconds since 1970: the consumer has processed every record of the
    partition up to it.
    """

    state: PartitionState
    watermark: int
    parents: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class Ledger:
    """The partitions that a consumer has met, with its progress.

    :param subject: the consumer, for messages
    :param start: the moment from which it reads, in microseconds since 1970
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
        """The moment up to which every record of the stream is processed, in microseconds.

        Spanner: when each reader holds a moment or a later one, everything up to it is complete.
        """
        return min(
            entry.watermark
            for entry in self.entries.values()
            if entry.state is not PartitionState.FINISHED
        )

    @property
    def ready(self) -> tuple[Partition, ...]:
        """The partitions that may be read now, the oldest first."""
        return tuple(
            partition
            for partition in sorted(self.entries)
            if self.entries[partition].state is PartitionState.CREATED and self._may_run(partition)
        )

    def running(self, partition: Partition) -> Ledger:
        """The ledger with a partition that a reader begins, or begins again after a crash.

        :raises InvalidRequest: it is unknown, finished, or one of its parents is not finished
        """
        entry = self._unfinished(partition, "cannot read a partition")
        if not self._may_run(partition):
            waiting = sum(not self._is_finished(parent) for parent in entry.parents)
            raise InvalidRequest(
                self.subject,
                "cannot read a partition before all its parents are finished",
                cause=f"{waiting} of its {len(entry.parents)} parents are not finished",
                fix="read the partitions that the list of ready partitions returns",
            )
        return self._with(partition, replace(entry, state=PartitionState.RUNNING))

    def processed(self, partition: Partition, through: int) -> Ledger:
        """The ledger after the records of a partition up to a moment were processed.

        :param through: microseconds since 1970; an earlier moment than before changes nothing
        :raises InvalidRequest: the partition is unknown or finished
        """
        entry = self._unfinished(partition, "cannot move the watermark of a partition")
        return self._with(partition, replace(entry, watermark=max(entry.watermark, through)))

    def released(self, partition: Partition) -> Ledger:
        """The ledger after a reader stopped before the end of a partition, at its watermark.

        :raises InvalidRequest: the partition is unknown or finished
        """
        entry = self._unfinished(partition, "cannot release a partition")
        return self._with(partition, replace(entry, state=PartitionState.CREATED))

    def finished(self, partition: Partition, children: Collection[Child]) -> Ledger:
        """The ledger after a reader returned all records of a partition and its ``children``.

        A child of a merge is registered once, by whichever parent is finished first. If a read that
        was thought dead reports the same end again, nothing changes.

        :raises InvalidRequest: the partition is unknown, or there are no children
        """
        if not children:
            raise InvalidRequest(
                self.subject,
                "cannot finish a partition without its child partitions",
                cause="a read that returned no child partitions record did not reach the end",
                fix="release the partition, and read it again from its watermark",
            )
        if self._is_finished(partition):
            return self
        entry = self._unfinished(partition, "cannot finish a partition")
        end = min(child.partition.start for child in children)
        entries = dict(self.entries)
        entries[partition] = replace(
            entry, state=PartitionState.FINISHED, watermark=max(entry.watermark, end - 1)
        )
        for child in children:
            fresh = PartitionEntry(PartitionState.CREATED, child.partition.start - 1, child.parents)
            entries.setdefault(child.partition, fresh)
        return replace(self, entries=entries)

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
                cause="the consumer has not met it"
                if entry is None
                else "the consumer has finished it",
                fix="name a partition that the list of ready partitions returns",
            )
        return entry

    def _with(self, partition: Partition, entry: PartitionEntry) -> Ledger:
        return replace(self, entries={**self.entries, partition: entry})
