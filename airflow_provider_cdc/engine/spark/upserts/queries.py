"""SQL over a DataFrame; the text may contain braces."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from ..session.session_settings import any_version

ROWS = "\0rows\0"
"""The placeholder of the DataFrame in the text."""


def query_over(spark: SparkSession, text: str, rows: DataFrame) -> DataFrame:
    """The result of the query ``text``, in which ``ROWS`` is the relation ``rows``."""
    # A name in braces is a DataFrame; all other braces must be doubled.
    escaped = text.replace("{", "{{").replace("}", "}}")
    with any_version(spark):
        return spark.sql(escaped.replace(ROWS, "{rows}"), rows=rows)
