"""Change streams and their layouts for tests without Spark."""

from __future__ import annotations

import random
from collections.abc import Collection
from itertools import pairwise

from airflow_provider_cdc.engine.core.change_streams.definition import (
    CaptureSettings,
    ChangeStream,
)
from airflow_provider_cdc.engine.core.change_streams.key_ranges import BUCKETS
from airflow_provider_cdc.engine.core.change_streams.layout import Layout, Partition
from airflow_provider_cdc.engine.core.change_streams.watches import WatchedTable
from airflow_provider_cdc.engine.core.model.sources import Source


def churned(seed: int, steps: int, count: int = 3) -> Layout:
    """A layout after random splits, merges and moves."""
    chance = random.Random(seed)
    layout, at = Layout.created("change stream s", 100, count), 100
    for _ in range(steps):
        at += chance.randrange(1, 5)
        one = chance.choice(layout.open)
        place = layout.open.index(one)
        match chance.choice(["split", "merge", "move"]):
            case "split" if one.keys.size > 1:
                bucket = chance.randrange(one.keys.low + 1, one.keys.high)
                layout = layout.split(one, bucket, at)
            case "merge" if place + 1 < len(layout.open):
                several = layout.open[place : place + chance.randrange(2, 4)]
                layout = layout.merge(several, at)
            case _:
                layout = layout.move(one, at)
    return layout


def covers_all_keys(partitions: Collection[Partition]) -> bool:
    """Whether each key is in exactly one of ``partitions``."""
    ranges = sorted(partition.keys for partition in partitions)
    follow = all(one.high == other.low for one, other in pairwise(ranges))
    return follow and bool(ranges) and (ranges[0].low, ranges[-1].high) == (0, BUCKETS)


def partition_at(layout: Layout, at: int, bucket: int) -> Partition:
    """The partition that holds the records of a bucket at a moment."""
    (found,) = (each for each in layout.active_at(at) if bucket in each.keys)
    return found


def new_change_stream(at: int) -> ChangeStream:
    """A change stream ``cs`` with two partitions on one table, whose id is ``id``.

    :param at: the stamp of its creation
    """
    table = WatchedTable("t", Source("t", "/t", "id"), ("k",), None, "s", 0, 0)
    return ChangeStream(
        stream_id="0" * 32,
        name="cs",
        owner="me",
        secret="00",
        created_at=at,
        settings=CaptureSettings(),
        tables=(table,),
        steps=Layout.created("change stream cs", at, 2).steps,
        through=at,
    )
