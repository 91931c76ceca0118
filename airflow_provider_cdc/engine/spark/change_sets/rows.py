"""The rows of data files, as everything that reads them hands them on.

The columns of a table come first, in their order, each by itself: a struct of all of them that is
taken apart again costs Spark the square of their number. What belongs to the engine follows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from math import ceil

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...core.crafted_log import ListedFile, bytes_of
from ...core.names import quote
from ...core.table_schema import Layout
from .columns import as_read_today

# One task reads this much, or opens so many files, in less time than a shuffle takes.
LITTLE_BYTES = 4 << 20
_FEW_FILES = 100
# The columns of a row in one struct, where rows are netted.
ROW = "row"
# What stands beside the columns of a table, whatever these are called.
ROW_ID = "_cdc_row_id"
ROW_VERSION = "_cdc_row_version"
PLACE = "_cdc_place"
BUCKET, CANDIDATES = "_cdc_bucket", "_cdc_candidates"
OWN_COLUMNS = (ROW_ID, ROW_VERSION, PLACE, BUCKET, CANDIDATES)
# No row has it: it tells Spark that there is no NULL, which it would filter out first.
NO_ROW_ID = -1


@dataclass(frozen=True, slots=True)
class Sides:
    """The rows in which the two ends of a range may differ, with row id and row commit version.

    ``None`` where an end has none of them. Where an end ``is_remade``, the types of its columns may
    differ from those of the other end in what Spark notes of their fields.
    """

    old: DataFrame | None
    new: DataFrame | None
    is_remade: bool = False


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """The rows of all ``frames``, of which there is at least one."""
    return reduce(lambda rows, part: rows.unionByName(part), frames)


def in_one(columns: Sequence[str]) -> str:
    """The expression of a struct of ``columns``."""
    return f"struct({', '.join(map(quote, columns))})"


def to_group(rows: DataFrame, listed: Sequence[ListedFile]) -> DataFrame:
    """``rows`` of the ``listed`` files in no more tasks than pay; those of one are not shuffled.

    Spark reckons with 4 MiB for opening a file, and would make a task of some thirty small ones.
    """
    tasks = max(ceil(bytes_of(listed) / LITTLE_BYTES), ceil(len(listed) / _FEW_FILES))
    return rows.coalesce(tasks)


def as_of_today(rows: DataFrame, steps: Sequence[Layout]) -> DataFrame:
    """``rows`` of the first layout of ``steps`` with the columns of the last one."""
    for then, today in pairwise(steps):
        if today.fields != then.fields:
            columns = as_read_today(lambda name: F.col(quote(name)), today.fields, then.fields)
            rows = rows.select(*columns, ROW_ID, ROW_VERSION)
    return rows
