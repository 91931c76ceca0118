"""A consumer of a change stream: where it begins and ends, and its ledger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from ..errors import StreamStale
from .captures import RecordTimes
from .definition import ChangeStream
from .layout import Partition
from .ledger import Lease, Ledger, PartitionEntry, PartitionState
from .read_request import ReadRequest, planned
from .stamps import stamp_text


@dataclass(frozen=True, slots=True)
class PartitionRead:
    """A read of a partition that a consumer was handed out: its records from one moment to another,
    inclusive. ``is_last``: they end with the partition, so its children follow.
    """

    partition_token: str
    start_timestamp: str
    end_timestamp: str
    is_last: bool


@dataclass(frozen=True, slots=True)
class ConsumerProgress:
    """How far a consumer is.

    Every record up to ``watermark`` is processed. ``partitions`` is how many partitions it has to
    read, and ``waiting`` how many of them have records that are captured and not processed.
    ``is_complete``: it has an end, and has reached it. ``is_stale``: records that it has not read
    were removed.
    """

    consumer: str
    watermark: str
    partitions: int
    waiting: int
    is_complete: bool
    is_stale: bool


@dataclass(frozen=True, slots=True)
class ConsumerState:
    """The whole state of a consumer; ``start`` and ``end`` are stamps."""

    consumer: str
    stream_id: str
    start: int
    end: int | None
    entries: tuple[tuple[Partition, PartitionEntry], ...]

    @classmethod
    def begun(
        cls, consumer: str, stream: ChangeStream, start: int, end: int | None
    ) -> ConsumerState:
        """The state of a consumer that has read nothing."""
        ledger = Ledger.begun(consumer, start, stream.layout.active_at(start))
        return cls(consumer, stream.stream_id, start, end, tuple(ledger.entries.items()))

    @property
    def ledger(self) -> Ledger:
        """Its partitions."""
        return Ledger(f"consumer {self.consumer}", self.start, dict(self.entries))

    def with_ledger(self, ledger: Ledger) -> ConsumerState:
        """The state with another ledger, or the same one."""
        entries = tuple(ledger.entries.items())
        return self if entries == self.entries else replace(self, entries=entries)

    def handed_out(
        self, stream: ChangeStream, lease: Lease, now: int, limit: int | None
    ) -> tuple[ConsumerState, list[PartitionRead]]:
        """The state after reads were handed out, and these reads, the oldest partitions first.

        :param lease: who gets them
        :param now: the stamp of this moment
        :param limit: how many at most; ``None``: all that are ready
        :raises StreamStale: some records that it has not read were removed
        """
        self.check_kept(stream)
        most = len(self.entries) if limit is None else min(limit, len(self.entries))
        due = dict(islice(self._ready(stream, now, lease.holder), most))
        ledger = self.ledger.scheduled(due, lease)
        reads = [self.read_of(stream, ledger, partition) for partition in due]
        return self.with_ledger(ledger), reads

    def without_empty_reads(
        self, stream: ChangeStream, records: RecordTimes, now: int, holder: str
    ) -> ConsumerState:
        """The state after the reads were done that could be handed out now and have no record.

        Spanner: such a read returns a heartbeat, or child partitions. No reader is needed for that.

        :param records: those of everything captured that the consumer has not read
        :param now: the stamp of this moment
        :param holder: who would get the reads
        :raises StreamStale: some records that it has not read were removed
        """
        self.check_kept(stream)
        state = self
        while True:
            entries = state.ledger.entries
            empty = {
                partition: through
                for partition, through in state._ready(stream, now, holder)
                if not _has_work(partition, entries[partition], through, records)
            }
            if not empty:
                return state
            # Their children may be next.
            state = state.done(stream, empty)

    def count_ready(self, stream: ChangeStream, now: int, holder: str) -> int:
        """How many reads :meth:`handed_out` would hand out now.

        :param now: the stamp of this moment
        :param holder: who would get them
        :raises StreamStale: some records that it has not read were removed
        """
        self.check_kept(stream)
        return sum(1 for _ in self._ready(stream, now, holder))

    def check_kept(self, stream: ChangeStream) -> None:
        """Check that the records that it has not read still exist.

        :raises StreamStale: some were removed at the end of the retention period
        """
        if self.has_lost(stream):
            watermark = self.ledger.watermark
            raise StreamStale(
                f"consumer {self.consumer}",
                f"is stale, it did not read records of {stream.name} in time",
                cause=f"it has read up to {stamp_text(watermark)}, and records before"
                f" {stamp_text(stream.expired)} were removed",
                fix="begin again under another consumer name, and load its targets again; a longer"
                " retention_period keeps later records longer",
            )

    def has_lost(self, stream: ChangeStream) -> bool:
        """Whether records that it has not read were removed."""
        return self.ledger.watermark + 1 < stream.expired

    @property
    def is_complete(self) -> bool:
        """Whether it has an end, and has reached it."""
        return self.end is not None and self.ledger.watermark >= self.end

    def read_of(self, stream: ChangeStream, ledger: Ledger, partition: Partition) -> PartitionRead:
        """The read of a partition that was handed out."""
        entry = ledger.entries[partition]
        assert entry.through is not None
        begin = entry.watermark + 1
        closed = stream.layout.end_of(partition)
        return PartitionRead(
            stream.token_key.token(partition),
            stamp_text(begin),
            stamp_text(entry.through),
            closed is not None and entry.through >= closed - 1,
        )

    def done(self, stream: ChangeStream, reads: Mapping[Partition, int]) -> ConsumerState:
        """The state after the records of partitions, each up to a stamp, were processed."""
        found = {}
        for partition, through in reads.items():
            closed = stream.layout.end_of(partition)
            is_last = closed is not None and through >= closed - 1
            found[partition] = (
                through,
                stream.layout.children_of(partition) if is_last else (),
            )
        return self.with_ledger(self.ledger.done(found))

    def progress(self, stream: ChangeStream, records: RecordTimes) -> ConsumerProgress:
        """How far it is.

        :param records: those of everything captured that it has not read
        """
        entries = {
            partition: entry
            for partition, entry in self.entries
            if entry.state is not PartitionState.FINISHED
        }
        watermark = self.ledger.watermark
        waiting = sum(
            (due := self._due(stream, partition, entry)) is not None
            and _has_work(partition, entry, due, records)
            for partition, entry in entries.items()
        )
        return ConsumerProgress(
            self.consumer,
            stamp_text(watermark),
            len(entries),
            waiting,
            is_complete=self.is_complete,
            is_stale=self.has_lost(stream),
        )

    def _ready(
        self, stream: ChangeStream, now: int, holder: str
    ) -> Iterator[tuple[Partition, int]]:
        """The partitions that can be handed out, and the stamp up to which each can be read."""
        ledger = self.ledger
        for partition in ledger.ready_at(now, holder):
            due = self._due(stream, partition, ledger.entries[partition])
            if due is not None:
                yield partition, due

    def _due(self, stream: ChangeStream, partition: Partition, entry: PartitionEntry) -> int | None:
        """The stamp up to which a partition can be read now; ``None``: nothing is left to read."""
        if entry.through is not None:
            return entry.through
        request = ReadRequest(entry.watermark + 1, self.end, None)
        found = planned(stream, request, partition)
        is_due = found.through > entry.watermark or found.is_finished
        return found.through if is_due else None


def _has_work(
    partition: Partition, entry: PartitionEntry, through: int, records: RecordTimes
) -> bool:
    """Whether a reader is needed for a partition up to a stamp: it has records, or a read of it was
    handed out, which keeps its range.
    """
    is_handed_out = entry.through is not None
    return is_handed_out or records.has_any(partition, entry.watermark + 1, through)
