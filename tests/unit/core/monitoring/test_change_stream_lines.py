"""What the page of streams shows of partitions and consumers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from partitions import churned, new_change_stream

from airflow_provider_cdc.engine.core.change_streams.consumer import ConsumerState
from airflow_provider_cdc.engine.core.change_streams.ledger import Lease
from airflow_provider_cdc.engine.core.change_streams.stamps import moment_of
from airflow_provider_cdc.engine.core.monitoring.change_stream_lines import change_stream_line


@pytest.mark.parametrize("seed", range(10))
def test_partitions_cover_the_keys_and_follow_their_parents(seed: int) -> None:
    stream = replace(new_change_stream(100), steps=churned(seed, 30).steps)
    line = change_stream_line(stream, [], moment_of(1000))
    assert sum(each.high - each.low for each in line.partitions if each.end is None) == 1
    for each in line.partitions:
        if each.start == moment_of(100):
            assert each.parents == ()
            continue
        parents = [line.partitions[place] for place in each.parents]
        assert parents
        assert {parent.end for parent in parents} == {each.start}
        assert all(parent.low < each.high and each.low < parent.high for parent in parents)


def test_read_is_stuck_when_its_lease_has_ended() -> None:
    stream = replace(new_change_stream(100), through=200)
    state = ConsumerState.begun("c", stream, 101, None)
    state, reads = state.handed_out(stream, Lease("run", 300), 200, None)
    assert len(reads) == 2
    for now, is_stuck in ((300, False), (301, True)):
        line = change_stream_line(stream, [state], moment_of(now))
        assert {each.is_stuck for each in line.consumers[0].partitions} == {is_stuck}
        assert {each.state for each in line.consumers[0].partitions} == {"scheduled"}


def test_consumer_that_lost_records_is_stale() -> None:
    stream = replace(new_change_stream(100), through=200, expired=150)
    line = change_stream_line(stream, [ConsumerState.begun("c", stream, 101, None)], moment_of(300))
    assert line.consumers[0].is_stale
    assert line.consumers[0].watermark == moment_of(100)
