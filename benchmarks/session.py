"""The Spark session of a benchmark: Spark's own settings but for the size of the machine."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

SHARED = {
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.memory": "8g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
}


def builder(settings: dict[str, str]) -> SparkSession.Builder:
    """A builder of a session on all cores of this machine."""
    found = SparkSession.builder.master("local[*]").appName("benchmarks")
    for key, value in (SHARED | settings).items():
        found = found.config(key, value)
    return found


def new_session(folder: Path) -> SparkSession:
    """A session with Delta, whose warehouse lies below ``folder``."""
    from delta import configure_spark_with_delta_pip  # noqa: PLC0415 - a peer's Spark has none

    place = {"spark.sql.warehouse.dir": (folder / "warehouse").as_uri()}
    session = configure_spark_with_delta_pip(builder(DELTA | place)).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
