"""The rows of data files, in the form in which all readers return them.

The columns of a table come first, in their order, each as a separate column. If Spark put them all
into a struct and took them out again, the cost would grow with the square of their number. The
engine's own columns follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from math import ceil

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...core.change_sets.crafted_log import ListedFile, bytes_of
from ...core.delta.table_schema import Layout
from ...core.names import quote
from .columns import in_newer_schema

# One task reads this much, or opens this many files, faster than a shuffle runs.
LITTLE_BYTES = 4 << 20
_FEW_FILES = 100
# When rows are netted, this struct holds the columns of a row.
ROW = "row"
# The engine's own columns beside the columns of a table.
ROW_ID = "_cdc_row_id"
ROW_VERSION = "_cdc_row_version"
PLACE = "_cdc_place"
BUCKET, CANDIDATES = "_cdc_bucket", "_cdc_candidates"
OWN_COLUMNS = (ROW_ID, ROW_VERSION, PLACE, BUCKET, CANDIDATES)
# No row has this id. It shows Spark that no id is NULL; else Spark would first filter NULLs.
NO_ROW_ID = -1


@dataclass(frozen=True, slots=True)
class Sides:
    """The rows in which the two ends of a range may differ, with row id and row commit version.

    An end without such rows is ``None``. If ``is_remade`` is true, the columns of an end were made
    from an older schema: their types may differ from those of the other end in the metadata of
    their fields.
    """

    old: DataFrame | None
    new: DataFrame | None
    is_remade: bool = False


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """The rows of all ``frames``; there must be at least one."""
    return reduce(lambda rows, part: rows.unionByName(part), frames)


def in_one(columns: Sequence[str]) -> str:
    """The expression of a struct of ``columns``."""
    return f"struct({', '.join(map(quote, columns))})"


def to_group(rows: DataFrame, listed: Sequence[ListedFile]) -> DataFrame:
    """``rows`` of the ``listed`` files, in only as many tasks as their bytes and number need.

    One task needs no shuffle. Spark counts 4 MiB for opening a file, and would make one task for
    about thirty small files.
    """
    tasks = max(ceil(bytes_of(listed) / LITTLE_BYTES), ceil(len(listed) / _FEW_FILES))
    return rows.coalesce(tasks)


def in_end_layout(
    rows: DataFrame, steps: Sequence[Layout], kept: Sequence[str] = (ROW_ID, ROW_VERSION)
) -> DataFrame:
    """``rows`` of the first layout of ``steps`` with the columns of the last one.

    :param kept: the engine's own columns of ``rows``
    """
    for older, newer in pairwise(steps):
        if newer.fields != older.fields:
            columns = in_newer_schema(lambda name: F.col(quote(name)), newer.fields, older.fields)
            rows = rows.select(*columns, *kept)
    return rows
