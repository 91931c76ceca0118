"""What the page of streams shows of a change stream: partitions over time, and consumers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from ..change_streams.consumer import ConsumerState
from ..change_streams.definition import ChangeStream
from ..change_streams.key_ranges import BUCKETS
from ..change_streams.layout import Partition
from ..change_streams.ledger import PartitionEntry, PartitionState
from ..change_streams.stamps import moment_of, stamp_of

_MOST_PARTITIONS = 500


@dataclass(frozen=True, slots=True)
class PartitionLine:
    """A partition: its keys as shares of the key space, from 0 to 1, and its time.

    ``end`` is ``None`` while it is open. ``parents`` are the places of the partitions that it
    follows, in the list of all partitions.
    """

    low: float
    high: float
    start: datetime
    end: datetime | None
    parents: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """How far a consumer has read a partition, by its place in the list of all partitions.

    ``is_stuck``: it was handed out, and the time in which its reader had to report has passed.
    """

    partition: int
    state: str
    watermark: datetime
    is_stuck: bool


@dataclass(frozen=True, slots=True)
class ConsumerLine:
    """How far a consumer is; every record up to ``watermark`` is processed."""

    consumer: str
    watermark: datetime
    is_complete: bool
    is_stale: bool
    partitions: tuple[PartitionProgress, ...]


@dataclass(frozen=True, slots=True)
class ChangeStreamLine:
    """The status of a change stream. Every record up to ``captured_through`` can be read.
    ``sealed_commits`` are the commits that wait for a capture. ``partitions`` are the newest ones.
    """

    name: str
    tables: tuple[str, ...]
    captured_through: datetime
    sealed_commits: int
    partitions: tuple[PartitionLine, ...]
    consumers: tuple[ConsumerLine, ...]


def change_stream_line(
    stream: ChangeStream, consumers: Iterable[ConsumerState], now: datetime
) -> ChangeStreamLine:
    """The line of a change stream."""
    opened = [partition for step in stream.steps for partition in step.opened]
    shown = opened[-_MOST_PARTITIONS:]
    places = {partition: place for place, partition in enumerate(shown)}
    parents = {
        child.partition: tuple(places[each] for each in child.parents if each in places)
        for partition in shown
        for child in stream.layout.children_of(partition)
    }
    return ChangeStreamLine(
        name=stream.name,
        tables=tuple(table.name for table in stream.tables),
        captured_through=moment_of(stream.captured),
        sealed_commits=len(stream.pending),
        partitions=tuple(
            _partition_line(stream, partition, parents.get(partition, ())) for partition in shown
        ),
        consumers=tuple(
            _consumer_line(stream, consumer, places, stamp_of(now))
            for consumer in sorted(consumers, key=lambda each: each.consumer)
        ),
    )


def _partition_line(
    stream: ChangeStream, partition: Partition, parents: tuple[int, ...]
) -> PartitionLine:
    end = stream.layout.end_of(partition)
    return PartitionLine(
        low=partition.keys.low / BUCKETS,
        high=partition.keys.high / BUCKETS,
        start=moment_of(partition.start),
        end=None if end is None else moment_of(end),
        parents=parents,
    )


def _consumer_line(
    stream: ChangeStream, consumer: ConsumerState, places: dict[Partition, int], now: int
) -> ConsumerLine:
    return ConsumerLine(
        consumer=consumer.consumer,
        watermark=moment_of(consumer.ledger.watermark),
        is_complete=consumer.is_complete,
        is_stale=consumer.has_lost(stream),
        partitions=tuple(
            PartitionProgress(
                places[partition],
                entry.state.value,
                moment_of(entry.watermark),
                is_stuck=_is_stuck(entry, now),
            )
            for partition, entry in sorted(consumer.entries)
            if partition in places
        ),
    )


def _is_stuck(entry: PartitionEntry, now: int) -> bool:
    is_out = entry.state in (PartitionState.SCHEDULED, PartitionState.RUNNING)
    return is_out and entry.lease is not None and entry.lease.until < now
