"""A whole consumption, beside the stream that Spark itself would run, and what it costs on top."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from airflow_provider_cdc.engine import Engine

from .results import Row
from .shapes import COLUMNS, KEY, VALUES, Shape, Workload
from .tables import ROW_TRACKING, Bench, Workshop, link_table
from .timing import Patience, timed

COMMITS = (1, 10)
COLUMN_NAMES = (KEY, *VALUES)
STREAMING = "Structured Streaming readChangeFeed, AvailableNow, foreachBatch MERGE"
FIXED_COST = "one changed row of 1,000"
MERGE = (
    "MERGE INTO {target} AS t USING {changes} AS c ON t.id = c.id"
    " WHEN MATCHED AND {deleted} THEN DELETE"
    f" WHEN MATCHED THEN UPDATE SET {', '.join(f'{name} = c.{name}' for name in COLUMN_NAMES)}"
    f" WHEN NOT MATCHED AND NOT ({{deleted}}) THEN INSERT ({', '.join(COLUMN_NAMES)})"
    f" VALUES ({', '.join(f'c.{name}' for name in COLUMN_NAMES)})"
)
NEWEST = "(SELECT * FROM s WHERE METADATA$ACTION = 'INSERT' OR NOT METADATA$ISUPDATE)"


class Replica:
    """A copy of a bench's table as it was before the commits, made anew for every round."""

    def __init__(self, spark: SparkSession, bench: Bench) -> None:
        self._spark = spark
        self._bench = bench
        self._original = bench.root / "original"
        self._round = 0
        spark.sql(
            f"CREATE TABLE delta.`{self._original}` ({COLUMNS}) USING delta PARTITIONED BY (part)"
        )
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
    """Bring a copy of the table up to date: ``consume`` beside Structured Streaming."""
    for commits in COMMITS:
        workload = Workload(rows, Shape.SPREAD, commits, has_vectors=True, has_feed=True)
        bench = workshop.build(workload)
        replica = Replica(spark, bench)
        ways = {
            "consume, one MERGE": partial(_consume, spark, replica),
            STREAMING: partial(_stream, spark, bench, replica),
        }
        for name, work in ways.items():
            timing = timed(spark, work, patience, prepare=replica.renew)
            if not timing.is_lower_bound:
                replica.check()
            yield Row(workload.name, name, timing, bench.touched_bytes)
        shutil.rmtree(bench.root)


def _consume(spark: SparkSession, replica: Replica) -> None:
    deleted = "c.METADATA$ACTION = 'DELETE'"
    statement = MERGE.format(target=replica.name, changes=NEWEST, deleted=deleted)
    Engine(spark, str(replica.root / "state")).consume([statement], consumer="benchmark")


def _stream(spark: SparkSession, bench: Bench, replica: Replica) -> None:
    """As Delta's documentation shows it: the newest image of each key, merged batch by batch."""

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


class Ledger:
    """A small source with one changed row, a stream before the change, and an empty target."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self._spark = spark
        self._root = root
        self.source, self.target = f"delta.`{root / 'source'}`", f"delta.`{root / 'target'}`"
        self.state = str(root / "state")
        tracked = f"TBLPROPERTIES ('{ROW_TRACKING}' = 'true')"
        spark.sql(f"CREATE TABLE {self.source} (id BIGINT, n BIGINT) USING delta {tracked}")
        spark.sql(f"CREATE TABLE {self.target} (id BIGINT, n BIGINT) USING delta")
        spark.sql(f"INSERT INTO {self.source} SELECT id, id FROM range(1000)")
        self.engine = Engine(spark, self.state)
        self.engine.create_stream("s", on_table=str(root / "source"))

    def change(self) -> None:
        """Change a row; a view ``changes`` holds what the stream would return."""
        self._spark.sql(f"UPDATE {self.source} SET n = n + 1 WHERE id = 7")
        self.engine.read_stream("s").createOrReplaceTempView("changes")

    def advance(self) -> None:
        """Change a row when the stream has nothing else."""
        self.engine.advance("s")
        self.change()


def fixed(spark: SparkSession, workshop: Workshop, patience: Patience) -> Iterator[Row]:
    """What ``consume`` costs beside the bare statement, where there is next to no data."""
    ledger = Ledger(spark, workshop.new_folder())
    insert = f"INSERT INTO {ledger.target} SELECT id, n FROM "
    ways = {
        "bare statement, of the source": lambda: spark.sql(f"{insert}{ledger.source} WHERE id = 7"),
        "bare statement, of the change set": lambda: spark.sql(f"{insert}changes"),
        "consume": lambda: ledger.engine.consume([f"{insert}s"], consumer="benchmark"),
    }
    for name, work in ways.items():
        yield Row(FIXED_COST, name, timed(spark, work, patience, prepare=ledger.advance))
