"""Keeping every change, beside a plain streaming append; and checks that a target is right."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_provider_cdc.engine import Engine, Verification

from .consumption import MERGE, NEWEST
from .results import Row
from .shapes import KEY, Shape, Workload
from .tables import Bench, Workshop, link_table
from .timing import Patience, timed

COMMITS = 10
ARCHIVE = "archive_changes"
STREAMING = "Structured Streaming readChangeFeed, AvailableNow, append"
FIRST_CHECK = "first check, all rows"
UNCHANGED = "check, nothing changed"
AFTER_UPDATES = "check after 1 % updates in one partition"
CORRUPTED = "check that names a row corrupted by hand"
HEALED = "check that heals it"
CORRUPTED_KEY = 4_321
# Shapes whose commits hold many rows, and few rows in many files.
SHAPES = (Shape.APPEND, Shape.SPREAD)


def archived(
    spark: SparkSession, workshop: Workshop, rows: int, patience: Patience
) -> Iterator[Row]:
    """Archive nine commits of each shape. Archive and sink exist, and hold the first commit."""
    for shape in SHAPES:
        workload = Workload(rows, shape, COMMITS, has_vectors=True)
        bench = workshop.build(workload)
        first = bench.stream.offset.version + 1
        for way, begin, work in (
            (ARCHIVE, _first_archived, _archive),
            (STREAMING, _first_streamed, _stream),
        ):
            begin(spark, bench, first)
            rounds = _Rounds(spark, bench)
            once = partial(work, spark, bench, rounds)
            timing = timed(spark, once, patience, prepare=rounds.renew)
            shutil.rmtree(rounds.root)
            yield Row(workload.name, way, timing)
        shutil.rmtree(bench.root)


def verified(
    spark: SparkSession, workshop: Workshop, rows: int, patience: Patience
) -> Iterator[Row]:
    """Check a copy: at first, again, and after commits were consumed into it."""
    workload = Workload(rows, Shape.PARTITION, 1, has_vectors=True)
    bench = workshop.build(workload)
    copy = bench.root / "copy"
    before = spark.read.format("delta").option("versionAsOf", bench.stream.offset.version)
    before.load(bench.location).write.format("delta").partitionBy("part").save(str(copy))
    engine, name = Engine(spark, bench.state), f"copy of {rows:,} rows"

    def check(*, full: bool = False) -> Verification:
        found = engine.verify_target("s", str(copy), KEY, full=full)
        if not found.is_equal:
            raise AssertionError(f"{found}")
        return found

    found = check()
    yield Row(name, FIRST_CHECK, timed(spark, lambda: check(full=True), patience), found.bytes_read)
    found = check()
    yield Row(name, UNCHANGED, timed(spark, check, patience), found.bytes_read)
    deleted = "c.`METADATA$ACTION` = 'DELETE'"
    engine.consume(
        MERGE.format(target=f"delta.`{copy}`", changes=NEWEST, deleted=deleted), consumer="b"
    )
    state = bench.root / "state"
    kept = bench.root / "kept"
    shutil.copytree(state / "verifications", kept)

    def forget() -> None:
        shutil.rmtree(state / "verifications")
        shutil.copytree(kept, state / "verifications")

    timing = timed(spark, check, patience, prepare=forget)
    forget()
    yield Row(name, AFTER_UPDATES, timing, check().bytes_read)
    yield from _corrupted(spark, engine, copy, name, patience)
    shutil.rmtree(bench.root)


def _corrupted(
    spark: SparkSession, engine: Engine, copy: Path, name: str, patience: Patience
) -> Iterator[Row]:
    """Name and heal a row that somebody changed."""

    def corrupt() -> None:
        spark.sql(f"UPDATE delta.`{copy}` SET n = n + 1 WHERE {KEY} = {CORRUPTED_KEY}").collect()

    def check(*, heal: bool) -> Verification:
        found = engine.verify_target("s", str(copy), KEY, heal=heal)
        keys = [json.loads(each.key)[KEY] for each in found.differences]
        if keys != [CORRUPTED_KEY] or found.is_equal is not heal:
            raise AssertionError(f"{found}")
        return found

    corrupt()
    found = check(heal=False)
    yield Row(name, CORRUPTED, timed(spark, partial(check, heal=False), patience), found.bytes_read)
    check(heal=True)
    yield Row(name, HEALED, timed(spark, partial(check, heal=True), patience, prepare=corrupt))


class _Rounds:
    """What each round begins with: an archive or a sink that holds the first commit."""

    def __init__(self, spark: SparkSession, bench: Bench) -> None:
        self._spark = spark
        self._bench = bench
        self._round = 0
        self.root = bench.root

    def renew(self) -> None:
        """Copy it, with its position."""
        if self._round:
            shutil.rmtree(self.root)
        self._round += 1
        self.root = self._bench.root / f"round {self._round}"
        link_table(self._bench.root / "begun", self.root / "begun")
        shutil.copytree(self._bench.root / "position", self.root / "position")


def _first_archived(spark: SparkSession, bench: Bench, first: int) -> None:
    _clear(bench)
    engine = Engine(spark, str(bench.root / "position"))
    engine.archive_changes(
        bench.location,
        str(bench.root / "begun"),
        from_version=first,
        bootstrap=False,
        max_commits=1,
    )


def _archive(spark: SparkSession, bench: Bench, rounds: _Rounds) -> None:
    engine = Engine(spark, str(rounds.root / "position"))
    outcome = engine.archive_changes(bench.location, str(rounds.root / "begun"))
    if outcome.through_version != bench.end_version:
        raise AssertionError(f"{outcome}")


def _first_streamed(spark: SparkSession, bench: Bench, first: int) -> None:
    _clear(bench)
    rows = spark.read.format("delta").option("readChangeFeed", "true")
    rows = rows.option("startingVersion", first).option("endingVersion", first)
    rows.load(bench.location).write.format("delta").save(str(bench.root / "begun"))
    (bench.root / "position").mkdir()


def _stream(spark: SparkSession, bench: Bench, rounds: _Rounds) -> None:
    reader = spark.readStream.format("delta").option("readChangeFeed", "true")
    rows = reader.option("startingVersion", bench.stream.offset.version + 2).load(bench.location)
    query = rows.writeStream.format("delta").option("checkpointLocation", f"{rounds.root}/position")
    query.trigger(availableNow=True).start(str(rounds.root / "begun")).awaitTermination()


def _clear(bench: Bench) -> None:
    for name in ("begun", "position"):
        shutil.rmtree(bench.root / name, ignore_errors=True)
