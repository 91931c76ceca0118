"""SQL over a DataFrame, whatever braces stand in the text."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from ..session_settings import any_version

ROWS = "\0rows\0"
"""What stands for the DataFrame in the text."""


def query_over(spark: SparkSession, text: str, rows: DataFrame) -> DataFrame:
    """The result of the query ``text``, in which ``ROWS`` is the relation ``rows``."""
    # What is named in braces is a DataFrame; other braces stand for themselves.
    escaped = text.replace("{", "{{").replace("}", "}}")
    with any_version(spark):
        return spark.sql(escaped.replace(ROWS, "{rows}"), rows=rows)
