"""The rows of a source as events: what each says about its key, and in which order."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, DoubleType, FloatType, StructType

from ...core.debezium.envelope import CHANGE, FAULT, Op
from ...core.history.events import BAD, KIND, ORDER, REASON, SEQUENCE, Kind
from ...core.history.options import OnNull
from ...core.history.shape import HistoryShape
from ...core.names import name_key, quote
from ..change_sets.columns import parts_of
from ..tables.store_assignment import StoreAssignment
from .history_target import HistoryTarget
from .source_rows import SourceRows, check_analysed

_PARTNER = "_cdc_partner"


def events(spark: SparkSession, source: SourceRows, target: HistoryTarget) -> DataFrame:
    """The events in the rows of ``source``, with the columns of ``target``.

    :raises InvalidRequest: Spark refuses an expression, or the target cannot store a type
    """
    rows, options, shape = source.rows, target.options, target.shape
    for argument, text in (
        ("apply_as_deletes", options.apply_as_deletes),
        ("apply_as_truncates", options.apply_as_truncates),
    ):
        if text is not None:
            check_analysed(rows, text, argument, target.subject)
    added = {SEQUENCE: source.sequence(options), KIND: source.kind(options), ORDER: source.order}
    rows = rows.withColumns(added)
    if options.sequence_by and source.shows_updates:
        rows = _without_old_values(source, rows, shape)
    sequence = F.expr(f"CAST({SEQUENCE} AS {shape.sequence_type})").alias(SEQUENCE)
    fault = _fault(target) if source.is_decoded else F.lit(None).cast("string")
    stored = stored_columns(spark, rows, target, is_exact=source.is_decoded)
    rows = rows.select(*stored, sequence, KIND, ORDER, fault.alias(REASON))
    bad = F.coalesce(REASON, _bad(rows, shape))
    return rows.withColumn(REASON, refusing(bad) if options.on_null is OnNull.FAIL else bad)


def _fault(target: HistoryTarget) -> Column:
    """Why a decoded message cannot be used; NULL if it can."""
    if target.shape.has_truncates:
        return F.col(FAULT)
    why = F.lit("it is a truncate, which deleted='row' cannot show")
    return F.coalesce(FAULT, F.when(F.col(CHANGE) == Op.TRUNCATE.value, why))


def _without_old_values(source: SourceRows, rows: DataFrame, shape: HistoryShape) -> DataFrame:
    """The rows without the old values of updates. If an update gave its row another key, the old
    key is deleted with the sequence of the update.
    """
    is_update, is_old = F.expr(source.is_update), F.expr(source.is_old)
    key = F.struct(*(F.col(quote(name)).alias(name) for name in shape.keys))
    updated = rows.where(is_update)
    new = F.struct(key.alias("key"), F.col(SEQUENCE).alias("sequence"))
    by_row = ", ".join(map(quote, source.row))
    partner = F.expr(f"max({_PARTNER}) OVER (PARTITION BY {by_row})")
    paired = updated.withColumn(_PARTNER, F.when(~is_old, new)).withColumn(_PARTNER, partner)
    moved = paired.where(is_old & ~key.eqNullSafe(F.col(f"{_PARTNER}.key"))).withColumns(
        {SEQUENCE: F.col(f"{_PARTNER}.sequence"), KIND: F.lit(Kind.DELETE.value)}
    )
    return rows.where(~(is_update & is_old)).unionByName(moved.drop(_PARTNER))


def _unrounded(name: str, value: Column, stored: Column) -> Column:
    """A decimal as it is stored, but the job ends if that rounds it."""
    why = F.concat(F.lit(f"{BAD}{name} has room for fewer digits than "), value.cast("string"))
    return F.when(stored.eqNullSafe(value), stored).otherwise(F.raise_error(why))


def stored_columns(
    spark: SparkSession, rows: DataFrame, target: HistoryTarget, *, is_exact: bool = False
) -> list[Column]:
    """The columns of ``rows`` with the names and the types of the target.

    :param is_exact: a decimal with more digits than the target has ends the job. Delta rounds it

    :raises InvalidRequest: the target cannot store a type
    """
    assignment = StoreAssignment(
        spark,
        target.subject,
        "cannot hold the columns of its source",
        "leave the column out with except_column_list, or convert it by a query",
    )
    given = {name_key(field.name): field for field in rows.schema.fields}
    wanted = {name_key(field.name): field for field in target.schema.fields}
    columns = []
    for name in target.shape.data:
        field = wanted[name_key(name)]
        found = given.get(name_key(name))
        if found is None:
            # The source dropped it.
            columns.append(F.lit(None).cast(field.dataType).alias(name))
        else:
            value = F.col(quote(found.name))
            stored = assignment.column(value, found.dataType, field)
            if is_exact and isinstance(found.dataType, DecimalType):
                stored = _unrounded(name, value, stored)
            columns.append(stored.alias(name))
    return columns


def bad_key(shape: HistoryShape) -> Column:
    """Why a row has no key; NULL if it has one."""
    found = F.lit(None).cast("string")
    for name in reversed(shape.keys):
        why = F.lit(f"its key column {name} is NULL")
        found = F.when(F.col(quote(name)).isNull(), why).otherwise(found)
    return found


def refusing(bad: Column) -> Column:
    """``bad``, but the job ends if it is not NULL."""
    stop = F.raise_error(F.concat(F.lit(BAD), bad)).cast("string")
    return F.when(bad.isNotNull(), stop)


def _bad(rows: DataFrame, shape: HistoryShape) -> Column:
    """Why an event cannot be applied; NULL if it can."""
    kind = rows.schema[SEQUENCE].dataType
    nulls = F.col(SEQUENCE).isNull()
    parts = {"": kind}
    if isinstance(kind, StructType):
        parts = {f".{quote(field.name)}": field.dataType for field in kind.fields}
    for name, part in parts.items():
        value = F.col(f"{SEQUENCE}{name}")
        nulls = nulls | value.isNull()
        if any(isinstance(each, (FloatType, DoubleType)) for each in parts_of(part)):
            nulls = nulls | F.isnan(value)
    is_row = F.col(KIND) != Kind.TRUNCATE.value
    return F.when(nulls, F.lit("its sequence is NULL")).when(is_row, bad_key(shape))
