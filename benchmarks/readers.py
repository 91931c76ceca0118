"""Ways to read what changed: ours, those of the peers, and the scan floor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from airflow_provider_cdc.engine import Engine
from airflow_provider_cdc.engine.core.change_sets.read_plan import ReadPlan
from airflow_provider_cdc.engine.core.change_sets.rewrites import net_difference
from airflow_provider_cdc.engine.core.delta.table_schema import Layout
from airflow_provider_cdc.engine.spark.change_sets.file_lists import FileLists
from airflow_provider_cdc.engine.storage.files.scratch import Scratch
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.files.uris import absolute_path
from airflow_provider_cdc.engine.storage.sources.source_log import SourceLog

from . import iceberg_process
from .session import PARTITIONS, PARTITIONS_OF_PEERS
from .shapes import Expected
from .tables import Bench

CHANGELOG = "spark.databricks.delta.changelogV2.enabled"


@dataclass(frozen=True, slots=True)
class Reader:
    """One way to read the net changes of a table. ``counted`` counts what it found, to check that
    all readers find the same. ``plan`` is what it reads, if it can report that. ``takes_turns`` is
    false for a way that is much slower than all others, and may fill a disk with what it shuffles.
    ``settings`` are the session's while it reads; if there are several, the fastest count.
    """

    name: str
    read: Callable[[SparkSession, Bench], DataFrame]
    counted: Callable[[DataFrame], Expected] | None
    takes_turns: bool = True
    plan: Callable[[SparkSession, Bench], ReadPlan] | None = None
    settings: tuple[Mapping[str, str], ...] = ({},)


def _ours(name: str, strategy: str | None) -> Reader:
    def engine(spark: SparkSession, bench: Bench) -> Engine:
        return Engine(spark, bench.state, strategy=strategy)

    return Reader(
        name,
        lambda spark, bench: engine(spark, bench).read_stream("s"),
        _count_ours,
        plan=lambda spark, bench: engine(spark, bench).explain_stream("s"),
    )


def _count_ours(rows: DataFrame) -> Expected:
    kinds = rows.groupBy("METADATA$ACTION", "METADATA$ISUPDATE").count().collect()
    found = {(row[0], row[1]): row[2] for row in kinds}
    return Expected(
        found.get(("INSERT", False), 0),
        found.get(("INSERT", True), 0),
        found.get(("DELETE", False), 0),
    )


def _floor(spark: SparkSession, bench: Bench) -> DataFrame:
    """Every touched file once, all columns, no netting. Spark reads them as fast as it can, because
    it gets the list of the files and checks no path.
    """
    net = net_difference(SourceLog(Files()).range(bench.stream).commits)
    files = (*net.removed, *net.added, *(pair.new for pair in net.revectored))
    listed = [(absolute_path(bench.location, file.path), file.size_bytes) for file in files]
    # The values of partition columns are in no file.
    partitioned_by = Layout.of(bench.stream.offset.metadata).partition_columns
    schema = [field for field in spark.table(bench.name).schema if field.name not in partitioned_by]
    scratch = Scratch(bench.state, Files(), lambda: datetime.now(UTC))
    rows = FileLists(spark, scratch).open(listed, StructType(schema))
    assert rows is not None
    return rows


def _spark_changes(spark: SparkSession, bench: Bench) -> DataFrame:
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
STREAM = _ours("stream", None)
BY_FILES = _ours("stream, file difference", "file_difference")
BY_CHANGE_FILES = _ours("stream, change files", "change_files")
SNAPSHOTS = Reader("difference of two snapshots", _snapshots, _count_pairs, takes_turns=False)
CHANGES = Reader(
    "Spark CHANGES, netChanges",
    _spark_changes,
    _count_changes,
    takes_turns=False,
    settings=tuple(
        {CHANGELOG: "true", PARTITIONS: partitions} for partitions in PARTITIONS_OF_PEERS
    ),
)
FEED_BY_KEY = Reader("change data feed, netted by key", _netted_feed, _count_pairs)
READERS = (
    FLOOR,
    STREAM,
    BY_FILES,
    BY_CHANGE_FILES,
    FEED_BY_KEY,
    Reader("change data feed, not netted", _feed, None),
    SNAPSHOTS,
    # Last, because what it shuffles fills a disk (54 GB at 100 commits).
    CHANGES,
)
# Their names in results, in the order of the page.
WAYS = (*[reader.name for reader in READERS], iceberg_process.NAME)
