"""What a query returns of a partition, whatever is captured and wherever it ends."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from partitions import new_change_stream

from airflow_provider_cdc.engine.core.change_streams.clock import SourceCommit
from airflow_provider_cdc.engine.core.change_streams.definition import (
    ChangeStream,
)
from airflow_provider_cdc.engine.core.change_streams.read_request import ReadRequest, planned
from airflow_provider_cdc.engine.core.change_streams.retention_period import retention_of
from airflow_provider_cdc.engine.core.change_streams.stamps import moment_of, stamp_of, stamp_text
from airflow_provider_cdc.engine.core.errors import (
    InvalidPartitionToken,
    InvalidRange,
    InvalidRequest,
)

BEGUN = 1_000


def new_stream() -> ChangeStream:
    return new_change_stream(BEGUN)


def commits(first: int, count: int, time: int = 0) -> list[SourceCommit]:
    return [SourceCommit("id", first + number, time) for number in range(count)]


def test_everything_is_captured_while_nothing_waits() -> None:
    stream = new_stream().ticked([], 2_000)

    assert (stream.through, stream.captured) == (2_000, 2_000)


def test_sealed_commits_wait_until_they_are_captured() -> None:
    stream = new_stream().ticked(commits(1, 3), 2_000)

    assert [each.stamp for each in stream.pending] == [1_001, 1_002, 1_003]
    assert (stream.captured, stream.tables[0].sealed, stream.tables[0].captured) == (1_000, 3, 0)
    partly = stream.after_capture(1_002)
    assert (partly.captured, partly.tables[0].captured) == (1_002, 2)
    whole = partly.after_capture(1_003)
    assert (whole.captured, whole.tables[0].captured, whole.pending) == (2_000, 3, ())


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50)), max_size=8), st.data())
def test_queries_one_after_the_other_cover_a_partition_once(
    ticks: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Whatever is captured at each query, and wherever each one ends."""
    stream, now, version = new_stream(), BEGUN, 0
    partition = stream.layout.open[0]
    split_at = data.draw(st.integers(0, len(ticks)))
    start, seen, is_finished = BEGUN, [], False
    for number, (count, gap) in enumerate(ticks):
        now += gap
        stream = stream.ticked(commits(version + 1, count, now), now)
        version += count
        if number == split_at:
            at = stream.next_step_at(now)
            stream = stream.with_layout(stream.layout.split(partition, 5, at))
        if stream.pending and data.draw(st.booleans()):
            through = data.draw(st.sampled_from([each.stamp for each in stream.pending]))
            stream = stream.after_capture(through)
        end = data.draw(st.none() | st.integers(start, start + 100))
        read = planned(stream, ReadRequest(start, end, "token"), partition)
        assert read.begin == start
        assert read.through <= stream.captured
        if is_finished:
            continue
        seen.extend(range(read.begin, read.through + 1))
        start = max(start, read.through + 1)
        is_finished = read.is_finished
    closed = stream.layout.end_of(partition)
    assert seen == list(range(BEGUN, start))
    assert not is_finished or (closed is not None and start == closed)


def test_start_is_refused_outside_its_bounds() -> None:
    now = BEGUN + 10**12
    stream = replace(new_stream(), through=now)
    oldest = stream.oldest_at(now)
    assert oldest == now - 24 * 3600 * 10**6

    # A reader goes on after what was promised, also if the clock that promised it is fast.
    for start in (oldest, now, now + 1):
        ReadRequest(start, None, None).check(stream, now)
    for start, text in ((oldest - 1, "no longer kept"), (now + 2, "in the future")):
        with pytest.raises(InvalidRange, match=text):
            ReadRequest(start, None, None).check(stream, now)
    with pytest.raises(InvalidRange, match="before the change stream was created"):
        ReadRequest(BEGUN - 1, None, None).check(new_stream(), BEGUN + 5)


def test_token_is_refused_outside_the_time_of_its_partition() -> None:
    stream = new_stream().ticked([], 2_000)
    stream = stream.with_layout(stream.layout.split(stream.layout.open[0], 5, 3_000))
    token = stream.token_key.token
    old, new = stream.layout.steps[0].opened[0], stream.layout.steps[1].opened[0]

    assert ReadRequest(3_000, None, token(old)).check(stream, 9_000) == old
    assert ReadRequest(3_000, None, token(new)).check(stream, 9_000) == new
    for start, partition in ((3_001, old), (2_999, new)):
        with pytest.raises(InvalidRange, match="its partition is from"):
            ReadRequest(start, None, token(partition)).check(stream, 9_000)
    unknown = replace(new, sequence=7)
    with pytest.raises(InvalidPartitionToken, match="ended before"):
        ReadRequest(3_000, None, token(unknown)).check(stream, 9_000)


def test_stamps_are_shown_with_their_shortest_fraction() -> None:
    assert stamp_text(0) == "1970-01-01T00:00:00Z"
    assert stamp_text(1_664_281_800_123_400) == "2022-09-27T12:30:00.1234Z"
    assert stamp_of(moment_of(1_664_281_800_123_456)) == 1_664_281_800_123_456


@pytest.mark.parametrize("given", ["1d", "24h", "1440m", "86400s", "INTERVAL 1 DAY", "P1D"])
def test_retention_period_is_read_in_each_form(given: str) -> None:
    assert retention_of(given).total_seconds() == 86_400


@pytest.mark.parametrize("given", ["23h", "8d", "169h", "0d", "x", "1 d", "99999999999d"])
def test_retention_period_out_of_bounds_is_refused(given: str) -> None:
    with pytest.raises(InvalidRequest):
        retention_of(given)
