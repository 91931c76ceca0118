"""Readers of random histories get what the change feeds of the tables hold, each record once."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from change_histories import Mod, WatchedTable, mods_of, plain
from change_stream_lab import ChangeStreamLab, children, moment, next_moment
from pyspark.sql import DataFrame, Row, SparkSession
from stream_lab import Crash

from airflow_provider_cdc.engine import PartitionRead, Watch
from airflow_provider_cdc.engine.core.change_streams.consumer import ConsumerState

STEPS, MANY_STEPS = 16, 32
IN_CI = 1
MOST_PARTITIONS = 6
HOLDERS = ("one", "two")
COPY = "at TIMESTAMP, t STRING, s STRING, i INT, name STRING, k STRING, batch INT"
INSERT = (
    "INSERT INTO {{{}}} SELECT commit_timestamp, server_transaction_id, record_sequence,"
    " mod_index, table_name, keys, {} FROM mods"
)

# What names a changed row: its transaction, its record in that, its place in the record.
Name = tuple[str, str, int]
# A changed row as a consumer got it: the number of its batch, its moment, its name and its key.
Got = tuple[int, datetime, Name, str]


class Refused(Exception):
    """What the work of a consumer raises at times."""


@dataclass
class Consumer:
    """A consumer whose readers sometimes die, before or after they have processed the records."""

    lab: ChangeStreamLab
    chance: random.Random
    name: str
    start: datetime
    end: datetime | None
    is_exact: bool
    batch: int = 0
    processed: list[Got] = field(default_factory=list)
    reads: dict[str, list[PartitionRead]] = field(default_factory=lambda: {"one": [], "two": []})

    def list(self, holder: str, limit: int | None = None) -> None:
        self.reads[holder] = self.lab.engine.list_partitions(
            "cs",
            self.name,
            start_timestamp=self.start,
            end_timestamp=self.end,
            holder=holder,
            limit=limit,
        )

    def step(self) -> None:
        """List partitions, and read some of them or none; settle sometimes."""
        holder = self.chance.choice(HOLDERS)
        self.list(holder, self.chance.choice([1, 2, None]))
        for read in self.reads[holder]:
            fate = self.chance.random()
            if fate < 0.5:
                self.read(read)
            elif fate < 0.7:
                self.die(read)
        if self.chance.random() < 0.4:
            self.settle(self.chance.choice(HOLDERS))

    def read(self, read: PartitionRead) -> None:
        self.batch += 1
        if self.is_exact:
            statement = self.lab.text(INSERT.format(self.name, self.batch))
            self.lab.engine.consume_partition("cs", self.name, read.partition_token, statement)
        else:
            self.lab.engine.process_partition("cs", self.name, read.partition_token, self.work)

    def die(self, read: PartitionRead) -> None:
        """Read, and end before anything records that."""
        with patch.object(ConsumerState, "done", side_effect=Crash), pytest.raises(Crash):
            self.read(read)

    def work(self, records: DataFrame, read: PartitionRead) -> None:
        start, end = map(datetime.fromisoformat, (read.start_timestamp, read.end_timestamp))
        rows = sorted(records.collect(), key=lambda row: (moment(row), row.record_sequence))
        assert all(start <= moment(row) <= end for row in rows)
        self.processed += [
            (self.batch, moment(row), (row.server_transaction_id, row.record_sequence, index), key)
            for row in rows
            for index, mod in enumerate(row.mods)
            for key in [f"{row.table_name} {plain(mod['keys'])}"]
        ]

    def settle(self, holder: str) -> None:
        self.lab.engine.settle_partitions("cs", self.name, holder=holder)

    def drain(self) -> None:
        """Read everything that is captured."""
        self.list("one")
        for holder in HOLDERS:
            self.settle(holder)
        self.list("one")
        while self.reads["one"]:
            for read in self.reads["one"]:
                self.read(read)
            self.list("one")
        progress = self.lab.engine.settle_partitions("cs", self.name)
        assert progress.waiting == 0
        assert progress.is_complete is (self.end is not None)

    def got(self) -> list[Got]:
        """The changed rows that it processed, in that order."""
        if not self.is_exact:
            return self.processed
        rows = self.lab.spark.table(self.lab.name(self.name)).collect()
        return sorted(
            (row.batch, row.at.astimezone(UTC), (row.t, row.s, row.i), f"{row.name} {plain(row.k)}")
            for row in rows
        )


@dataclass
class History:
    """Writers, a clock, a layout and consumers, all of them at random."""

    lab: ChangeStreamLab
    chance: random.Random
    tables: list[WatchedTable]
    consumers: list[Consumer] = field(default_factory=list)

    def write(self) -> None:
        self.lab.sql(self.chance.choice(self.tables).statement(self.chance))

    def write_together(self) -> None:
        """Change both tables in one transaction."""
        self.lab.sql(f"INSERT INTO {{feed}} VALUES ({self.chance.randrange(16)})")
        self.lab.consume(
            "MERGE INTO {a} t USING s ON t.id = s.x WHEN MATCHED THEN UPDATE SET v = 'both'"
            " WHEN NOT MATCHED THEN INSERT (id, v, n) VALUES (s.x, 'both', 0)",
            "MERGE INTO {b} t USING s ON t.k = 'p' AND t.i = s.x"
            " WHEN MATCHED THEN UPDATE SET v = 'both'"
            " WHEN NOT MATCHED THEN INSERT (k, i, v, n) VALUES ('p', s.x, 'both', 0)",
        )

    def change_layout(self) -> None:
        found = self.lab.tokens(self.lab.now())
        if len(found) < MOST_PARTITIONS and self.chance.random() < 0.6:
            self.lab.engine.split_partition("cs", self.chance.choice(found))
        elif len(found) > 1:
            place = self.chance.randrange(len(found) - 1)
            self.lab.engine.merge_partitions("cs", found[place : place + 3])

    def advance(self) -> None:
        self.lab.advance()

    def begin(self, name: str, start: datetime, end: datetime | None, *, is_exact: bool) -> None:
        self.consumers.append(Consumer(self.lab, self.chance, name, start, end, is_exact))
        self.consumers[-1].list("one", limit=1)

    def consume(self) -> None:
        self.chance.choice(self.consumers).step()

    def run(self, steps: int) -> None:
        weights = {
            self.write: 12,
            self.write_together: 1,
            self.change_layout: 4,
            self.advance: 4,
            self.consume: 6,
        }
        for _ in range(steps):
            self.chance.choices(list(weights), list(weights.values()))[0]()


@dataclass
class Reader:
    """A reader of the query that follows each partition to its children, a child after all its
    parents. It reads in pieces that end at random moments, often on a record.
    """

    lab: ChangeStreamLab
    chance: random.Random
    moments: list[datetime]

    def records(self, start: datetime) -> list[tuple[str, Row]]:
        """The data change records in the order of reading, each with the token of its partition."""
        found: list[tuple[str, Row]] = []
        waiting: dict[str, set[str]] = {token: set() for token in self.lab.tokens(start)}
        at = dict.fromkeys(waiting, start)
        finished: set[str] = set()
        while ready := sorted(one for one, parents in waiting.items() if parents <= finished):
            token = self.chance.choice(ready)
            later = [each for each in self.moments if each >= at[token]]
            end = self.chance.choice([None, *later[:4]])
            rows = self.lab.read(at[token], end, token)
            data = [row.data_change_record[0] for row in rows if row.data_change_record]
            assert [place(row) for row in data] == sorted(map(place, data))
            assert len(data) >= len(rows) - 1
            found += [(token, row) for row in data]
            last = rows[-1] if rows else None
            if last is not None and last.child_partitions_record:
                begins = last.child_partitions_record[0].start_timestamp.astimezone(UTC)
                assert all(moment(row) < begins for row in data)
                for child in children(last):
                    at[child.token] = begins
                    waiting[child.token] = set(child.parent_partition_tokens)
                finished.add(token)
                del waiting[token]
            elif end is None:
                # The partition is open, and was read to its end.
                del waiting[token]
            else:
                assert last is not None
                beat = last.heartbeat_record[0].timestamp.astimezone(UTC)
                assert max(map(moment, data), default=beat) <= beat == end
                at[token] = next_moment(beat)
        assert not waiting
        return found


def place(row: Row) -> tuple[datetime, str]:
    return moment(row), row.record_sequence


def names_of(rows: Iterable[Row]) -> Counter[Name]:
    return Counter(
        (row.server_transaction_id, row.record_sequence, index)
        for row in rows
        for index, _ in enumerate(row.mods)
    )


def check_order_of_keys(found: Iterable[tuple[str, tuple[Any, ...]]]) -> None:
    by_key: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for key, at in found:
        by_key[key].append(at)
    assert all(places == sorted(places) for places in by_key.values())


def check_transactions(found: list[tuple[str, Row]]) -> None:
    """What a record says of its transaction is what all partitions returned of it."""
    transactions: dict[str, list[tuple[str, Row]]] = defaultdict(list)
    for token, row in found:
        transactions[row.server_transaction_id].append((token, row))
    assert len({moment(rows[0][1]) for rows in transactions.values()}) == len(transactions)
    for rows in transactions.values():
        last: dict[str, str] = {}
        for token, row in rows:
            last[token] = max(last.get(token, ""), row.record_sequence)
        assert len({row.record_sequence for _, row in rows}) == len(rows)
        assert len({moment(row) for _, row in rows}) == 1
        for token, row in rows:
            assert row.number_of_records_in_transaction == len(rows)
            assert row.number_of_partitions_in_transaction == len(last)
            is_last = row.record_sequence == last[token]
            assert row.is_last_record_in_transaction_in_partition is is_last


def check_changes(found: list[Row], path: str, expected: list[Counter[Mod]]) -> None:
    """The transactions of a table have the changes of its commits, in order."""
    transactions: dict[tuple[datetime, str], Counter[Mod]] = defaultdict(Counter)
    for row in found:
        if row.table_name == path:
            transactions[moment(row), row.server_transaction_id].update(mods_of(row))
    assert [transactions[each] for each in sorted(transactions)] == expected


@pytest.fixture
def make_history(spark: SparkSession, tmp_path: Path) -> Callable[[int], History]:
    def make(seed: int) -> History:
        lab = ChangeStreamLab(spark, tmp_path)
        # Without keys, a row id is the key.
        other = Watch(["k", "i"], ["v"]) if seed % 2 == 0 else Watch()
        tables = [WatchedTable(lab, "a", Watch(["id"])), WatchedTable(lab, "b", other)]
        for table in tables:
            table.make(vectors=seed % 4 < 2)
        lab.make("feed", "x INT")
        lab.engine.create_stream("s", on_table=lab.path("feed"))
        return History(lab, random.Random(seed), tables)

    return make


@pytest.mark.in_ci(*map(str, range(IN_CI)))
@pytest.mark.parametrize("seed", range(24))
def test_random_history_is_read_once_and_in_the_order_of_each_key(
    make_history: Callable[[int], History], seed: int
) -> None:
    history = make_history(seed)
    lab, chance = history.lab, history.chance
    lab.make("all", COPY)
    versions = {table.name: lab.version(table.name) for table in history.tables}
    watched = {table.name: table.watch for table in history.tables}
    created = lab.create(watched, partitions=chance.randrange(1, 4)).created
    history.begin("all", created, None, is_exact=True)
    steps = STEPS if seed < IN_CI else MANY_STEPS
    history.run(steps // 2)
    history.begin("later", lab.now(), None, is_exact=False)
    history.run(steps // 2)
    history.write()
    lab.advance()
    moments = sorted({moment(row) for row in lab.records()})
    middle = len(moments) // 2
    # Its bounds are on records.
    bounds = chance.choice(moments[:middle]), chance.choice(moments[middle:])
    history.begin("part", *bounds, is_exact=False)

    found = Reader(lab, chance, moments).records(created)

    records = [row for _, row in found]
    check_transactions(found)
    check_order_of_keys(
        (f"{row.table_name} {plain(mod['keys'])}", place(row))
        for row in records
        for mod in row.mods
    )
    for table in history.tables:
        check_changes(records, lab.path(table.name), table.expected(versions[table.name]))
    assert names_of(lab.records()) == names_of(records)
    assert names_of(lab.records(*bounds)) == names_of(
        row for row in records if bounds[0] <= moment(row) <= bounds[1]
    )
    for consumer in history.consumers:
        consumer.drain()
        got = consumer.got()
        # A function that a reader's death follows is called again.
        assert consumer.is_exact or len(got) >= len({name for _, _, name, _ in got})
        counted = Counter(name for _, _, name, _ in got)
        end = consumer.end or moments[-1]
        wanted = names_of(row for row in records if consumer.start <= moment(row) <= end)
        assert counted == wanted if consumer.is_exact else set(counted) == set(wanted)
        first = {name: (key, (batch, at)) for batch, at, name, key in reversed(got)}
        in_order = sorted(first.values(), key=lambda each: each[1])
        check_order_of_keys((key, (at,)) for key, (_, at) in in_order)
