"""The rows of data files, as everything that reads them hands them on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...core.table_schema import Layout
from .columns import as_read_today

ROW = "row"
ROW_ID = "row_id"
ROW_VERSION = "row_version"


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """The rows of all ``frames``, of which there is at least one."""
    return reduce(lambda rows, part: rows.unionByName(part), frames)


def as_of_today(rows: DataFrame, steps: Sequence[Layout], *extra: str) -> DataFrame:
    """``rows`` of the first layout of ``steps`` with the columns of the last one."""
    for then, today in pairwise(steps):
        if today.fields != then.fields:
            row = F.struct(*as_read_today(F.col(ROW), today.fields, then.fields)).alias(ROW)
            rows = rows.select(*extra, ROW_ID, ROW_VERSION, row)
    return rows.select(*extra, ROW_ID, ROW_VERSION, ROW)
