"""A consumer gets each record once and in the order of its key, whatever happens meanwhile."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from partitions import new_change_stream, partition_at

from airflow_provider_cdc.engine.core.change_streams.captures import RecordTimes
from airflow_provider_cdc.engine.core.change_streams.clock import SourceCommit
from airflow_provider_cdc.engine.core.change_streams.consumer import ConsumerState, PartitionRead
from airflow_provider_cdc.engine.core.change_streams.definition import (
    CaptureSettings,
    ChangeStream,
)
from airflow_provider_cdc.engine.core.change_streams.key_ranges import BUCKETS
from airflow_provider_cdc.engine.core.change_streams.layout import Partition
from airflow_provider_cdc.engine.core.change_streams.ledger import Lease
from airflow_provider_cdc.engine.core.change_streams.stamps import stamp_text
from airflow_provider_cdc.engine.core.errors import InvalidRequest, StreamStale
from airflow_provider_cdc.engine.core.model.json_text import from_json, to_json

BEGUN = 1_000
RUNS = ("one", "two")


@dataclass
class World:
    """Writers, a clock, captures, and the readers of a consumer, all of them at random.

    ``records`` has the stamp and the bucket of each record. ``processed`` are those that a target
    holds, in order. ``recorded`` is the last end that the target has recorded for each partition,
    as Delta does: it skips a read that ends there or earlier.
    """

    chance: random.Random
    stream: ChangeStream
    consumer: ConsumerState
    now: int = BEGUN
    version: int = 0
    records: list[tuple[int, int]] = field(default_factory=list)
    processed: list[tuple[int, int]] = field(default_factory=list)
    recorded: dict[Partition, int] = field(default_factory=dict)
    reading: dict[str, list[PartitionRead]] = field(default_factory=lambda: {"one": [], "two": []})

    def commit(self) -> None:
        commits = [
            SourceCommit("id", self.version + number, self.now - self.chance.randrange(50))
            for number in range(1, self.chance.randrange(1, 4))
        ]
        self.version += len(commits)
        known = len(self.stream.pending)
        self.stream = self.stream.ticked(commits, self.now)
        for each in self.stream.pending[known:]:
            buckets = {self.chance.randrange(BUCKETS) for _ in range(3)}
            self.records.extend((each.stamp, bucket) for bucket in buckets)

    def change_layout(self) -> None:
        layout, at = self.stream.layout, self.stream.next_step_at(self.now)
        place = self.chance.randrange(len(layout.open))
        one = layout.open[place]
        match self.chance.choice(["split", "merge", "move"]):
            case "split" if one.keys.size > 1:
                bucket = self.chance.randrange(one.keys.low + 1, one.keys.high)
                layout = layout.split(one, bucket, at)
            case "merge" if place + 1 < len(layout.open):
                layout = layout.merge(layout.open[place : place + 2], at)
            case _:
                layout = layout.move(one, at)
        self.stream = self.stream.with_layout(layout)

    def capture(self, *, everything: bool = False) -> None:
        if self.stream.pending:
            stamps = [each.stamp for each in self.stream.pending]
            through = stamps[-1] if everything else self.chance.choice(stamps)
            self.stream = self.stream.after_capture(through)

    def hand_out(self, limit: int | None = 2) -> None:
        run = self.chance.choice(RUNS)
        lease = Lease(run, self.now + self.chance.randrange(30))
        if self.chance.random() < 0.5:
            self.consumer = self.consumer.without_empty_reads(
                self.stream, self.record_times, self.now, run
            )
        ready = self.consumer.count_ready(self.stream, self.now, run)
        self.consumer, reads = self.consumer.handed_out(self.stream, lease, self.now, limit)
        assert len(reads) == (ready if limit is None else min(limit, ready))
        self.reading[run].extend(reads)

    def read(self, run: str | None = None, *, may_crash: bool = True) -> None:
        run = run or self.chance.choice(RUNS)
        if not self.reading[run]:
            return
        read = self.reading[run].pop(self.chance.randrange(len(self.reading[run])))
        partition = self.stream.token_key.partition(read.partition_token)
        fate = self.chance.random() if may_crash else 1.0
        if fate < 0.2:
            return
        try:
            self.consumer = self.consumer.with_ledger(self.consumer.ledger.running(partition))
        except InvalidRequest:
            # Another run had the same read, and has done it.
            return
        now_read = self.consumer.read_of(self.stream, self.consumer.ledger, partition)
        self.apply(partition, now_read)
        if fate >= 0.4:
            through = self.stamps[now_read.end_timestamp]
            self.consumer = self.consumer.done(self.stream, {partition: through})

    def apply(self, partition: Partition, read: PartitionRead) -> None:
        begin, through = self.stamps[read.start_timestamp], self.stamps[read.end_timestamp]
        assert through <= self.stream.captured
        if through <= self.recorded.get(partition, -1):
            return
        self.recorded[partition] = through
        self.processed.extend(
            (at, bucket)
            for at, bucket in sorted(self.records)
            if begin <= at <= through and bucket in partition.keys
        )

    @property
    def stamps(self) -> dict[str, int]:
        return {stamp_text(at): at for at in range(BEGUN, self.stream.through + 2)}

    @property
    def record_times(self) -> RecordTimes:
        """What is known of the records that are captured."""
        found: dict[int, list[int]] = {}
        for at, bucket in sorted(self.records):
            if at <= self.stream.captured:
                keys = partition_at(self.stream.layout, at, bucket).keys
                found.setdefault(keys.low, []).append(at)
        return RecordTimes(found)

    def settle(self) -> None:
        run = self.chance.choice(RUNS)
        self.reading[run].clear()
        self.consumer = self.consumer.with_ledger(self.consumer.ledger.released(run))

    def step(self) -> None:
        self.now += self.chance.randrange(10)
        steps = [self.commit, self.hand_out, self.read] * 2
        self.chance.choice([*steps, self.read, self.change_layout, self.capture, self.settle])()

    def drain(self) -> None:
        """Let everything be captured and read."""
        self.capture(everything=True)
        for _ in range(200):
            for run in RUNS:
                while self.reading[run]:
                    self.read(run, may_crash=False)
                self.consumer = self.consumer.with_ledger(self.consumer.ledger.released(run))
            self.hand_out(None)
            if not any(self.reading.values()):
                return
        raise AssertionError("it does not end")


def new_world(seed: int) -> World:
    stream = new_change_stream(BEGUN)
    return World(random.Random(seed), stream, ConsumerState.begun("c", stream, BEGUN, None))


@given(st.integers(0, 10**9), st.integers(0, 60))
def test_each_record_is_processed_once_and_in_the_order_of_its_key(seed: int, steps: int) -> None:
    world = new_world(seed)
    for _ in range(steps):
        world.step()
        watermark = world.consumer.ledger.watermark
        done = set(world.processed)
        assert all(record in done for record in world.records if record[0] <= watermark)
    world.drain()

    assert Counter(world.processed) == Counter(world.records)
    by_bucket: dict[int, list[int]] = defaultdict(list)
    for at, bucket in world.processed:
        by_bucket[bucket].append(at)
    assert all(moments == sorted(moments) for moments in by_bucket.values())
    progress = world.consumer.progress(world.stream, world.record_times)
    assert (progress.waiting, progress.partitions) == (0, len(world.stream.layout.open))
    assert from_json(to_json(world.consumer), ConsumerState) == world.consumer
    assert from_json(to_json(world.stream), ChangeStream) == world.stream


def test_limit_hands_out_the_oldest_partitions_first() -> None:
    world = new_world(1)
    world.now += 10
    world.stream = world.stream.ticked([], world.now)
    lease = Lease("one", world.now + 5)

    first, reads = world.consumer.handed_out(world.stream, lease, world.now, 1)
    again, same = first.handed_out(world.stream, lease, world.now, 1)
    other = Lease("two", world.now + 5)
    _, others = first.handed_out(world.stream, other, world.now, None)

    tokens = [world.stream.token_key.token(each) for each in world.stream.layout.open]
    assert [read.partition_token for read in (*reads, *others)] == tokens
    # The answer to the first call may be lost.
    assert (again, same) == (first, reads)


@pytest.mark.parametrize("end", [BEGUN, BEGUN + 5])
def test_consumer_with_an_end_reads_nothing_after_it(end: int) -> None:
    world = new_world(2)
    world.consumer = ConsumerState.begun("c", world.stream, BEGUN, end)
    world.stream = world.stream.ticked([], BEGUN + 100)
    world.now = BEGUN + 100
    world.drain()

    progress = world.consumer.progress(world.stream, world.record_times)
    assert progress.is_complete
    assert progress.watermark == stamp_text(end)


def test_consumer_that_lost_records_is_stale_and_never_gets_a_part() -> None:
    world = new_world(3)
    (first, _) = world.stream.layout.open
    world.now = BEGUN + 50
    world.stream = world.stream.with_layout(world.stream.layout.split(first, 9, world.now))
    world.stream = world.stream.ticked([], BEGUN + 100)
    kept = world.stream.expired_before(BEGUN)
    lease = Lease("one", BEGUN)
    world.consumer.handed_out(kept, lease, BEGUN + 100, None)

    removed = world.stream.expired_before(BEGUN + 60)
    with pytest.raises(StreamStale, match="did not read records of cs in time"):
        world.consumer.handed_out(removed, lease, BEGUN + 100, None)
    assert world.consumer.progress(removed, RecordTimes({})).is_stale
    # A longer retention period brings nothing back.
    longer = replace(removed, settings=CaptureSettings(retention=timedelta(days=7)))
    assert longer.oldest_at(BEGUN + 100) == BEGUN + 60


def test_partitions_without_records_need_no_reader() -> None:
    world = new_world(3)
    first, second = world.stream.layout.open
    world.stream = world.stream.with_layout(world.stream.layout.split(first, 9, BEGUN + 50))
    world.stream = world.stream.ticked([], BEGUN + 100)
    records = RecordTimes({second.keys.low: [BEGUN + 20], 9: [BEGUN + 70]})

    found = world.consumer.without_empty_reads(world.stream, records, BEGUN + 100, "one")
    _, reads = found.handed_out(world.stream, Lease("one", BEGUN), BEGUN + 100, None)

    # The first partition ended without a record, so its children are next. One of them has none.
    read = [world.stream.token_key.partition(each.partition_token).keys.low for each in reads]
    assert read == [second.keys.low, 9]
    assert found.progress(world.stream, records).waiting == 2


def test_reads_that_were_handed_out_stay_as_they_were() -> None:
    world = new_world(3)
    world.stream = world.stream.ticked([], BEGUN + 100)
    known, reads = world.consumer.handed_out(
        world.stream, Lease("one", BEGUN + 500), BEGUN + 100, None
    )

    found = known.without_empty_reads(world.stream, RecordTimes({}), BEGUN + 600, "one")

    _, again = found.handed_out(world.stream, Lease("two", BEGUN + 999), BEGUN + 600, None)
    assert again == reads
