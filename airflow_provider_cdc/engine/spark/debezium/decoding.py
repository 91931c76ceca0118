"""Debezium's messages as changes: the values of a row, what happened to it, and its position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.errors import AnalysisException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType, VariantType

from ...core.debezium.envelope import (
    AFTER,
    BAD,
    BEFORE,
    CHANGE,
    FAULT,
    OP,
    POSITION,
    UPSERTS,
    Op,
    PayloadOptions,
)
from ...core.debezium.wire_types import WireColumn, unfit
from ...core.errors import InvalidRequest
from ...core.names import first_alike, quote, text_value
from ..session.failures import first_line, raised_text
from .messages import Envelopes, KnownColumns, envelopes_of


def decoded(
    rows: DataFrame,
    options: PayloadOptions,
    subject: str,
    *,
    kept: Sequence[str] = (),
    schema: KnownColumns,
    is_numbered: bool = False,
) -> DataFrame:
    """The changes in rows that hold messages.

    Tombstones, and messages that are about no row, are left out.

    :param kept: the columns beside the messages that the result has too
    :param schema: returns the columns of the table, if they are known: messages may not say them
    :param is_numbered: whether positions are sequence numbers of an upsert table
    :returns: the columns of the table, :data:`CHANGE`, :data:`POSITION`, :data:`FAULT` and those
        to keep. A delete has the values before it
    :raises InvalidRequest: the rows hold no messages, nothing says the columns of the table, or the
        order of the changes is not known
    """
    found = envelopes_of(rows, kept, subject, schema)
    position = _position(found, options, subject, is_numbered=is_numbered)
    names = [column.name for column in found.columns]
    if alike := first_alike(names):
        raise InvalidRequest(
            subject,
            f"cannot have the columns {alike[0]} and {alike[1]} of its messages",
            cause="Spark treats them as the same column",
            fix="leave one out with Debezium's column.exclude.list",
        )
    raw = [
        F.expr(_value(found.rows, column)).alias(f"_cdc_v{number}")
        for number, column in enumerate(found.columns)
    ]
    read = found.rows.where(f"NOT ({OP} <=> '{Op.MESSAGE}')").select(
        *map(quote, kept), *raw, F.col(OP).alias(CHANGE), position, _fault().alias(FAULT)
    )
    values, faults = [], [F.col(FAULT)]
    for number, column in enumerate(found.columns):
        raw_value, kind = f"_cdc_v{number}", column.type.type
        value = column.type.of(raw_value)
        values.append(F.expr(value).cast(kind).alias(column.name))
        if column.type.is_converted:
            why = f"concat({text_value(f'its {column.name} is wrong: ')}, {unfit(raw_value, kind)})"
            faults.append(F.expr(f"if({raw_value} IS NOT NULL AND ({value}) IS NULL, {why}, NULL)"))
    fault = F.coalesce(*faults).alias(FAULT)
    return read.select(*map(quote, kept), *values, CHANGE, POSITION, fault)


@contextmanager
def named_values(subject: str) -> Iterator[None]:
    """Name the value of a message that stopped a job.

    :raises InvalidRequest: a value is not one of its type
    """
    try:
        yield
    except Exception as error:  # pyspark has no classes for errors of the JVM
        bad = raised_text(error, BAD)
        if bad is None:
            raise
        raise InvalidRequest(
            subject,
            "cannot read a Debezium message, nothing was written",
            cause=bad,
            fix="declare the column with the type that the messages have, such as BIGINT for a"
            " number of microseconds",
        ) from None


def _value(rows: DataFrame, column: WireColumn) -> str:
    """A column of the row that a message is about, as SQL."""

    def of(side: str) -> str:
        kind, value = rows.schema[side].dataType, f"{side}.{quote(column.name)}"
        if not isinstance(kind, StructType) or column.name not in kind.names:
            return "NULL"
        # A null of JSON is a value of VARIANT.
        is_variant = isinstance(kind[column.name].dataType, VariantType)
        return f"if(is_variant_null({value}), NULL, {value})" if is_variant else value

    return f"if({OP} = '{Op.DELETE}', {of(BEFORE)}, {of(AFTER)})"


def _fault() -> SparkColumn:
    """Why a message cannot be used; NULL if it can."""
    upserts = ", ".join(f"'{op}'" for op in UPSERTS)
    known = f"{upserts}, '{Op.DELETE}', '{Op.TRUNCATE}'"
    return F.expr(
        f"coalesce({FAULT}, CASE WHEN {OP} IS NULL THEN 'its op is NULL'"
        f" WHEN {OP} NOT IN ({known}) THEN concat('its op is ', {OP})"
        f" WHEN {OP} IN ({upserts}) AND {AFTER} IS NULL THEN 'its after is NULL'"
        f" WHEN {OP} = '{Op.DELETE}' AND {BEFORE} IS NULL THEN 'its before is NULL' END)"
    )


def _position(
    found: Envelopes, options: PayloadOptions, subject: str, *, is_numbered: bool
) -> SparkColumn:
    if options.sequence is not None:
        text = options.sequence
    elif found.position is not None:
        position = found.position
        text = position.sequence_number if is_numbered else position.sequence
    elif found.is_empty:
        return F.lit(None).alias(POSITION)
    else:
        example = "hex(source.ts_ms)" if is_numbered else "source.ts_ms"
        raise InvalidRequest(
            subject,
            "cannot know the order of its Debezium messages",
            cause="their source has no position that is known, or several connectors wrote them",
            fix=f"pass sequence_by='{example}', or another expression that grows with each change"
            " of a row",
        )
    column = F.expr(text).alias(POSITION)
    try:
        found.rows.select(column).schema  # noqa: B018 - Spark checks the expression here
    except AnalysisException as error:
        raise InvalidRequest(
            subject,
            "cannot use this sequence_by",
            cause=first_line(error),
            fix="correct sequence_by: with payload='debezium' it is an SQL expression over before,"
            " after, op, source and ts_ms",
        ) from None
    return column
