"""The jar of the log store for S3 is made of the source next to it."""

from __future__ import annotations

from log_store_jar import classes_in_jar, compiled_classes
from pyspark.sql import SparkSession


def test_jar_of_the_log_store_holds_the_classes_of_its_source(spark: SparkSession) -> None:
    assert classes_in_jar() == compiled_classes(spark)
