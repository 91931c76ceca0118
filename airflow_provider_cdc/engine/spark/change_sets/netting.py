"""Turns the old and the new state of a row into its changes."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from .columns import comparable
from .row_columns import ROW, ROW_ID

ACTION, IS_UPDATE = "action", "is_update"
OLD, NEW = "old", "new"
INSERT, DELETE = "INSERT", "DELETE"


def changes_of(pairs: DataFrame, was: str, is_now: str, unchanged: Column) -> DataFrame:
    """Changes with the columns action, is_update, row and row_id.

    Snowflake: an update is a DELETE and an INSERT with is-update true. A row that did not exist at
    the offset is one INSERT. A row that no longer exists is one DELETE with its values at the
    offset.

    :param pairs: one row for each row id, with the structs ``old`` and ``new``
    :param was: the condition that a row existed at the offset
    :param is_now: the condition that a row exists at the end
    :param unchanged: whether both structs of the pair are certainly equal
    """
    is_change, is_both = F.expr(f"({was}) OR ({is_now})"), F.expr(f"({was}) AND ({is_now})")
    inserted, deleted = _record(INSERT, False, NEW), _record(DELETE, False, OLD)
    updated = f"{_record(DELETE, True, OLD)}, {_record(INSERT, True, NEW)}"
    changes = (
        f"inline(CASE WHEN NOT ({was}) THEN array({inserted})"
        f" WHEN NOT ({is_now}) THEN array({deleted}) ELSE array({updated}) END)"
    )
    return pairs.where(is_change & ~(is_both & unchanged)).selectExpr(ROW_ID, changes)


def same_values(kind: DataType) -> Column:
    """Whether ``old`` and ``new`` of a pair, both of type ``kind``, hold the same values."""
    old, new = (comparable(F.col(end), kind, end) for end in (OLD, NEW))
    return old.eqNullSafe(new)


def all_changes(rows: DataFrame, action: str) -> DataFrame:
    """Each of ``rows`` as one change that is not an update."""
    return rows.selectExpr(ROW_ID, f"'{action}' AS {ACTION}", f"false AS {IS_UPDATE}", ROW)


def _record(action: str, is_update: bool, side: str) -> str:
    return (
        f"named_struct('{ACTION}', '{action}', '{IS_UPDATE}', {str(is_update).lower()},"
        f" '{ROW}', {side})"
    )
