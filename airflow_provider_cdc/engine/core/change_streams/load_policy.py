"""Which partitions of a change stream to split and to merge, by what was captured of them.

Spanner: partitions split and merge with load. Here the load of a partition is how many changed rows
one advance captured of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from .captures import QUARANTINED, Capture
from .layout import Layout, Partition

MOST_PARTITIONS = 1024
"""The most partitions at a time. Airflow maps at most so many tasks by default."""

# A partition with so many times the wanted rows is split. Two with a smaller share are merged.
_SPLIT_ABOVE = 2.0
_MERGE_BELOW = 0.5


@dataclass(frozen=True, slots=True)
class Rebalance:
    """Partitions to split, and neighbours to merge."""

    splits: tuple[Partition, ...]
    merges: tuple[tuple[Partition, Partition], ...]


def loads_of(layout: Layout, captures: Iterable[Capture]) -> dict[Partition, int]:
    """How many changed rows each open partition has in captures of its time."""
    open_ones = {partition.keys.low: partition for partition in layout.open}
    found = dict.fromkeys(layout.open, 0)
    for capture in captures:
        for group in capture.groups:
            partition = open_ones.get(group.first_bucket)
            if partition is None or group.mod_type == QUARANTINED:
                continue
            if group.stamp >= partition.start:
                found[partition] += group.rows
    return found


def rebalanced(
    layout: Layout, loads: Mapping[Partition, int], target_rows: int, begin: int
) -> Rebalance:
    """The splits and merges after which partitions have about ``target_rows`` in each advance.

    A partition that is younger than the advance is left alone, because its load is that of a part
    of the advance. An advance without any row changes nothing.

    :param loads: the changed rows of each open partition
    :param begin: the first stamp of the advance
    """
    if not any(loads.values()):
        return Rebalance((), ())
    old = [partition for partition in layout.open if partition.start <= begin]
    heavy = [
        partition
        for partition in old
        if loads[partition] > _SPLIT_ABOVE * target_rows and partition.keys.size > 1
    ]
    # Those with the most rows first, if not all can be split.
    heavy.sort(key=lambda partition: (-loads[partition], partition.keys))
    room = MOST_PARTITIONS - len(layout.open)
    merges: list[tuple[Partition, Partition]] = []
    for one, other in pairwise(old):
        are_neighbours = one.keys.high == other.keys.low
        is_free = not merges or merges[-1][1] != one
        is_light = loads[one] + loads[other] < _MERGE_BELOW * target_rows
        if are_neighbours and is_free and is_light:
            merges.append((one, other))
    return Rebalance(tuple(heavy[:room]), tuple(merges))


def middle_of(partition: Partition, rows: Mapping[int, int]) -> int:
    """The bucket before which a partition is split so that both parts have alike many rows.

    :param rows: how many rows its buckets have
    """
    keys = partition.keys
    buckets: Sequence[int] = sorted(bucket for bucket in rows if bucket in keys)
    total = sum(rows[bucket] for bucket in buckets)
    sums = accumulate(rows[bucket] for bucket in buckets)
    # The sum before a bucket and that through it; the cut is where the first is nearest the half.
    cuts = {bucket: so_far - rows[bucket] for bucket, so_far in zip(buckets, sums, strict=True)}
    inside = {bucket: abs(2 * left - total) for bucket, left in cuts.items() if bucket > keys.low}
    if not inside:
        # One bucket has all of them, so the others get a partition of their own.
        return keys.low + 1
    return min(inside, key=lambda bucket: (inside[bucket], bucket))
