"""Few rows that the driver knows, as a DataFrame."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType


def literal_rows(spark: SparkSession, rows: Iterable[tuple[Any, ...]], schema: str) -> DataFrame:
    """``rows`` as a constant of the plan. Rows that ``createDataFrame`` gets pass through a process
    of Python, which takes longer than to read a partition.

    :param rows: values that JSON has
    :param schema: the columns and their types
    """
    names = cast(StructType, StructType.fromDDL(schema)).names
    text = json.dumps([dict(zip(names, row, strict=True)) for row in rows])
    given = F.from_json(F.lit(text), f"ARRAY<STRUCT<{schema.replace('`', '')}>>")
    return one_row(spark).select(F.inline(given))


def one_row(spark: SparkSession) -> DataFrame:
    """A row to select constants from, in one task."""
    return spark.range(0, 1, 1, 1)
