"""Writing changes: checked row by row in the one pass that writes them, or nothing is written."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ...core.errors import InvalidRequest
from ...core.names import quote
from ...core.upserts.definition import (
    CHANGE_SEQUENCE_NUMBER,
    CHANGE_TYPE,
    UpsertTable,
    is_reserved,
)
from ...core.upserts.texts import (
    BATCH,
    INGESTED_AT,
    ORDER,
    SEQUENCE,
    SEQUENCE_PATTERN,
    padded_sequence,
)
from .types import sql_type

_MARK = "cdc-invalid-change"
_FOUND = re.compile(rf"{_MARK}<(.*?)>{_MARK}", re.DOTALL)
_TYPES = "UPSERT or DELETE"


def write_changes(
    table: UpsertTable, rows: DataFrame, *, transaction: tuple[str, int] | None = None
) -> None:
    """Append ``rows`` to the changes that wait for ``table``; see ``Engine.write_changes``.

    :param transaction: an id of a writer and a number that grows: the same again writes nothing
    """
    checked = _checked(table, rows)
    writer = checked.write.format("delta").mode("append")
    if transaction is not None:
        application, version = transaction
        writer = writer.option("txnAppId", application).option("txnVersion", version)
    try:
        writer.save(table.changes)
    except Exception as error:
        # Classic Spark and Spark Connect have different classes for a job that fails.
        found = _FOUND.search(str(error))
        if found is None:
            raise
        raise _refused(table, *found[1].split("|", 1)) from None


def change_sink(table: Callable[[], UpsertTable], query: str) -> Callable[[DataFrame, int], None]:
    """What ``foreachBatch`` of a streaming query calls; a batch that comes again writes nothing.

    :param table: looks the table up, which may be another one when a later batch comes
    :param query: tells the query from others that write to the same table
    """

    def write(rows: DataFrame, batch_id: int) -> None:
        write_changes(table(), rows, transaction=(f"changes/{query}", batch_id))

    return write


def _checked(table: UpsertTable, rows: DataFrame) -> DataFrame:
    """The rows as they are kept, each of them checked where it is computed."""
    given = _given(table, rows)
    has_number = CHANGE_SEQUENCE_NUMBER.casefold() in given
    change_type = F.col(quote(given[CHANGE_TYPE.casefold()]))
    number = F.col(quote(given[CHANGE_SEQUENCE_NUMBER.casefold()])) if has_number else F.lit(None)
    columns = []
    for column in table.columns:
        found = given.get(column.name.casefold())
        value = F.lit(None) if found is None else F.col(quote(found))
        columns.append(value.cast(column.type).alias(column.name))
    shaped = rows.select(
        *columns,
        change_type.alias(CHANGE_TYPE),
        number.cast("string").alias(CHANGE_SEQUENCE_NUMBER),
    )
    return shaped.withColumn(CHANGE_TYPE, _checked_type(table)).select(
        "*",
        F.expr(padded_sequence()).alias(SEQUENCE),
        F.lit(uuid.uuid4().hex).alias(BATCH),
        F.monotonically_increasing_id().alias(ORDER),
        F.current_timestamp().alias(INGESTED_AT),
    )


def _checked_type(table: UpsertTable) -> Column:
    """The change's type, or the end of the job that was to write it."""
    row = F.to_json(
        F.struct(*map(quote, (*table.primary_key, CHANGE_TYPE, CHANGE_SEQUENCE_NUMBER))),
        {"ignoreNullFields": "false"},
    )
    type_, number = F.col(CHANGE_TYPE), F.col(CHANGE_SEQUENCE_NUMBER)
    no_key = " OR ".join(f"{quote(name)} IS NULL" for name in table.primary_key)
    return (
        F.when(~F.coalesce(type_.isin("UPSERT", "DELETE"), F.lit(False)), _stop("type", row))
        .when(F.expr(no_key), _stop("key", row))
        .when(number.isNotNull() & ~number.rlike(SEQUENCE_PATTERN), _stop("number", row))
        .otherwise(type_)
    )


def _stop(rule: str, row: Column) -> Column:
    # The cast gives the branch, which returns nothing, the type of the others.
    message = F.concat(F.lit(f"{_MARK}<{rule}|"), row, F.lit(f">{_MARK}"))
    return F.raise_error(message).cast("string")


def _given(table: UpsertTable, rows: DataFrame) -> dict[str, str]:
    """The columns of ``rows``, by their names in lower case.

    :raises InvalidRequest: they do not fit the table
    """
    given = {name.casefold(): name for name in rows.columns}
    known = {column.name.casefold() for column in table.columns}
    pseudo = (CHANGE_TYPE.casefold(), CHANGE_SEQUENCE_NUMBER.casefold())
    if len(given) < len(rows.columns):
        raise _unfit(table, "hold a column twice", f"found {', '.join(rows.columns)}")
    if CHANGE_TYPE.casefold() not in given:
        raise _unfit(table, f"lack the column {CHANGE_TYPE}", f"it says of each row {_TYPES}")
    for name in table.primary_key:
        if name.casefold() not in given:
            raise _unfit(table, f"lack the column {name}", "it is in the primary key")
    for name in given.values():
        if name.casefold() not in known and name.casefold() not in pseudo:
            cause = "it is the engine's own" if is_reserved(name) else "the table has none"
            raise _unfit(table, f"hold a column {name}", cause)
    types = {field.name.casefold(): sql_type(field.dataType) for field in rows.schema.fields}
    for column in table.columns:
        found = types.get(column.name.casefold())
        if found is not None and not _fits(found, column.type):
            raise _unfit(table, f"hold {column.name} as {found}", f"expected {column.type}")
    return given


_WIDER = {
    "tinyint": ("smallint", "int", "bigint"),
    "smallint": ("int", "bigint"),
    "int": ("bigint",),
    "float": ("double",),
}


def _fits(given: str, expected: str) -> bool:
    """Whether every value of one type is one of the other, unchanged."""
    return given in (expected, "void") or expected in _WIDER.get(given, ())


def _unfit(table: UpsertTable, problem: str, cause: str) -> InvalidRequest:
    return InvalidRequest(
        f"changes of {table.name}",
        problem,
        cause=cause,
        fix="select the columns of the table, _CHANGE_TYPE and, if there is an order,"
        " _CHANGE_SEQUENCE_NUMBER; nothing was written",
    )


def _refused(table: UpsertTable, rule: str, row: str) -> InvalidRequest:
    problem, cause, fix = {
        "type": (
            "hold a row of another type",
            f"The given value is not a valid CHANGE_TYPE: expected {_TYPES}",
            f"write {_TYPES} in every row; where a key changes, DELETE the old and UPSERT the new",
        ),
        "key": ("hold a row without a key", "a column of the primary key is NULL", "name the key"),
        "number": (
            "hold a malformed sequence number",
            "expected 1 to 4 sections of 1 to 16 hexadecimal digits, with / between them",
            "write a number such as 18F2EBB6480/7B",
        ),
    }[rule]
    return InvalidRequest(
        f"changes of {table.name}",
        problem,
        cause=f"{cause}; found {row}",
        fix=f"{fix}; nothing was written",
    )
