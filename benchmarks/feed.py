"""Reading every change of each commit: ours, Delta's feed, and what users do without it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial, reduce
from itertools import product
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from airflow_provider_cdc.engine import Engine
from airflow_provider_cdc.engine.core.change_sets.net_files import fold
from airflow_provider_cdc.engine.core.delta.log_actions import Commit
from airflow_provider_cdc.engine.core.delta.table_schema import Layout
from airflow_provider_cdc.engine.spark.change_sets.file_lists import FileLists
from airflow_provider_cdc.engine.storage.files.scratch import Scratch
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.files.uris import absolute_path
from airflow_provider_cdc.engine.storage.sources.source_log import SourceLog

from .results import Row
from .shapes import Expected, Shape, Workload
from .tables import Bench, Workshop
from .timing import Patience, read_all, timed, timed_in_turns

TABLE_CHANGES = "table_changes"
FEED = "change feed"
FEED_WITH_IDS = "change feed, with row ids"
BY_ROW_TRACKING = "change feed, row tracking"
FLOOR = "scan floor, commit by commit"
SNAPSHOTS = "differences of snapshots, commit by commit"
# With these shapes each row changes at most once, so the net changes are all changes.
SHAPES = (Shape.APPEND, Shape.SPREAD, Shape.PARTITION, Shape.DELETE)
# A single commit has the same changes with and without netting.
LEAST_COMMITS = 2
# Each difference of snapshots takes as long as the one before, so more of them show nothing new.
MOST_SNAPSHOTS = 10


@dataclass(frozen=True, slots=True)
class FeedWay:
    """One way to read every change. ``counted`` counts what it found."""

    name: str
    read: Callable[[SparkSession, Bench], DataFrame]
    counted: Callable[[DataFrame], Expected] | None = None
    takes_turns: bool = True


def workloads(rows: int, commits: tuple[int, ...]) -> list[Workload]:
    """Every workload whose changes are not the same as its net changes."""
    return [
        Workload(rows, shape, count, vectors)
        for shape, count, vectors in product(SHAPES, commits, (True, False))
        if count >= LEAST_COMMITS
    ]


def measure(
    spark: SparkSession, workshop: Workshop, workload: Workload, patience: Patience
) -> Iterator[Row]:
    """Measure every way on a workload."""
    bench = workshop.build(workload)
    touched = sum(fold([commit]).size_bytes for commit in _commits(bench))
    ways = [way for way in WAYS if way.takes_turns]
    works = [partial(_read, spark, bench, way) for way in ways]
    timings = timed_in_turns(spark, works, patience)
    for way, timing in zip(ways, timings, strict=True):
        yield Row(workload.name, way.name, timing, touched)
    for way in WAYS:
        if way.read is _snapshots and workload.commits > MOST_SNAPSHOTS:
            continue
        if not way.takes_turns:
            yield Row(
                workload.name, way.name, timed(spark, partial(_read, spark, bench, way), patience)
            )
        if way.counted is not None:
            found = way.counted(way.read(spark, bench))
            if found != workload.expected:
                raise AssertionError(f"{way.name} found {found}, expected {workload.expected}")
    shutil.rmtree(bench.root)


def _read(spark: SparkSession, bench: Bench, way: FeedWay) -> None:
    read_all(way.read(spark, bench))


def _commits(bench: Bench) -> tuple[Commit, ...]:
    return SourceLog(Files()).range(bench.stream).commits


def _ours(**options: Any) -> Callable[[SparkSession, Bench], DataFrame]:
    def read(spark: SparkSession, bench: Bench) -> DataFrame:
        engine = Engine(spark, bench.state)
        first = bench.stream.offset.version + 1
        return engine.change_feed(bench.location, from_version=first, **options)

    return read


def _table_changes(spark: SparkSession, bench: Bench) -> DataFrame:
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    reader = reader.option("startingVersion", bench.stream.offset.version + 1)
    return reader.option("endingVersion", bench.end_version).load(bench.location)


def _floor(spark: SparkSession, bench: Bench) -> DataFrame:
    """Every file that a commit touched, once for each commit, with all columns."""
    partitioned_by = Layout.of(bench.stream.offset.metadata).partition_columns
    schema = StructType(
        [field for field in spark.table(bench.name).schema if field.name not in partitioned_by]
    )
    batches: list[dict[str, int]] = []
    for commit in _commits(bench):
        net = fold([commit])
        files = (*net.removed, *net.added, *(pair.new for pair in net.revectored))
        for file in files:
            path = absolute_path(bench.location, file.path)
            batch = next((each for each in batches if path not in each), None)
            if batch is None:
                batches.append(batch := {})
            batch[path] = file.size_bytes
    scratch = Scratch(bench.state, Files(), lambda: datetime.now(UTC))
    parts = [FileLists(spark, scratch).open(list(each.items()), schema) for each in batches]
    return reduce(DataFrame.union, [part for part in parts if part is not None])


def _snapshots(spark: SparkSession, bench: Bench) -> DataFrame:
    """The difference of each version and the one before it, as users do without a feed."""

    def at(version: int) -> DataFrame:
        return spark.read.format("delta").option("versionAsOf", version).load(bench.location)

    def step(version: int) -> DataFrame:
        before = at(version - 1).select(bench.key, F.struct(*bench.values).alias("old"))
        after = at(version).select(bench.key, F.struct(*bench.values).alias("new"))
        pairs = before.join(after, bench.key, "full_outer")
        return pairs.where(~F.col("old").eqNullSafe(F.col("new")))

    versions = range(bench.stream.offset.version + 1, bench.end_version + 1)
    return reduce(DataFrame.union, map(step, versions))


def counted(rows: DataFrame) -> Expected:
    """How many rows of a feed are of each kind; an update is one row."""
    found = {row[0]: row[1] for row in rows.groupBy("_change_type").count().collect()}
    return Expected(
        found.get("insert", 0), found.get("update_postimage", 0), found.get("delete", 0)
    )


WAYS = (
    FeedWay(FLOOR, _floor),
    FeedWay(TABLE_CHANGES, _table_changes, counted),
    FeedWay(FEED, _ours(), counted),
    FeedWay(FEED_WITH_IDS, _ours(row_ids=True), counted),
    FeedWay(BY_ROW_TRACKING, _ours(source="row_tracking"), counted),
    FeedWay(SNAPSHOTS, _snapshots, takes_turns=False),
)
