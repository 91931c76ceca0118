"""A consumer gets each record once, and the records of a key in the order of their commits."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from partitions import churned, partition_at

from airflow_provider_cdc.engine.core.change_streams.key_ranges import BUCKETS
from airflow_provider_cdc.engine.core.change_streams.layout import Layout
from airflow_provider_cdc.engine.core.change_streams.ledger import Ledger
from airflow_provider_cdc.engine.core.errors import InvalidRequest

SUBJECT = "consumer c of change stream s"


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
    while ready := [each for each in ledger.ready if ledger.entries[each].watermark < end - 1]:
        partition = chance.choice(ready)
        ledger = ledger.running(partition)
        after = ledger.entries[partition].watermark
        closing = layout.end_of(partition)
        last = min(end, closing if closing is not None else end) - 1
        through = chance.randint(after, last)
        found = [each for each in by_partition[partition] if after < each[0] <= through]
        if chance.random() < 0.2:
            ledger = ledger.released(partition)
            continue
        processed.extend(sorted(found))
        ledger = ledger.processed(partition, through)
        assert all(each in processed for each in records if each[0] <= ledger.watermark)
        if closing is not None and through == closing - 1:
            ledger = ledger.finished(partition, layout.children_of(partition))
        else:
            ledger = ledger.released(partition)
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


def test_child_of_a_merge_waits_for_both_parents(merged: Layout) -> None:
    first, second = merged.active_at(100)
    ledger = Ledger.begun(SUBJECT, 100, (first, second))
    ledger = ledger.running(first).finished(first, merged.children_of(first))
    (child,) = (each.partition for each in merged.children_of(first))
    assert ledger.ready == (second,)
    with pytest.raises(InvalidRequest, match="1 of its 2 parents are not finished"):
        ledger.running(child)
    ledger = ledger.running(second).processed(second, 150)
    assert ledger.watermark == 150
    with pytest.raises(InvalidRequest, match="before all its parents are finished"):
        ledger.running(child)
    ledger = ledger.finished(second, merged.children_of(second))
    assert ledger.ready == (child,)
    assert ledger.watermark == 199


def test_child_of_a_merge_is_registered_once(merged: Layout) -> None:
    first, second = merged.active_at(100)
    ledger = Ledger.begun(SUBJECT, 100, (first, second))
    ledger = ledger.finished(first, merged.children_of(first))
    ledger = ledger.finished(second, merged.children_of(second))
    (child,) = ledger.ready
    ledger = ledger.running(child).processed(child, 250)
    # A reader that was thought dead reports its end again.
    assert ledger.finished(second, merged.children_of(second)) == ledger


def test_consumer_that_starts_at_a_merge_does_not_wait_for_its_parents(merged: Layout) -> None:
    ledger = Ledger.begun(SUBJECT, 200, merged.active_at(200))
    assert ledger.ready == merged.open


def test_read_without_child_records_does_not_finish_a_partition(merged: Layout) -> None:
    first, second = merged.active_at(100)
    ledger = Ledger.begun(SUBJECT, 100, (first, second))
    with pytest.raises(InvalidRequest, match="did not reach the end"):
        ledger.finished(first, ())


def test_crashed_reader_begins_again_at_its_watermark(merged: Layout) -> None:
    first, second = merged.active_at(100)
    ledger = Ledger.begun(SUBJECT, 100, (first, second)).running(first).processed(first, 120)
    again = ledger.running(first)
    assert again.entries[first].watermark == 120
    assert again.processed(first, 110).entries[first].watermark == 120


@pytest.mark.parametrize("verb", ["running", "released", "processed"])
def test_finished_or_unknown_partition_is_refused(merged: Layout, verb: str) -> None:
    first, second = merged.active_at(100)
    ledger = Ledger.begun(SUBJECT, 100, (first, second))
    ledger = ledger.finished(first, merged.children_of(first))
    (unknown,) = Layout.created("change stream s", 1, 1).open
    options = (5,) if verb == "processed" else ()
    with pytest.raises(InvalidRequest, match="has finished it"):
        getattr(ledger, verb)(first, *options)
    with pytest.raises(InvalidRequest, match="has not met it"):
        getattr(ledger, verb)(unknown, *options)
