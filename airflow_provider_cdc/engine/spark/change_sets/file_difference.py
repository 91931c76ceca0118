"""Change sets that are read from the files in which the two ends of a range differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ...core.change_sets.crafted_log import ListedFile, bytes_of
from .netting import NEW, OLD, changes_of, same_values
from .row_columns import BUCKET, CANDIDATES, ROW_ID, ROW_VERSION, Sides, in_one, to_group

# If one side has at most this many bytes of files, its rows fit into the memory of a few tasks.
HASHED_BYTES = 64 << 20
_BUCKET_BITS = 6
IDS_IN_A_MASK = 1 << _BUCKET_BITS
# The bucket of a row id, and its bit in the mask of that bucket.
BUCKET_OF = f"shiftright({ROW_ID}, {_BUCKET_BITS})"
BIT = f"shiftleft(1L, CAST({ROW_ID} & {IDS_IN_A_MASK - 1} AS INT))"


def without_carried_over(sides: Sides, written: str) -> Sides:
    """``sides`` without most rows that were only carried into another file.

    Only the row ids and commit versions decide which rows to read: rows of one side only, and rows
    that the range wrote. One number covers 64 neighbouring ids, so Spark shuffles almost nothing.
    Spark reads the columns only for the rows that are left.

    :param sides: both sides, without rows that came back with an old commit version
    :param written: the condition that the range wrote a row of the new side
    """
    old, new = sides.old, sides.new
    if old is None or new is None:
        return sides
    bucket = f"{BUCKET_OF} AS {BUCKET}"
    is_written = f"CASE WHEN {written} THEN {BIT} ELSE 0L END"
    ids = old.selectExpr(bucket, f"{BIT} AS {OLD}", f"0L AS {NEW}", "0L AS written").union(
        new.selectExpr(bucket, f"0L AS {OLD}", f"{BIT} AS {NEW}", f"{is_written} AS written")
    )
    candidates = F.expr(f"bit_or({OLD}) ^ bit_or({NEW}) | bit_or(written) AS {CANDIDATES}")
    masks = ids.groupBy(BUCKET).agg(candidates).where(f"{CANDIDATES} <> 0")
    # Spark pushes a semi join into each part of a union, so that no other row is assembled.
    is_wanted = F.expr(f"{BUCKET_OF} = {BUCKET} AND {CANDIDATES} & {BIT} <> 0")

    def left(side: DataFrame) -> DataFrame:
        return side.join(F.broadcast(masks), is_wanted, "left_semi")

    return replace(sides, old=left(old), new=left(new))


def netted(sides: Sides, listed: Sequence[ListedFile], kind: StructType) -> DataFrame:
    """The net changes between the rows of both sides, which the files ``listed`` hold.

    :param sides: both sides
    :param kind: the type of a row
    """
    assert sides.old is not None
    assert sides.new is not None

    def named(side: DataFrame, name: str) -> DataFrame:
        return to_group(side, listed).selectExpr(
            ROW_ID, f"{in_one(kind.names)} AS {name}", f"{ROW_VERSION} AS {name}_version"
        )

    old, new = named(sides.old, OLD), named(sides.new, NEW)
    if sides.is_remade:
        # Spark forgets the length of a CHAR if two types differ only in the metadata of their
        # fields.
        old = old.withColumn(OLD, F.col(OLD).cast(new.schema[NEW].dataType))
    if bytes_of(listed) <= HASHED_BYTES:
        new = new.hint("shuffle_hash")
    # A row that was only carried over keeps its commit version. RESTORE brings old versions back,
    # so the two versions are compared with each other and not with the offset.
    carried_over = F.expr("old_version = new_version")
    return changes_of(
        old.join(new, ROW_ID, "full_outer"),
        "old_version IS NOT NULL",
        "new_version IS NOT NULL",
        carried_over | same_values(kind),
    )
