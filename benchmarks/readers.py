"""Ways to read what changed: ours, those of the peers, and the floor under all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_provider_cdc.engine import Engine
from airflow_provider_cdc.engine.core.rewrites import net_difference
from airflow_provider_cdc.engine.storage.files import Files, absolute_path, plain_uri
from airflow_provider_cdc.engine.storage.source_log import SourceLog

from . import iceberg_process
from .shapes import Expected
from .tables import Bench

CHANGELOG = "spark.databricks.delta.changelogV2.enabled"


@dataclass(frozen=True, slots=True)
class Reader:
    """One way to read the net changes of a table; ``counted`` says what it found, to be sure that
    every row of the benchmark means the same. What is slower than all others by far, and may fill
    a disk with what it shuffles, takes no turns with them.
    """

    name: str
    read: Callable[[SparkSession, Bench], DataFrame]
    counted: Callable[[DataFrame], Expected] | None
    takes_turns: bool = True


def _ours(strategy: str | None) -> Callable[[SparkSession, Bench], DataFrame]:
    def read(spark: SparkSession, bench: Bench) -> DataFrame:
        return Engine(spark, bench.state, strategy=strategy).read_stream("s")

    return read


def _count_ours(rows: DataFrame) -> Expected:
    kinds = rows.groupBy("METADATA$ACTION", "METADATA$ISUPDATE").count().collect()
    found = {(row[0], row[1]): row[2] for row in kinds}
    return Expected(
        found.get(("INSERT", False), 0),
        found.get(("INSERT", True), 0),
        found.get(("DELETE", False), 0),
    )


def _floor(spark: SparkSession, bench: Bench) -> DataFrame:
    """Every touched file once, all columns, no netting: no correct way can read less by files."""
    net = net_difference(SourceLog(Files()).range(bench.stream).commits)
    files = (*net.removed, *net.added, *(pair.new for pair in net.revectored))
    paths = [plain_uri(absolute_path(bench.location, file.path)) for file in files]
    schema = spark.table(bench.name).schema
    return spark.read.schema(schema).option("basePath", bench.location).parquet(*paths)


def _spark_changes(spark: SparkSession, bench: Bench) -> DataFrame:
    spark.conf.set(CHANGELOG, "true")
    return spark.sql(
        f"SELECT * FROM {bench.name} CHANGES FROM VERSION {bench.stream.offset.version + 1}"
        f" TO VERSION {bench.end_version}"
        " WITH (deduplicationMode = 'netChanges', computeUpdates = 'true')"
    )


def _count_changes(rows: DataFrame) -> Expected:
    found = {row[0]: row[1] for row in rows.groupBy("_change_type").count().collect()}
    return Expected(
        found.get("insert", 0), found.get("update_postimage", 0), found.get("delete", 0)
    )


def _feed(spark: SparkSession, bench: Bench) -> DataFrame:
    return (
        spark.read.format("delta")
        .option("readChangeFeed", "true")
        .option("startingVersion", bench.stream.offset.version + 1)
        .option("endingVersion", bench.end_version)
        .load(bench.location)
    )


def _netted_feed(spark: SparkSession, bench: Bench) -> DataFrame:
    """The first and the last image of each key, as a careful user nets the feed by hand."""
    after = F.col("_change_type").isin("insert", "update_postimage")
    moment = F.struct("_commit_version", after.cast("int").alias("after"))
    image = F.struct(*bench.values)
    ends = (
        _feed(spark, bench)
        .groupBy(bench.key)
        .agg(
            F.min_by(F.when(~after, image), moment).alias("old"),
            F.max_by(F.when(after, image), moment).alias("new"),
        )
    )
    return ends.where(~F.col("old").eqNullSafe(F.col("new")))


def _snapshots(spark: SparkSession, bench: Bench) -> DataFrame:
    def at(version: int) -> DataFrame:
        return spark.read.format("delta").option("versionAsOf", version).load(bench.location)

    old, new = at(bench.stream.offset.version), at(bench.end_version)
    before = old.select(bench.key, F.struct(*bench.values).alias("old"))
    after = new.select(bench.key, F.struct(*bench.values).alias("new"))
    pairs = before.join(after, bench.key, "full_outer")
    return pairs.where(~F.col("old").eqNullSafe(F.col("new")))


def _count_pairs(rows: DataFrame) -> Expected:
    found = rows.select(
        F.count_if(F.col("old").isNull()),
        F.count_if(F.col("old").isNotNull() & F.col("new").isNotNull()),
        F.count_if(F.col("new").isNull()),
    ).first()
    assert found is not None
    return Expected(*found)


FLOOR = Reader("scan floor", _floor, None)
OURS = Reader("stream, file difference", _ours("file_difference"), _count_ours)
OURS_BY_FEED = Reader("stream, change files", _ours("change_files"), _count_ours)
SNAPSHOTS = Reader("difference of two snapshots", _snapshots, _count_pairs, takes_turns=False)
CHANGES = Reader("Spark CHANGES, netChanges", _spark_changes, _count_changes, takes_turns=False)
FEED_BY_KEY = Reader("change data feed, netted by key", _netted_feed, _count_pairs)
READERS = (
    FLOOR,
    OURS,
    OURS_BY_FEED,
    FEED_BY_KEY,
    Reader("change data feed, not netted", _feed, None),
    SNAPSHOTS,
    # Last, because what it shuffles fills a disk (54 GB at 100 commits).
    CHANGES,
)
# What results call them, in the order of the page.
WAYS = (*[reader.name for reader in READERS], iceberg_process.NAME)
