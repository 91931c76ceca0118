"""A consumer gets each record once, and the records of a key in the order of their commits."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from partitions import churned, partition_at

from airflow_provider_cdc.engine.core.change_streams.key_ranges import BUCKETS
from airflow_provider_cdc.engine.core.change_streams.layout import Layout, Partition
from airflow_provider_cdc.engine.core.change_streams.ledger import Lease, Ledger, PartitionState
from airflow_provider_cdc.engine.core.errors import InvalidRequest

SUBJECT = "consumer c of change stream s"


def is_due(layout: Layout, ledger: Ledger, partition: Partition, end: int) -> bool:
    """Whether a partition has something left to read before ``end``."""
    watermark, closing = ledger.entries[partition].watermark, layout.end_of(partition)
    return watermark < end - 1 or (closing is not None and closing <= end)


def consumed(layout: Layout, start: int, end: int, seed: int) -> list[tuple[int, int]]:
    """The records, a moment and a bucket each, in the order in which readers processed them.

    Readers stop at random moments, and some crash: they processed their records, and nobody knows.
    So a record that is processed twice must be one after the watermark, and counts once.
    """
    chance = random.Random(seed)
    records = [(at, chance.randrange(BUCKETS)) for at in range(start, end) for _ in range(3)]
    by_partition = defaultdict(list)
    for at, bucket in records:
        by_partition[partition_at(layout, at, bucket)].append((at, bucket))
    ledger = Ledger.begun(SUBJECT, start, layout.active_at(start))
    processed: list[tuple[int, int]] = []
    applied: set[tuple[Partition, int]] = set()
    while ready := [each for each in ledger.ready_at(0) if is_due(layout, ledger, each, end)]:
        partition = chance.choice(ready)
        closing = layout.end_of(partition)
        last = min(end, closing if closing is not None else end) - 1
        after = ledger.entries[partition].watermark
        lease = Lease("run", chance.randrange(2))
        ledger = ledger.scheduled({partition: chance.randint(after, last)}, lease).running(
            partition
        )
        through = ledger.entries[partition].through
        assert through is not None
        found = sorted(each for each in by_partition[partition] if after < each[0] <= through)
        fate = chance.random()
        if fate < 0.4:
            # It crashed before or after its target had the records; the next one repeats the range.
            if fate < 0.2 and (partition, through) not in applied:
                applied.add((partition, through))
                processed.extend(found)
            ledger = ledger.released("run")
            continue
        if (partition, through) not in applied:
            processed.extend(found)
        is_end = closing is not None and through == closing - 1
        children = layout.children_of(partition) if is_end else ()
        ledger = ledger.done({partition: (through, children)})
        # A reader that was thought dead reports the same again.
        if partition in ledger.entries:
            assert ledger.done({partition: (through, children)}) == ledger
        assert all(each in processed for each in records if each[0] <= ledger.watermark)
    assert Counter(processed) == Counter(records)
    return processed


@given(st.integers(0, 10**6), st.integers(0, 15), st.integers(0, 20))
def test_union_of_partitions_is_each_record_once_in_the_order_of_its_key(
    seed: int, steps: int, late: int
) -> None:
    layout = churned(seed, steps)
    begin = layout.steps[0].at
    start = begin + late
    processed = consumed(layout, start, max(start, layout.steps[-1].at) + 5, seed)

    by_bucket = defaultdict(list)
    for at, bucket in processed:
        by_bucket[bucket].append(at)
    assert all(moments == sorted(moments) for moments in by_bucket.values())


@pytest.fixture
def merged() -> Layout:
    layout = Layout.created("change stream s", 100, 2)
    return layout.merge(layout.open, 200)


LEASE = Lease("run", 0)


def begun(layout: Layout) -> Ledger:
    return Ledger.begun(SUBJECT, 100, layout.active_at(100))


def test_child_of_a_merge_waits_for_both_parents(merged: Layout) -> None:
    first, second = merged.active_at(100)
    ledger = begun(merged).done({first: (199, merged.children_of(first))})
    (child,) = (each.partition for each in merged.children_of(first))
    assert ledger.ready_at(1) == (second,)
    # The second parent has unread records: its child is not handed out.
    ledger = ledger.scheduled({second: 150}, LEASE).running(second).done({second: (150, ())})
    assert ledger.watermark == 150
    assert ledger.ready_at(1) == (second,)
    with pytest.raises(InvalidRequest, match="1 of its 2 parents are not finished"):
        ledger.scheduled({child: 300}, LEASE)
    ledger = ledger.done({second: (199, merged.children_of(second))})
    assert ledger.ready_at(1) == (child,)
    assert ledger.watermark == 199


def test_child_of_a_merge_is_registered_once(merged: Layout) -> None:
    first, second = merged.active_at(100)
    ledger = begun(merged)
    ledger = ledger.done({first: (199, merged.children_of(first))})
    ledger = ledger.done({second: (199, merged.children_of(second))})
    (child,) = ledger.ready_at(1)
    ledger = ledger.scheduled({child: 250}, LEASE).done({child: (250, ())})
    # A reader that was thought dead reports its end again.
    assert ledger.done({second: (199, merged.children_of(second))}) == ledger


def test_consumer_that_starts_at_a_merge_does_not_wait_for_its_parents(merged: Layout) -> None:
    ledger = Ledger.begun(SUBJECT, 200, merged.active_at(200))
    assert ledger.ready_at(1) == merged.open


def test_read_without_child_records_does_not_finish_a_partition(merged: Layout) -> None:
    first, second = merged.active_at(100)
    ledger = begun(merged).done({first: (199, ())})
    assert ledger.ready_at(1) == (first, second)
    assert ledger.entries[first].state is PartitionState.CREATED


def test_crashed_read_is_handed_out_again_with_the_same_end(merged: Layout) -> None:
    first, second = merged.active_at(100)
    ledger = begun(merged).scheduled({first: 120}, Lease("run", 5))
    # While its lease holds, nobody else gets it.
    assert ledger.ready_at(5) == (second,)
    assert ledger.ready_at(6) == (first, second)
    assert ledger.ready_at(5, "another") == (second,)
    assert ledger.released("another").ready_at(5) == (second,)
    # The answer to its holder may be lost.
    assert ledger.ready_at(5, "run") == (first, second)
    ledger = ledger.released("run")
    assert ledger.ready_at(5) == (first, second)
    ledger = ledger.scheduled({first: 180}, LEASE)
    assert ledger.entries[first].through == 120
    ledger = ledger.done({first: (120, ())}).scheduled({first: 180}, LEASE)
    assert ledger.entries[first].through == 180
    # The reader of the earlier range reports late.
    assert ledger.done({first: (120, ())}) == ledger


def test_finished_or_unknown_partition_is_refused(merged: Layout) -> None:
    first, second = merged.active_at(100)
    ledger = begun(merged).done({first: (199, merged.children_of(first))})
    (unknown,) = Layout.created("change stream s", 1, 1).open
    for partition, cause in ((first, "has finished it"), (unknown, "has not met it")):
        with pytest.raises(InvalidRequest, match=cause):
            ledger.running(partition)
        with pytest.raises(InvalidRequest, match=cause):
            ledger.scheduled({partition: 5}, LEASE)
    with pytest.raises(InvalidRequest, match="not handed out"):
        ledger.running(second)
