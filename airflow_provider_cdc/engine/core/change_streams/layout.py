"""The partitions of a change stream over time.

Spanner: a partition is an immutable range of keys over a range of time. It can split into others or
merge with others; its children take over the time from then on. Here a layout is a log of such
steps. At each moment, its partitions cover the key space without an overlap, so the records of a
key are in exactly one partition.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ..errors import InvalidRequest
from .key_ranges import KeyRange, equal_ranges


@dataclass(frozen=True, slots=True, order=True)
class Partition:
    """A range of keys from a moment on.

    ``start`` is in microseconds since 1970, in the time of the stream's clock. ``sequence`` is the
    number of the step that opened it.
    """

    start: int
    sequence: int
    keys: KeyRange


@dataclass(frozen=True, slots=True)
class LayoutStep:
    """Partitions that a moment closed, and those that it opened for the same keys.

    ``at`` is in microseconds since 1970. Records from then on belong to the ``opened`` partitions.
    """

    at: int
    sequence: int
    closed: tuple[Partition, ...]
    opened: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class Child:
    """A partition and all the partitions whose keys it took over."""

    partition: Partition
    parents: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """The steps of a layout, oldest first.

    :param subject: the change stream, for messages
    """

    subject: str
    steps: tuple[LayoutStep, ...]

    @classmethod
    def created(cls, subject: str, at: int, count: int) -> Layout:
        """A layout that begins with ``count`` partitions of nearly equal size."""
        opened = tuple(Partition(at, 0, keys) for keys in equal_ranges(count))
        return cls(subject, (LayoutStep(at, 0, (), opened),))

    @property
    def open(self) -> tuple[Partition, ...]:
        """The partitions that no step has closed yet, in the order of their keys."""
        return self.active_at(self.steps[-1].at)

    def active_at(self, at: int) -> tuple[Partition, ...]:
        """The partitions that hold the records of a moment, in the order of their keys.

        :param at: microseconds since 1970, not before the layout begins
        """
        found: set[Partition] = set()
        for step in self.steps:
            if step.at > at:
                break
            found = found.difference(step.closed).union(step.opened)
        return tuple(sorted(found, key=lambda partition: partition.keys))

    def holds(self, partition: Partition) -> bool:
        """Whether the layout has, or had, that partition."""
        return any(partition in step.opened for step in self.steps)

    def end_of(self, partition: Partition) -> int | None:
        """The moment at which a partition was closed; its records are from before that."""
        step = self._closing(partition)
        return None if step is None else step.at

    def children_of(self, partition: Partition) -> tuple[Child, ...]:
        """The partitions that took over keys of a closed ``partition``.

        Spanner: each parent of a merge returns the same child, with all its parents.
        """
        step = self._closing(partition)
        if step is None:
            return ()
        return tuple(
            Child(opened, _of_keys(step.closed, opened.keys))
            for opened in step.opened
            if _share_keys(opened.keys, partition.keys)
        )

    def since(self, at: int) -> Layout:
        """The layout without what ended before a moment, or the same one.

        What ended at the moment itself stays, because its readers have to meet its children.

        :param at: microseconds since 1970; readers ask for nothing before it
        """
        begun = [step for step in self.steps if step.at < at]
        if len(begun) < 2:  # noqa: PLR2004 - one step is the beginning
            return self
        first = replace(begun[-1], closed=(), opened=self.active_at(begun[-1].at))
        return replace(self, steps=(first, *self.steps[len(begun) :]))

    def split(self, partition: Partition, bucket: int, at: int) -> Layout:
        """The layout in which a partition is split before a bucket.

        :param at: microseconds since 1970, after the last step
        :raises InvalidRequest: the partition is closed, or the bucket is not inside of it
        """
        keys = partition.keys
        if not keys.low < bucket < keys.high:
            raise InvalidRequest(
                self.subject,
                f"cannot split a partition before bucket {bucket}",
                cause=f"the partition has the buckets {keys.low} to {keys.high - 1}",
                fix=f"name a bucket from {keys.low + 1} to {keys.high - 1}"
                if keys.size > 1
                else "split another partition: this one has a single bucket",
            )
        return self._then(
            at, (partition,), (KeyRange(keys.low, bucket), KeyRange(bucket, keys.high))
        )

    def merge(self, partitions: Collection[Partition], at: int) -> Layout:
        """The layout in which neighbouring partitions are one.

        :param at: microseconds since 1970, after the last step
        :raises InvalidRequest: a partition is closed, or they are not neighbours
        """
        merged = sorted(set(partitions), key=lambda partition: partition.keys)
        neighbours = all(one.keys.high == other.keys.low for one, other in pairwise(merged))
        if len(merged) < 2 or not neighbours:  # noqa: PLR2004 - a merge has two sides
            raise InvalidRequest(
                self.subject,
                "cannot merge these partitions",
                cause=f"expected two or more neighbours, found {_shown(merged)}",
                fix="name partitions whose key ranges follow each other",
            )
        return self._then(at, merged, (KeyRange(merged[0].keys.low, merged[-1].keys.high),))

    def move(self, partition: Partition, at: int) -> Layout:
        """The layout in which a new partition has the keys of ``partition``.

        :param at: microseconds since 1970, after the last step
        :raises InvalidRequest: the partition is closed
        """
        return self._then(at, (partition,), (partition.keys,))

    def _then(self, at: int, closed: Sequence[Partition], keys: Sequence[KeyRange]) -> Layout:
        last = self.steps[-1]
        unknown = set(closed).difference(self.open)
        if unknown:
            raise InvalidRequest(
                self.subject,
                "cannot change a partition that is closed",
                cause=f"{_shown(sorted(unknown))} was split, merged or moved before",
                fix="name one of the open partitions",
            )
        if at <= last.at:
            raise ValueError(f"expected a moment after {last.at}, found {at}")
        sequence = last.sequence + 1
        opened = tuple(Partition(at, sequence, each) for each in keys)
        return replace(self, steps=(*self.steps, LayoutStep(at, sequence, tuple(closed), opened)))

    def _closing(self, partition: Partition) -> LayoutStep | None:
        return next((step for step in self.steps if partition in step.closed), None)


def _share_keys(one: KeyRange, other: KeyRange) -> bool:
    return one.low < other.high and other.low < one.high


def _of_keys(partitions: Sequence[Partition], keys: KeyRange) -> tuple[Partition, ...]:
    return tuple(each for each in partitions if _share_keys(each.keys, keys))


def _shown(partitions: Sequence[Partition]) -> str:
    return ", ".join(f"buckets {each.keys.low} to {each.keys.high - 1}" for each in partitions)
