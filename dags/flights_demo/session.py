"""The Spark session and the engine of the demo's own jobs."""

from __future__ import annotations

import os

from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession

from airflow_provider_cdc.engine import Engine
from airflow_provider_cdc.jobs.entry_point import STORAGE_OPTIONS_VARIABLE, json_object

REMOTE = "SPARK_REMOTE"
"""The variable with the URL of a Spark Connect server, if jobs run on one."""

STORAGE_OPTIONS = STORAGE_OPTIONS_VARIABLE
"""The variable with the storage options of the state folder, as a JSON object."""

CONFIGURATION = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.files.openCostInBytes": "65536",
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def start(name: str) -> SparkSession:
    """A session on the server that ``SPARK_REMOTE`` names; without it on two local cores, or the
    one that spark-submit has started.
    """
    if url := os.environ.get(REMOTE):
        return SparkSession.builder.remote(url).getOrCreate()
    builder = SparkSession.builder.master("local[2]").appName(name)
    for key, value in CONFIGURATION.items():
        builder = builder.config(key, value)
    spark = configure_spark_with_delta_pip(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def storage_options() -> dict[str, str]:
    """The storage options from the environment."""
    return json_object(os.environ, STORAGE_OPTIONS)


def engine(spark: SparkSession, state: str) -> Engine:
    """The engine of the state folder."""
    return Engine(spark, state, storage_options=storage_options())
