"""Partitions are split and merged by what was captured of them."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st
from partitions import churned, covers_all_keys

from airflow_provider_cdc.engine.core.change_streams.captures import (
    QUARANTINED,
    Capture,
    CapturedGroup,
)
from airflow_provider_cdc.engine.core.change_streams.key_ranges import BUCKETS, KeyRange
from airflow_provider_cdc.engine.core.change_streams.layout import Layout, Partition
from airflow_provider_cdc.engine.core.change_streams.load_policy import (
    MOST_PARTITIONS,
    Rebalance,
    loads_of,
    middle_of,
    rebalanced,
)


def test_heavy_partition_is_split_and_light_neighbours_merge() -> None:
    layout = Layout.created("change stream s", 100, 5)
    one, two, three, four, five = layout.open
    loads = {one: 201, two: 200, three: 20, four: 29, five: 0}

    found = rebalanced(layout, loads, 100, 100)

    assert found == Rebalance((one,), ((three, four),))


def test_young_partitions_and_idle_advances_change_nothing() -> None:
    layout = Layout.created("change stream s", 100, 2)
    one, two = layout.open

    assert rebalanced(layout, {one: 500, two: 500}, 100, 99) == Rebalance((), ())
    assert rebalanced(layout, {one: 0, two: 0}, 100, 100) == Rebalance((), ())


def test_number_of_partitions_has_a_limit() -> None:
    layout = Layout.created("change stream s", 100, MOST_PARTITIONS - 1)
    loads = dict.fromkeys(layout.open, 1000)
    loads[layout.open[7]] = 2000

    assert rebalanced(layout, loads, 100, 100).splits == (layout.open[7],)


def test_load_is_that_of_the_open_partitions_in_their_time() -> None:
    layout = Layout.created("change stream s", 100, 2)
    layout = layout.move(layout.open[1], 200)
    first, second = layout.open
    groups = [(150, 0, "INSERT", 3), (150, 2048, "INSERT", 5), (200, 2048, "UPDATE", 7)]
    groups.append((201, 2048, QUARANTINED, 9))
    capture = Capture(
        100,
        300,
        "f",
        (),
        (),
        (),
        tuple(CapturedGroup(at, 0, 1, kind, "*", first, rows) for at, first, kind, rows in groups),
    )

    assert loads_of(layout, [capture]) == {first: 3, second: 7}


def test_partition_is_split_where_both_parts_have_alike_many_rows() -> None:
    partition = Partition(0, 0, KeyRange(10, 20))

    assert middle_of(partition, {10: 1, 12: 1, 15: 1, 19: 1}) == 15
    assert middle_of(partition, {10: 1, 11: 90, 15: 5}) == 15
    assert middle_of(partition, {10: 90}) == 11
    assert middle_of(partition, {19: 90}) == 19


@given(st.integers(0, 10**6))
def test_rebalanced_partitions_cover_the_key_space(seed: int) -> None:
    chance = random.Random(seed)
    layout = churned(seed, 6)
    loads = {partition: chance.choice([0, 3, 50, 400]) for partition in layout.open}
    at = layout.steps[-1].at + 1

    found = rebalanced(layout, loads, 100, at)
    for partition in found.splits:
        rows = {chance.randrange(BUCKETS): chance.randrange(1, 9) for _ in range(9)}
        layout = layout.split(partition, middle_of(partition, rows), at)
        at += 1
    for pair in found.merges:
        layout = layout.merge(pair, at)
        at += 1

    assert covers_all_keys(layout.open)
