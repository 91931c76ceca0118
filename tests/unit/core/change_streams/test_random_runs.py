"""Clock, layout, ledger and consumer together, in thousands of random runs with moments that meet.

Commits, ticks, steps of the layout, and the start and the end of the consumer are often at the same
moment or a microsecond apart. Readers stop at any point; some of them go on when others have long
read the same records.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

import pytest
from partitions import new_change_stream

from airflow_provider_cdc.engine.core.change_streams.captures import RecordTimes
from airflow_provider_cdc.engine.core.change_streams.clock import SourceCommit
from airflow_provider_cdc.engine.core.change_streams.consumer import ConsumerState, PartitionRead
from airflow_provider_cdc.engine.core.change_streams.definition import ChangeStream
from airflow_provider_cdc.engine.core.change_streams.key_ranges import BUCKETS
from airflow_provider_cdc.engine.core.change_streams.layout import Partition
from airflow_provider_cdc.engine.core.change_streams.ledger import Lease
from airflow_provider_cdc.engine.core.change_streams.read_request import ReadRequest, planned
from airflow_provider_cdc.engine.core.change_streams.stamps import stamp_of
from airflow_provider_cdc.engine.core.errors import InvalidRequest

BEGUN = 1_000
HOLDERS = ("one", "two")

# The stamp and the bucket of a record.
Record = tuple[int, int]


@dataclass
class Run:
    """A change stream, one consumer with two holders, and a reader of queries.

    ``processed`` are the records that its target got, in order. A Delta table (``is_exact``) has
    recorded the last end of each partition, and skips a read that ends there or earlier. A function
    is called again.
    """

    chance: random.Random
    is_exact: bool
    stream: ChangeStream = field(default_factory=lambda: new_change_stream(BEGUN))
    consumer: ConsumerState | None = None
    now: int = BEGUN
    version: int = 0
    records: list[Record] = field(default_factory=list)
    processed: list[Record] = field(default_factory=list)
    recorded: dict[Partition, int] = field(default_factory=dict)
    begun: dict[tuple[Partition, int], int] = field(default_factory=dict)
    handed: list[PartitionRead] = field(default_factory=list)
    readers: list[Iterator[None]] = field(default_factory=list)

    def moment(self, least: int) -> int:
        """A moment at which other things happen, or a microsecond beside it."""
        known = [BEGUN, self.now, self.stream.through, self.stream.captured]
        known += [step.at for step in self.stream.steps]
        known += [at for at, _ in self.records[-6:]]
        return max(least, self.chance.choice(known) + self.chance.choice([-1, 0, 0, 0, 1]))

    def commit(self) -> None:
        count = self.chance.randrange(3)
        commits = [
            SourceCommit("id", self.version + number + 1, self.moment(0)) for number in range(count)
        ]
        self.version += count
        known = len(self.stream.pending)
        # The clock of the one who advances it may go back.
        self.stream = self.stream.ticked(commits, self.moment(0))
        for each in self.stream.pending[known:]:
            bounds = {part.keys.low for part in self.stream.layout.open}
            buckets = {self.chance.choice([*bounds, BUCKETS - 1]), self.chance.randrange(BUCKETS)}
            self.records.extend((each.stamp, bucket) for bucket in sorted(buckets))

    def change_layout(self) -> None:
        layout, at = self.stream.layout, self.stream.next_step_at(self.now)
        place = self.chance.randrange(len(layout.open))
        one = layout.open[place]
        match self.chance.choice(["split", "merge", "move"]):
            case "split" if one.keys.size > 1:
                layout = layout.split(one, one.keys.low + (one.keys.size + 1) // 2, at)
            case "merge" if place + 1 < len(layout.open):
                layout = layout.merge(layout.open[place : place + 3], at)
            case _:
                layout = layout.move(one, at)
        self.stream = self.stream.with_layout(layout)

    def capture(self) -> None:
        if self.stream.pending:
            stamps = [each.stamp for each in self.stream.pending]
            self.stream = self.stream.after_capture(self.chance.choice(stamps))

    def begin(self) -> None:
        start = min(self.moment(BEGUN), self.stream.through)
        end = self.moment(start) if self.chance.random() < 0.4 else None
        self.consumer = ConsumerState.begun("c", self.stream, start, end)

    def hand_out(self) -> None:
        lease = Lease(self.chance.choice(HOLDERS), self.now + self.chance.randrange(12))
        limit = self.chance.choice([1, 2, None])
        self.consumer, reads = self.known.handed_out(self.stream, lease, self.now, limit)
        self.handed += reads

    def start_reader(self) -> None:
        if self.handed:
            self.readers.append(self.reading(self.chance.choice(self.handed)))

    def reading(self, read: PartitionRead) -> Iterator[None]:
        """A reader that stops at three points, where others go on, or where it dies."""
        partition = self.stream.token_key.partition(read.partition_token)
        try:
            self.consumer = self.known.with_ledger(self.known.ledger.running(partition))
        except InvalidRequest:
            # Another reader has read it meanwhile.
            return
        found = self.known.read_of(self.stream, self.known.ledger, partition)
        begin, through = map(_stamp, (found.start_timestamp, found.end_timestamp))
        # Whoever gets a range gets all of it.
        assert self.begun.setdefault((partition, through), begin) == begin
        yield
        rows = self.of_partition(partition, begin, through)
        if not self.is_exact or through > self.recorded.get(partition, -1):
            self.recorded[partition] = through
            self.processed += rows
        yield
        with suppress(InvalidRequest):
            self.consumer = self.known.done(self.stream, {partition: through})

    def of_partition(self, partition: Partition, begin: int, through: int) -> list[Record]:
        assert through <= self.stream.captured
        return sorted(
            (at, bucket)
            for at, bucket in self.records
            if begin <= at <= through and bucket in partition.keys
        )

    def go_on(self) -> None:
        if self.readers:
            reader = self.chance.choice(self.readers)
            if next(reader, self) is self:
                self.readers.remove(reader)

    def settle(self) -> None:
        holder = self.chance.choice(HOLDERS)
        self.consumer = self.known.with_ledger(self.known.ledger.released(holder))

    @property
    def known(self) -> ConsumerState:
        assert self.consumer is not None
        return self.consumer

    def step(self) -> None:
        self.now += self.chance.choice([0, 0, 1, 5])
        steps = [self.commit, self.commit, self.change_layout, self.capture, self.capture]
        if self.consumer is None:
            steps.append(self.begin)
        else:
            steps += [self.hand_out, self.start_reader, self.start_reader, self.settle]
            steps += [self.go_on] * 6
        self.chance.choice(steps)()

    def check_watermark(self) -> None:
        if self.consumer is None:
            return
        watermark, done = self.known.ledger.watermark, set(self.processed)
        assert all(each in done for each in self.wanted() if each[0] <= watermark)

    def wanted(self) -> list[Record]:
        """The records that the consumer has to get."""
        end = self.known.end if self.known.end is not None else self.stream.through
        return [each for each in self.records if self.known.start <= each[0] <= end]

    def drain(self) -> None:
        if self.consumer is None:
            self.begin()
        # Its end may be later than everything.
        self.stream = self.stream.ticked([], max(self.known.end or 0, self.now))
        if self.stream.pending:
            self.stream = self.stream.after_capture(self.stream.pending[-1].stamp)
        for _ in range(200):
            while self.readers:
                self.go_on()
            for holder in HOLDERS:
                self.consumer = self.known.with_ledger(self.known.ledger.released(holder))
            self.consumer, reads = self.known.handed_out(
                self.stream, Lease("one", self.now), self.now, None
            )
            if not reads:
                return
            self.readers = [self.reading(read) for read in reads]
        raise AssertionError("it does not end")

    def walked(self, start: int, end: int | None) -> list[Record]:
        """The records that a reader of queries gets who ends each query at a random moment."""
        found: list[Record] = []
        layout, last = self.stream.layout, self.stream.captured if end is None else end
        waiting: dict[Partition, set[Partition]] = {each: set() for each in layout.active_at(start)}
        at = dict.fromkeys(waiting, start)
        finished: set[Partition] = set()
        for _ in range(2_000):
            ready = [one for one, parents in waiting.items() if parents <= finished]
            if not ready:
                return found
            partition = self.chance.choice(ready)
            begin = at[partition]
            chop = min(self.moment(begin), last) if begin <= last else begin
            if begin > last and layout.end_of(partition) != begin:
                del waiting[partition]
                continue
            request = ReadRequest(begin, max(begin, chop), self.stream.token_key.token(partition))
            assert request.check(self.stream, self.stream.through + 10) == partition
            read = planned(self.stream, request, partition)
            found += self.of_partition(partition, read.begin, read.through)
            at[partition] = max(begin, read.through + 1)
            if read.is_finished:
                finished.add(partition)
                del waiting[partition]
                for child in layout.children_of(partition):
                    waiting.setdefault(child.partition, set(child.parents))
                    at[child.partition] = child.partition.start
        raise AssertionError("it does not end")


def _stamp(text: str) -> int:
    return stamp_of(datetime.fromisoformat(text))


def check_order(found: list[Record]) -> None:
    """The first time that each record was processed follows the order of its key."""
    by_bucket: dict[int, list[int]] = defaultdict(list)
    for at, bucket in dict.fromkeys(found):
        by_bucket[bucket].append(at)
    assert all(moments == sorted(moments) for moments in by_bucket.values())


def check_run(seed: int, steps: int) -> None:
    run = Run(random.Random(seed), is_exact=seed % 3 > 0)
    for _ in range(steps):
        run.step()
        run.check_watermark()
    run.drain()

    wanted = Counter(run.wanted())
    assert set(run.processed) == set(wanted)
    assert not run.is_exact or Counter(run.processed) == wanted
    check_order(run.processed)
    start, end = run.known.start, run.known.end
    walked = run.walked(start, end)
    assert Counter(walked) == wanted
    check_order(walked)
    progress = run.known.progress(run.stream, RecordTimes({}))
    assert progress.waiting == 0
    assert progress.is_complete is (end is not None)


@pytest.mark.parametrize("first", [0, 500])
def test_records_on_all_bounds_are_processed_once_and_in_order(first: int) -> None:
    for seed in range(first, first + 500):
        try:
            check_run(seed, 30 + seed % 60)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.thorough
def test_many_random_runs_are_processed_once_and_in_order() -> None:
    for seed in range(10_000, 18_000):
        try:
            check_run(seed, 30 + seed % 200)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


def test_partition_that_ended_at_the_expiry_still_has_its_children() -> None:
    stream = new_change_stream(BEGUN)
    parent, other = stream.layout.open
    consumer = ConsumerState.begun("c", stream, BEGUN, None)
    stream = stream.with_layout(stream.layout.split(parent, 9, BEGUN + 50))
    stream = stream.ticked([], BEGUN + 100)
    consumer, reads = consumer.handed_out(stream, Lease("one", BEGUN), BEGUN + 100, None)
    assert len(reads) == 2
    consumer = consumer.done(stream, {other: BEGUN + 100})
    # The records before the split expire while the parent is read. The next ones are all kept.
    stream = stream.expired_before(BEGUN + 50)
    consumer = consumer.done(stream, {parent: BEGUN + 49})

    _, reads = consumer.handed_out(stream, Lease("one", BEGUN), BEGUN + 200, None)

    tokens = {stream.token_key.token(each) for each in stream.layout.open}
    assert {read.partition_token for read in reads} <= tokens
