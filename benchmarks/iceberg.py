"""Iceberg's changelog view, in an environment of its own: ``python -m benchmarks.iceberg REQUEST``.

The request is JSON: the workload, how often to repeat it, where to work and where to write the
timing.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from .session import PARTITIONS, PARTITIONS_OF_PEERS, builder
from .shapes import COLUMNS, Shape, Workload, new_rows
from .timing import Patience, read_all, timed_at_best

RUNTIME = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"
TABLE = "ice.db.t"
OPTIMIZE = (
    "CALL ice.system.rewrite_data_files(table => 'db.t', strategy => 'sort', sort_order => 'n',"
    " options => map('rewrite-all', 'true'))"
)


def new_session(folder: Path) -> SparkSession:
    """A session with an Iceberg catalog ``ice`` below ``folder``."""
    session = builder(
        {
            "spark.jars.packages": RUNTIME,
            "spark.sql.extensions": (
                "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
            ),
            "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.ice.type": "hadoop",
            "spark.sql.catalog.ice.warehouse": str(folder),
        }
    ).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def build(spark: SparkSession, workload: Workload) -> tuple[int, int]:
    """Create the workload's table; returns the snapshots before its commits and after them.

    It is copy-on-write, because the changelog view refuses tables with delete files.
    """
    spark.sql(
        f"CREATE TABLE {TABLE} ({COLUMNS}) USING iceberg PARTITIONED BY (part)"
        " TBLPROPERTIES ('format-version' = '2')"
    )
    new_rows(spark, workload.rows).writeTo(TABLE).append()
    first = _snapshot(spark)
    for statement in workload.statements(OPTIMIZE):
        spark.sql(statement.replace("{t}", TABLE))
    return first, _snapshot(spark)


def _snapshot(spark: SparkSession) -> int:
    newest = spark.table(f"{TABLE}.snapshots").orderBy(F.desc("committed_at")).first()
    assert newest is not None
    return int(newest["snapshot_id"])


def read(spark: SparkSession, first: int, last: int) -> None:
    """Make the view of net changes, and read all of it."""
    read_all(_changes(spark, first, last))


def _changes(spark: SparkSession, first: int, last: int) -> DataFrame:
    spark.sql(
        "CALL ice.system.create_changelog_view(table => 'db.t', changelog_view => 'changes',"
        f" options => map('start-snapshot-id', '{first}', 'end-snapshot-id', '{last}'),"
        " net_changes => true)"
    )
    return spark.table("changes")


def check(spark: SparkSession, workload: Workload, first: int, last: int) -> None:
    """Compare the rows of the view with those expected."""
    rows = _changes(spark, first, last).groupBy("_change_type").count().collect()
    found = {row[0]: row[1] for row in rows}
    expected = workload.expected
    wanted = {
        "INSERT": expected.inserted + expected.updated,
        "DELETE": expected.deleted + expected.updated,
    }
    if found != {kind: count for kind, count in wanted.items() if count}:
        raise AssertionError(f"{workload.name}: found {found}, expected {wanted}")


def main() -> None:
    """Run the request in the first argument."""
    request = json.loads(sys.argv[1])
    workload = Workload(request["rows"], Shape(request["shape"]), request["commits"], False)
    spark = new_session(Path(request["folder"]))
    first, last = build(spark, workload)
    patience = Patience(request["repeats"], request["limit"])

    def read_with(partitions: str) -> None:
        spark.conf.set(PARTITIONS, partitions)
        read(spark, first, last)

    ways = [partial(read_with, partitions) for partitions in PARTITIONS_OF_PEERS]
    timing = timed_at_best(spark, ways, patience)
    if not timing.is_lower_bound:
        check(spark, workload, first, last)
    spark.stop()
    Path(request["out"]).write_text(json.dumps(asdict(timing)), encoding="utf-8")


if __name__ == "__main__":
    main()
