"""Change streams: capture, beside an append of the feed, and reads by one reader and by many."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from itertools import cycle
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_provider_cdc.engine import Engine, Watch

from .archives import STREAMING
from .feed import counted
from .results import Row
from .shapes import KEY, Expected, Shape, Workload
from .tables import Bench, Workshop
from .timing import Patience, read_in_order, timed_in_turns

COMMITS = 10
PARTITIONS = 16
READERS = 4
# Shapes whose commits hold many rows, and few rows in many files, and only old rows.
SHAPES = (Shape.APPEND, Shape.SPREAD, Shape.DELETE)
APPENDED = "change feed with row ids, read and appended"
CAPTURE = f"advance_change_stream, {PARTITIONS} partitions"
ONE_READER = "read_change_stream, one partition with all records"
IN_PARALLEL = f"read_change_stream, {PARTITIONS} partitions, {READERS} at a time"
ONE_OF_MANY = f"read_change_stream, one of {PARTITIONS} partitions"
ALL_RECORDS = f"change_records of {PARTITIONS} partitions"
_WHOLE, _PARTED = "whole", "parted"


def workloads(rows: int) -> list[Workload]:
    """The commits that are captured and read."""
    return [Workload(rows, shape, COMMITS, has_vectors=True) for shape in SHAPES]


def capture_of(workload: str) -> str:
    """The name in results for capturing the commits of a workload."""
    return f"{workload}: capture"


def reads_of(workload: str) -> str:
    """The name in results for reading what was captured of a workload."""
    return f"{workload}: reads"


def measure(
    spark: SparkSession, workshop: Workshop, workload: Workload, patience: Patience
) -> Iterator[Row]:
    """Capture the commits of a workload, and read their records."""
    bench = workshop.build(workload, partial(_create, spark))
    rounds = _Rounds(bench)
    yield from _captured(spark, bench, rounds, workload, patience)
    yield from _read(spark, bench, rounds, workload, patience)
    shutil.rmtree(bench.root)


class _Rounds:
    """What each round begins with: change streams that have the commits before them, and no
    output.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._round = 0
        self.root = bench.root

    @property
    def state(self) -> str:
        return str(self.root / "state")

    @property
    def output(self) -> str:
        return str(self.root / "output")

    @property
    def position(self) -> str:
        return str(self.root / "position")

    def renew(self) -> None:
        """Copy the change streams as they were before the commits."""
        if self._round:
            shutil.rmtree(self.root)
        self._round += 1
        self.root = self._bench.root / f"round {self._round}"
        shutil.copytree(_begun(self._bench.root), self.state)


def _begun(root: Path) -> Path:
    """The state folder of the change streams before the commits."""
    return root / "begun"


def _create(spark: SparkSession, root: Path) -> None:
    engine = Engine(spark, str(_begun(root)))
    for name, partitions in ((_WHOLE, 1), (_PARTED, PARTITIONS)):
        engine.create_change_stream(name, {str(root / "t"): Watch([KEY])}, partitions=partitions)


def _captured(
    spark: SparkSession, bench: Bench, rounds: _Rounds, workload: Workload, patience: Patience
) -> Iterator[Row]:
    ways: dict[str, tuple[Callable[[], object], Callable[[], Expected]]] = {
        APPENDED: (
            partial(_append, spark, bench, rounds),
            lambda: counted(spark.read.format("delta").load(rounds.output)),
        ),
        CAPTURE: (
            lambda: _advance(spark, bench, rounds, _PARTED),
            lambda: _recorded(Engine(spark, rounds.state).change_records(_PARTED)),
        ),
        STREAMING: (
            partial(_stream, spark, bench, rounds),
            lambda: counted(spark.read.format("delta").load(rounds.output)),
        ),
    }
    works = [work for work, _ in ways.values()]
    timings = timed_in_turns(spark, works, patience, prepare=rounds.renew)
    for (way, (work, count)), timing in zip(ways.items(), timings, strict=True):
        if not timing.is_lower_bound:
            rounds.renew()
            work()
            _check(way, count(), workload)
        yield Row(capture_of(workload.name), way, timing)


