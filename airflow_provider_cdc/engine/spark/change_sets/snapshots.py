"""All rows of a table at one version."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ...storage.source_log import SourceRange
from .rows import ROW, ROW_ID


def all_rows(spark: SparkSession, span: SourceRange) -> DataFrame:
    """The rows of a table at the end of ``span``: Delta's row id, and the columns in one struct."""
    reader = spark.read.format("delta").option("versionAsOf", span.end.version)
    rows = reader.load(span.stream.source.location)
    identity = rows.metadataColumn("_metadata").getField("row_id").alias(ROW_ID)
    return rows.select(identity, F.struct("*").alias(ROW))
