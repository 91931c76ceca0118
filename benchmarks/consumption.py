"""A whole consumption, compared with the stream that Spark itself would run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from airflow_provider_cdc.engine import Engine

from .results import Row
from .shapes import COLUMNS, KEY, VALUES, Shape, Workload
from .tables import Bench, Workshop, create_table, link_table
from .timing import Patience, timed

COMMITS = (1, 10)
COLUMN_NAMES = (KEY, *VALUES)
STREAMING = "Structured Streaming readChangeFeed, AvailableNow, foreachBatch MERGE"
MERGE = (
    "MERGE INTO {target} AS t USING {changes} AS c ON t.id = c.id"
    " WHEN MATCHED AND {deleted} THEN DELETE"
    f" WHEN MATCHED THEN UPDATE SET {', '.join(f'{name} = c.{name}' for name in COLUMN_NAMES)}"
    f" WHEN NOT MATCHED AND NOT ({{deleted}}) THEN INSERT ({', '.join(COLUMN_NAMES)})"
    f" VALUES ({', '.join(f'c.{name}' for name in COLUMN_NAMES)})"
)
NEWEST = "(SELECT * FROM s WHERE METADATA$ACTION = 'INSERT' OR NOT METADATA$ISUPDATE)"


class Replica:
    """A copy of a bench's table as it was before the commits, made again for every round."""

    def __init__(self, spark: SparkSession, bench: Bench) -> None:
        self._spark = spark
        self._bench = bench
        self._original = bench.root / "original"
        self._round = 0
        create_table(spark, self._original, COLUMNS, {}, partition="part")
        before = spark.read.format("delta").option("versionAsOf", bench.stream.offset.version)
        before.load(bench.location).write.format("delta").mode("append").save(str(self._original))
        self.root = self._original

    @property
    def name(self) -> str:
        return f"delta.`{self.root / 't'}`"

    def renew(self) -> None:
        """A new copy, and a new stream ``s`` at the old offset."""
        if self._round:
            shutil.rmtree(self.root)
        self._round += 1
        self.root = self._bench.root / f"replica {self._round}"
        link_table(self._original, self.root / "t")
        shutil.copytree(self._bench.state, self.root / "state")

    def check(self) -> None:
        """Compare it with the bench's table."""
        here, there = self._spark.table(self.name), self._spark.table(self._bench.name)
        rest = here.exceptAll(there).count() + there.exceptAll(here).count()
        if rest:
            raise AssertionError(f"{self.name}: {rest} rows differ from {self._bench.name}")


def whole(spark: SparkSession, workshop: Workshop, rows: int, patience: Patience) -> Iterator[Row]:
    """Bring a copy of the table up to date: ``consume``, compared with Structured Streaming."""
    for commits in COMMITS if patience.is_thorough else COMMITS[:1]:
        workload = Workload(rows, Shape.SPREAD, commits, has_vectors=True)
        bench = workshop.build(workload)
        replica = Replica(spark, bench)
        touched = bench.touched_bytes
        ways = {
            "consume, one MERGE": partial(_consume, spark, replica),
            STREAMING: partial(_stream, spark, bench, replica),
        }
        # A session reaches its full speed only after some writes of this size.
        for work in ways.values() if patience.is_thorough else ():
            replica.renew()
            work()
        for name, work in ways.items():
            timing = timed(spark, work, patience, prepare=replica.renew)
            if not timing.is_lower_bound:
                replica.check()
            yield Row(workload.name, name, timing, touched)
        shutil.rmtree(bench.root)


def _consume(spark: SparkSession, replica: Replica) -> None:
    deleted = "c.METADATA$ACTION = 'DELETE'"
    statement = MERGE.format(target=replica.name, changes=NEWEST, deleted=deleted)
    Engine(spark, str(replica.root / "state")).consume([statement], consumer="benchmark")


def _stream(spark: SparkSession, bench: Bench, replica: Replica) -> None:
    """As in Delta's documentation: merge the newest image of each key, batch by batch."""

    def upsert(batch: DataFrame, number: int) -> None:
        newest = Window.partitionBy(KEY).orderBy(
            F.desc("_commit_version"), F.desc(F.col("_change_type") == "update_postimage")
        )
        changes = (
            batch.where("_change_type <> 'update_preimage'")
            .withColumn("number", F.row_number().over(newest))
            .where("number = 1")
        )
        deleted = "c._change_type = 'delete'"
        # The view of ``changes`` belongs to the session of the batch.
        batch.sparkSession.sql(
            MERGE.format(target=replica.name, changes="{changes}", deleted=deleted),
            changes=changes,
        )

    feed = (
        spark.readStream.format("delta")
        .option("readChangeFeed", "true")
        .option("startingVersion", bench.stream.offset.version + 1)
        .load(bench.location)
    )
    query = (
        feed.writeStream.foreachBatch(upsert)
        .option("checkpointLocation", str(replica.root / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()
