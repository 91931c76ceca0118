"""The Spark session of a benchmark, with Spark's own settings except for the size of the
machine.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

SPARK_SUBMIT = Path(pyspark.__file__).parent / "bin/spark-submit"
PARTITIONS = "spark.sql.shuffle.partitions"
FEW_PARTITIONS = "4"
# A peer that shuffles much is faster with Spark's own number; one that shuffles little is not.
PARTITIONS_OF_PEERS = ("200", FEW_PARTITIONS)
SHARED = {
    PARTITIONS: FEW_PARTITIONS,
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


def delta_package() -> str:
    """The coordinates of Delta's jar for the Spark that is installed."""
    line = ".".join(pyspark.__version__.split(".")[:2])
    return f"io.delta:delta-spark_{line}_2.13:{version('delta-spark')}"


def new_remote_session(folder: Path) -> SparkSession:
    """A session with Delta on a Spark Connect server, which this process starts and ends."""
    settings = {
        "spark.jars.packages": delta_package(),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
    }
    found = SparkSession.builder.remote("local[*]")
    for key, value in (SHARED | DELTA | settings).items():
        found = found.config(key, value)
    return found.getOrCreate()


def new_session(folder: Path) -> SparkSession:
    """A session with Delta, whose warehouse is below ``folder``."""
    session = new_session_with(folder, {})
    # A peer that was stopped must not work on beside the next one.
    session.sparkContext.setInterruptOnCancel(True)
    return session


def new_session_with(folder: Path, settings: dict[str, str]) -> SparkSession:
    """A session with Delta and with further settings, whose warehouse is below ``folder``."""
    from delta import configure_spark_with_delta_pip  # noqa: PLC0415 - a peer's Spark has none

    place = {"spark.sql.warehouse.dir": (folder / "warehouse").as_uri()}
    session = configure_spark_with_delta_pip(builder(DELTA | place | settings)).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
