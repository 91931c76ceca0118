"""From what a row was and is to its changes."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from .columns import comparable
from .rows import ROW, ROW_ID

ACTION, IS_UPDATE = "action", "is_update"
OLD, NEW = "old", "new"
INSERT, DELETE = "INSERT", "DELETE"


def changes_of(pairs: DataFrame, was: Column, is_now: Column, unchanged: Column) -> DataFrame:
    """Changes of action, is_update, row and row_id.

    Seed 000: an update is a DELETE and an INSERT with is-update true; a row that was not there at
    the offset is one INSERT, one that is no longer there a DELETE of what it was at the offset.

    :param pairs: one row for each row id, with the structs ``old`` and ``new``
    :param was: whether the row was there at the offset
    :param is_now: whether it is there at the end
    :param unchanged: whether the pair certainly differs in nothing
    """
    changed = pairs.where((was | is_now) & ~(was & is_now & unchanged))
    records = (
        F.when(~was, F.array(_record(INSERT, False, NEW)))
        .when(~is_now, F.array(_record(DELETE, False, OLD)))
        .otherwise(F.array(_record(DELETE, True, OLD), _record(INSERT, True, NEW)))
    )
    return changed.select(ROW_ID, F.explode(records).alias("change")).select("change.*", ROW_ID)


def same_values(kind: DataType) -> Column:
    """Whether ``old`` and ``new`` of a pair, both of type ``kind``, hold the same values."""
    return comparable(F.col(OLD), kind).eqNullSafe(comparable(F.col(NEW), kind))


def all_changes(rows: DataFrame, action: str) -> DataFrame:
    """Each of ``rows`` as one change that is no update."""
    return rows.select(F.lit(action).alias(ACTION), F.lit(False).alias(IS_UPDATE), ROW, ROW_ID)


def _record(action: str, is_update: bool, side: str) -> Column:
    return F.struct(
        F.lit(action).alias(ACTION),
        F.lit(is_update).alias(IS_UPDATE),
        F.col(side).alias(ROW),
    )
