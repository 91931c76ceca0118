"""Debezium's messages as changes of an upsert table."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...core.debezium.envelope import CHANGE, FAULT, POSITION, Op, PayloadOptions, is_unavailable
from ...core.names import quote, text_value
from ...core.upserts.definition import (
    CHANGE_SEQUENCE_NUMBER,
    CHANGE_TYPE,
    CHANGE_UNCHANGED,
    UpsertTable,
)
from ..debezium.decoding import decoded
from ..tables.sql_types import columns_of


def changes_of_messages(table: UpsertTable, rows: DataFrame, options: PayloadOptions) -> DataFrame:
    """The changes in rows that hold messages about ``table``.

    A message that is not a change of a row says so in the place of its type, so the rules for bad
    rows apply to it.

    :raises InvalidRequest: the rows hold no messages, or their order is not known
    """
    subject = f"changes of {table.name}"
    found = decoded(rows, options, subject, schema=lambda: table.columns, is_numbered=True)
    kept = []
    for column in columns_of(found.drop(CHANGE, POSITION, FAULT).schema):
        condition = is_unavailable(quote(column.name), column.type, options.unavailable_value)
        if condition is not None:
            kept.append(f"if({condition}, {text_value(column.name)}, NULL)")
    unchanged = f"array_compact(CAST(array({', '.join(kept)}) AS ARRAY<STRING>))"
    refused = ""
    if not table.has_partial_changes:
        why = "' unchanged, which needs a table with partial_changes'"
        names = f"array_join({CHANGE_UNCHANGED}, ', ')"
        refused = f" WHEN size({CHANGE_UNCHANGED}) > 0 THEN concat('it leaves ', {names}, {why})"
    kind = (
        f"coalesce({FAULT}, CASE WHEN {POSITION} IS NULL THEN 'its position is NULL'"
        f" WHEN {CHANGE} = '{Op.TRUNCATE}' THEN 'it is a truncate'"
        f" WHEN {CHANGE} = '{Op.DELETE}' THEN 'DELETE'{refused} ELSE 'UPSERT' END)"
    )
    changes = (
        found.withColumn(CHANGE_UNCHANGED, F.expr(unchanged))
        .withColumn(CHANGE_TYPE, F.expr(kind))
        .withColumnRenamed(POSITION, CHANGE_SEQUENCE_NUMBER)
        .drop(CHANGE, FAULT)
    )
    return changes if table.has_partial_changes else changes.drop(CHANGE_UNCHANGED)
