"""The partitions of a change stream cover the key space at each moment."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st
from partitions import churned, covers_all_keys, partition_at

from airflow_provider_cdc.engine.core.change_streams.key_ranges import BUCKETS, KeyRange
from airflow_provider_cdc.engine.core.change_streams.layout import Layout, Partition
from airflow_provider_cdc.engine.core.errors import InvalidRequest

SUBJECT = "change stream s"


LAYOUTS = st.builds(churned, st.integers(0, 10**6), st.integers(0, 30), st.integers(1, 6))


@given(LAYOUTS)
def test_partitions_cover_the_key_space_at_each_moment(layout: Layout) -> None:
    for step in layout.steps:
        # On a step, and on both sides of it.
        for at in range(max(step.at - 1, layout.steps[0].at), step.at + 2):
            assert covers_all_keys(layout.active_at(at))


@given(LAYOUTS)
def test_partition_holds_the_records_from_its_start_until_its_end(layout: Layout) -> None:
    partitions = [each for step in layout.steps for each in step.opened]
    for partition in partitions:
        end = layout.end_of(partition)
        assert partition in layout.active_at(partition.start)
        if partition.start > layout.steps[0].at:
            assert partition not in layout.active_at(partition.start - 1)
        if end is not None:
            assert partition in layout.active_at(end - 1)
            assert partition not in layout.active_at(end)
        else:
            assert partition in layout.open


def covers(parents: Collection[Partition], keys: KeyRange) -> bool:
    """Whether each bucket of ``keys`` is in exactly one of ``parents``."""
    ends = [(max(each.keys.low, keys.low), min(each.keys.high, keys.high)) for each in parents]
    return sum(high - low for low, high in ends) == keys.size and all(
        low < high for low, high in ends
    )


@given(LAYOUTS)
def test_children_take_over_all_keys_when_their_parents_end(layout: Layout) -> None:
    partitions = [each for step in layout.steps for each in step.opened]
    for partition in partitions:
        children = layout.children_of(partition)
        end = layout.end_of(partition)
        assert bool(children) is (end is not None)
        for child in children:
            assert child.partition.start == end
            assert partition in child.parents
            assert covers(child.parents, child.partition.keys)
            # The other parents return the same child.
            for parent in child.parents:
                assert child in layout.children_of(parent)
        if end is not None:
            for bucket in (partition.keys.low, partition.keys.high - 1):
                assert partition_at(layout, end, bucket) in [each.partition for each in children]


@given(LAYOUTS)
def test_no_two_partitions_are_equal(layout: Layout) -> None:
    partitions = [each for step in layout.steps for each in step.opened]
    assert len(set(partitions)) == len(partitions)
    assert all(layout.holds(partition) for partition in partitions)
    assert not layout.holds(Partition(1, 0, KeyRange(0, 1)))


def test_first_partitions_have_no_parents_and_equal_shares() -> None:
    layout = Layout.created(SUBJECT, 5, 2)
    assert [each.keys for each in layout.open] == [KeyRange(0, 2048), KeyRange(2048, BUCKETS)]
    assert layout.steps[0].closed == ()


def test_record_on_the_moment_of_a_split_belongs_to_a_child() -> None:
    layout = Layout.created(SUBJECT, 5, 1)
    (parent,) = layout.open
    layout = layout.split(parent, 1000, 9)
    assert partition_at(layout, 8, 999) == parent
    assert [partition_at(layout, 9, bucket).keys for bucket in (999, 1000)] == [
        KeyRange(0, 1000),
        KeyRange(1000, BUCKETS),
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda layout: layout.split(layout.open[0], 0, 9), "cannot split"),
        (lambda layout: layout.split(layout.open[0], 2048, 9), "cannot split"),
        (lambda layout: layout.merge([layout.open[0]], 9), "two or more neighbours"),
        (lambda layout: layout.merge(layout.open[::2], 9), "two or more neighbours"),
        (lambda layout: layout.move(Partition(1, 7, KeyRange(0, 9)), 9), "is closed"),
    ],
)
def test_step_that_makes_no_sense_is_refused(change, message: str) -> None:  # type: ignore[no-untyped-def]
    layout = Layout.created(SUBJECT, 5, 3)
    with pytest.raises(InvalidRequest, match=message):
        change(layout)


def test_closed_partition_is_not_split_again() -> None:
    layout = Layout.created(SUBJECT, 5, 1)
    (parent,) = layout.open
    layout = layout.split(parent, 1000, 9)
    with pytest.raises(InvalidRequest, match="was split, merged or moved before"):
        layout.split(parent, 2000, 10)


def test_step_at_the_moment_of_the_last_one_is_refused() -> None:
    layout = Layout.created(SUBJECT, 5, 1)
    with pytest.raises(ValueError, match="after 5"):
        layout.move(layout.open[0], 5)


@given(LAYOUTS, st.integers(0, 60))
def test_shortened_layout_is_the_same_from_its_moment_on(layout: Layout, after: int) -> None:
    at = layout.steps[0].at + after
    shortened = layout.since(at)

    assert len(shortened.steps) <= len(layout.steps)
    assert sum(step.at < at for step in shortened.steps) <= 1
    for moment in range(at, layout.steps[-1].at + 2):
        assert shortened.active_at(moment) == layout.active_at(moment)
    # The readers of what ended at the moment itself still have to meet its children.
    before = layout.active_at(at - 1) if after else ()
    for partition in {*layout.active_at(at), *before}:
        assert shortened.holds(partition)
        assert shortened.end_of(partition) == layout.end_of(partition)
        assert shortened.children_of(partition) == layout.children_of(partition)
    assert shortened.since(at) == shortened
    # Later steps have the same names.
    last, later = layout.open[0], layout.steps[-1].at + 100
    assert shortened.move(last, later).open == layout.move(last, later).open
