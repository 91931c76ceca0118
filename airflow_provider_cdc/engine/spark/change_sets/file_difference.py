"""Change sets by the files in which the two ends of a range differ."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ...core.crafted_log import SIDE_COLUMN, ListedFile, Side
from .netting import DELETE, INSERT, NEW, OLD, all_changes, changes_of, same_values
from .rows import ROW, ROW_ID, ROW_VERSION

_BUCKET_BITS = 6
IDS_IN_A_MASK = 1 << _BUCKET_BITS
_BUCKET, _CANDIDATES = "bucket", "candidates"


def without_carried_over(sides: DataFrame, offset_version: int) -> DataFrame:
    """``sides`` without most rows that were only carried into another file.

    The row ids alone tell which rows to look at: those of one side only, and those that a commit
    after the offset wrote. Sixty-four neighbouring ids make one number, so that next to nothing is
    shuffled; the columns are read for the rows that are left.

    :param sides: with the side, row id, row commit version and row; nothing in it came back with
        an old commit version
    """
    bucket = F.shiftright(ROW_ID, _BUCKET_BITS).alias(_BUCKET)
    bit = F.expr(f"shiftleft(1L, CAST({ROW_ID} & {IDS_IN_A_MASK - 1} AS INT))")
    is_old = F.col(SIDE_COLUMN) == Side.OLD.value
    is_written = ~is_old & (F.col(ROW_VERSION) > offset_version)

    def ids(condition: Column) -> Column:
        return F.bit_or(F.when(condition, bit).otherwise(F.lit(0).cast("long")))

    candidates = ids(is_old).bitwiseXOR(ids(~is_old)).bitwiseOR(ids(is_written))
    wanted = sides.groupBy(bucket).agg(candidates.alias(_CANDIDATES))
    wanted = wanted.where(F.col(_CANDIDATES) != 0)
    rows = sides.withColumn(_BUCKET, bucket).join(F.broadcast(wanted), _BUCKET)
    return rows.where(F.col(_CANDIDATES).bitwiseAND(bit) != 0).select(*sides.columns)


def netted_sides(sides: DataFrame, listed: Sequence[ListedFile]) -> DataFrame:
    """The net changes from the rows of both sides, which the files ``listed`` hold.

    :param sides: with the side, row id, row commit version and row
    """
    present = {file.side for file in listed}
    if present == {Side.NEW}:
        return all_changes(sides, INSERT)
    if present == {Side.OLD}:
        return all_changes(sides, DELETE)

    def of(side: Side, column: str) -> Column:
        return F.first(F.when(F.col(SIDE_COLUMN) == side.value, F.col(column)), ignorenulls=True)

    pairs = sides.groupBy(ROW_ID).agg(
        of(Side.OLD, ROW).alias(OLD),
        of(Side.NEW, ROW).alias(NEW),
        of(Side.OLD, ROW_VERSION).alias("old_version"),
        of(Side.NEW, ROW_VERSION).alias("new_version"),
    )
    # A row that was only carried over keeps its commit version; RESTORE brings old versions back,
    # so they are compared for equality and not with the offset.
    carried_over = F.col("old_version") == F.col("new_version")
    return changes_of(
        pairs,
        F.col("old_version").isNotNull(),
        F.col("new_version").isNotNull(),
        carried_over | same_values(sides.schema[ROW].dataType),
    )
