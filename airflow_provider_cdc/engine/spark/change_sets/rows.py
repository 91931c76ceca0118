"""The rows of data files, as everything that reads them hands them on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from math import ceil

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...core.crafted_log import ListedFile, bytes_of
from ...core.table_schema import Layout
from .columns import as_read_today

# One task reads this much, or opens so many files, in less time than a shuffle takes.
LITTLE_BYTES = 4 << 20
_FEW_FILES = 100
ROW = "row"
ROW_ID = "row_id"
ROW_VERSION = "row_version"
# No row has it: it tells Spark that there is no NULL, which it would filter out first.
NO_ROW_ID = -1


@dataclass(frozen=True, slots=True)
class Sides:
    """The rows in which the two ends of a range may differ: row id, row commit version and row.

    ``None`` where an end has none of them.
    """

    old: DataFrame | None
    new: DataFrame | None


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """The rows of all ``frames``, of which there is at least one."""
    return reduce(lambda rows, part: rows.unionByName(part), frames)


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
            row = F.struct(*as_read_today(F.col(ROW), today.fields, then.fields)).alias(ROW)
            rows = rows.select(ROW_ID, ROW_VERSION, row)
    return rows