def _read(
    spark: SparkSession, bench: Bench, rounds: _Rounds, workload: Workload, patience: Patience
) -> Iterator[Row]:
    rounds.renew()
    engine = Engine(spark, rounds.state)
    begins = {name: _advance(spark, bench, rounds, name) for name in (_WHOLE, _PARTED)}

    def tokens(name: str) -> list[str]:
        first = engine.read_change_stream(name, begins[name])
        children = first.select(F.explode(F.flatten("ChangeRecord.child_partitions_record")))
        return [
            row[0] for row in children.select(F.explode("col.child_partitions.token")).collect()
        ]

    def partition(name: str, token: str) -> DataFrame:
        return engine.read_change_stream(name, begins[name], partition_token=token)

    (whole,), parts = tokens(_WHOLE), tokens(_PARTED)
    in_turn = cycle(parts)

    def in_parallel() -> None:
        with ThreadPoolExecutor(READERS) as pool:
            list(pool.map(lambda token: read_in_order(partition(_PARTED, token)), parts))

    ways: dict[str, Callable[[], object]] = {
        ONE_READER: lambda: read_in_order(partition(_WHOLE, whole)),
        IN_PARALLEL: in_parallel,
        ONE_OF_MANY: lambda: read_in_order(partition(_PARTED, next(in_turn))),
        ALL_RECORDS: lambda: read_in_order(engine.change_records(_PARTED)),
    }
    found = [_recorded(_data(partition(_PARTED, token))) for token in parts]
    _check(IN_PARALLEL, _sum(found), workload)
    _check(ONE_READER, _recorded(_data(partition(_WHOLE, whole))), workload)
    timings = timed_in_turns(spark, list(ways.values()), patience)
    for way, timing in zip(ways, timings, strict=True):
        yield Row(reads_of(workload.name), way, timing)


def _append(spark: SparkSession, bench: Bench, rounds: _Rounds) -> None:
    first = bench.stream.offset.version + 1
    feed = Engine(spark, bench.state).change_feed(bench.location, from_version=first, row_ids=True)
    feed.write.format("delta").save(rounds.output)


def _advance(spark: SparkSession, bench: Bench, rounds: _Rounds, name: str) -> datetime:
    """Capture the commits; returns the moment with which readers begin."""
    found = Engine(spark, rounds.state).advance_change_stream(name)
    if found.tables[0].captured != bench.end_version:
        raise AssertionError(f"{found}")
    return found.created


def _stream(spark: SparkSession, bench: Bench, rounds: _Rounds) -> None:
    reader = spark.readStream.format("delta").option("readChangeFeed", "true")
    rows = reader.option("startingVersion", bench.stream.offset.version + 1).load(bench.location)
    query = rows.writeStream.format("delta").option("checkpointLocation", rounds.position)
    query.trigger(availableNow=True).start(rounds.output).awaitTermination()


def _data(rows: DataFrame) -> DataFrame:
    """The data change records in what a query returned."""
    return rows.select(F.explode(F.flatten("ChangeRecord.data_change_record"))).select("col.*")


def _recorded(records: DataFrame) -> Expected:
    """How many changed rows of each kind the data change records hold."""
    mods = records.groupBy("mod_type").agg(F.sum(F.size("mods")))
    found = {row[0]: row[1] for row in mods.collect()}
    return Expected(found.get("INSERT", 0), found.get("UPDATE", 0), found.get("DELETE", 0))


def _sum(parts: list[Expected]) -> Expected:
    return Expected(
        sum(part.inserted for part in parts),
        sum(part.updated for part in parts),
        sum(part.deleted for part in parts),
    )


def _check(way: str, found: Expected, workload: Workload) -> None:
    if found != workload.expected:
        raise AssertionError(f"{way} found {found}, expected {workload.expected}")
