"""Write changes: one pass checks and writes the rows. If it refuses a row, it writes nothing."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ...core.debezium.envelope import PayloadOptions
from ...core.errors import InvalidRequest
from ...core.names import name_key, quote
from ...core.upserts.change_rows import (
    BATCH,
    INGESTED_AT,
    ORDER,
    REASON,
    SEQUENCE,
    SINCE,
    Reason,
    reason,
)
from ...core.upserts.definition import (
    CHANGE_SEQUENCE_NUMBER,
    CHANGE_TYPE,
    CHANGE_UNCHANGED,
    UpsertTable,
    is_reserved,
)
from ...core.upserts.sequence_numbers import padded_sequence
from ..debezium.decoding import named_values
from ..session.idempotent_writes import plain_write
from ..tables.log_stores import warn_of_one_driver
from ..tables.sql_types import sql_type
from .payloads import changes_of_messages

_MARK = "cdc-invalid-change"
_FOUND = re.compile(rf"{_MARK}<(.*?)>{_MARK}", re.DOTALL)


def write_changes(
    table: UpsertTable,
    rows: DataFrame,
    *,
    transaction: tuple[str, int] | None = None,
    quarantines: bool = False,
    messages: PayloadOptions | None = None,
) -> str:
    """Append ``rows`` to the waiting changes of ``table``; see ``Engine.write_changes``.

    Returns the id of the batch, which is also the user metadata of the commit.

    :param transaction: the id of a writer and a number that grows; a second write with the same
        pair writes nothing
    :param quarantines: write bad rows too, each with its reason; otherwise a bad row makes the
        write fail
    :param messages: how ``rows`` are read, if they hold messages
    :raises InvalidRequest: a column does not fit the table, or a row is bad and ``quarantines`` is
        false; nothing was written
    """
    batch = uuid.uuid4().hex
    if messages is not None:
        rows = changes_of_messages(table, rows, messages)
    judged = _judged(table, _shaped(table, rows), stops=not quarantines).select(
        "*",
        F.lit(batch).alias(BATCH),
        F.monotonically_increasing_id().alias(ORDER),
        F.current_timestamp().alias(INGESTED_AT),
    )
    _append(table, judged, transaction, mark=batch, are_messages=messages is not None)
    return batch


def write_again(table: UpsertTable, rows: DataFrame, redrive: str) -> None:
    """Append rows that come back from quarantine, at their former places.

    A second call with the same ``redrive`` writes nothing.

    :param redrive: the id of the mark of these rows
    :raises InvalidRequest: one of them is bad; nothing was written
    """
    names = [quote(column.name) for column in table.columns]
    pseudo = (CHANGE_TYPE, CHANGE_SEQUENCE_NUMBER, CHANGE_UNCHANGED)
    kept = rows.select(*names, *pseudo, BATCH, ORDER, INGESTED_AT, SINCE)
    _append(table, _judged(table, kept, stops=True), (f"redrive/{redrive}", 0), mark=redrive)


def change_sink(
    table: Callable[[], UpsertTable],
    query: str,
    *,
    quarantines: bool = False,
    messages: PayloadOptions | None = None,
) -> Callable[[DataFrame, int], None]:
    """Return the function that ``foreachBatch`` of a streaming query calls.

    A batch that is repeated writes nothing.

    :param table: looks up the table for each batch; a later batch may find another table
    :param query: distinguishes the query from others that write to the same table
    :param quarantines: as for :func:`write_changes`
    :param messages: as for :func:`write_changes`
    """

    def write(rows: DataFrame, batch_id: int) -> None:
        transaction = (f"changes/{query}", batch_id)
        write_changes(
            table(), rows, transaction=transaction, quarantines=quarantines, messages=messages
        )

    return write


def _append(
    table: UpsertTable,
    rows: DataFrame,
    transaction: tuple[str, int] | None,
    *,
    mark: str,
    are_messages: bool = False,
) -> None:
    warn_of_one_driver(rows.sparkSession, table.changes)
    writer = rows.write.format("delta").mode("append").option("userMetadata", mark)
    if transaction is not None:
        application, version = transaction
        writer = writer.option("txnAppId", application).option("txnVersion", version)
    with named_values(f"changes of {table.name}"):
        try:
            with plain_write(rows.sparkSession):
                writer.save(table.changes)
        except Exception as error:
            # Classic Spark and Spark Connect raise errors of different classes when a job fails.
            found = _FOUND.search(str(error))
            if found is None:
                raise
            raise _refused(table, *found[1].split("|", 1), are_messages=are_messages) from None


def _shaped(table: UpsertTable, rows: DataFrame) -> DataFrame:
    """The rows with the columns of the table, and the pseudo-columns."""
    given = _given(table, rows)
    columns = []
    for column in table.columns:
        found = given.get(name_key(column.name))
        value = F.lit(None) if found is None else F.col(quote(found))
        columns.append(value.cast(column.type).alias(column.name))
    return rows.select(
        *columns,
        F.col(quote(given[name_key(CHANGE_TYPE)])).alias(CHANGE_TYPE),
        _pseudo(given, CHANGE_SEQUENCE_NUMBER).cast("string").alias(CHANGE_SEQUENCE_NUMBER),
        _pseudo(given, CHANGE_UNCHANGED).cast("array<string>").alias(CHANGE_UNCHANGED),
    )


def _pseudo(given: Mapping[str, str], name: str) -> Column:
    found = given.get(name_key(name))
    return F.lit(None) if found is None else F.col(quote(found))


def _judged(table: UpsertTable, rows: DataFrame, *, stops: bool) -> DataFrame:
    """The rows, each with its padded sequence number and the reason why it is bad.

    :param stops: a bad row ends the job that writes it
    """
    # Spark compares the names of columns without case.
    unchanged = F.transform(CHANGE_UNCHANGED, F.lower)
    judged = rows.withColumn(REASON, F.expr(reason(table))).withColumn(CHANGE_UNCHANGED, unchanged)
    is_good = F.col(REASON).isNull()
    if stops:
        checked = F.when(is_good, F.col(CHANGE_TYPE)).otherwise(_stop(table))
        judged = judged.withColumn(CHANGE_TYPE, checked)
    padded = F.when(is_good, F.expr(padded_sequence())).otherwise("")
    return judged.withColumn(SEQUENCE, padded)


def _stop(table: UpsertTable) -> Column:
    """The expression that ends the job with an error that names the row and the reason."""
    named = [*table.primary_key, CHANGE_TYPE, CHANGE_SEQUENCE_NUMBER]
    if table.has_partial_changes:
        named.append(CHANGE_UNCHANGED)
    row = F.to_json(F.struct(*map(quote, named)), {"ignoreNullFields": "false"})
    found = F.concat(F.lit(f"{_MARK}<"), REASON, F.lit("|"), row, F.lit(f">{_MARK}"))
    # This branch returns nothing. The cast gives it the type of the other branch.
    return F.raise_error(found).cast("string")


def _given(table: UpsertTable, rows: DataFrame) -> dict[str, str]:
    """The columns of ``rows``, by their names in lower case.

    :raises InvalidRequest: they do not fit the table
    """
    given = {name_key(name): name for name in rows.columns}
    known = {name_key(column.name) for column in table.columns}
    pseudo = [name_key(CHANGE_TYPE), name_key(CHANGE_SEQUENCE_NUMBER)]
    if table.has_partial_changes:
        pseudo.append(name_key(CHANGE_UNCHANGED))
    if len(given) < len(rows.columns):
        raise _unfit(table, "hold a column twice", f"found {', '.join(rows.columns)}")
    if name_key(CHANGE_TYPE) not in given:
        raise _unfit(
            table, f"lack the column {CHANGE_TYPE}", "it has UPSERT or DELETE for each row"
        )
    for name in table.primary_key:
        if name_key(name) not in given:
            raise _unfit(table, f"lack the column {name}", "it is in the primary key")
    for name in given.values():
        if name_key(name) not in known and name_key(name) not in pseudo:
            raise _unfit(table, f"hold a column {name}", _why_not(name))
    types = {name_key(field.name): sql_type(field.dataType) for field in rows.schema.fields}
    expected = {column.name: column.type for column in table.columns}
    # A sequence number of a numeric type would be written as decimal and read as hexadecimal.
    pseudo_types = {CHANGE_SEQUENCE_NUMBER: "string", CHANGE_UNCHANGED: "array<string>"}
    for name, wanted in (expected | pseudo_types).items():
        found = types.get(name_key(name))
        # This is the type of an array without elements.
        is_empty = found == "array<void>" and wanted.startswith("array<")
        if found is not None and not is_empty and not _fits(found, wanted):
            raise _unfit(table, f"hold {name} as {found}", f"expected {wanted}")
    return given


def _why_not(name: str) -> str:
    if name_key(name) == name_key(CHANGE_UNCHANGED):
        return "the table was created without partial_changes"
    return "the engine reserves it" if is_reserved(name) else "the table has no such column"


_WIDER = {
    "tinyint": ("smallint", "int", "bigint"),
    "smallint": ("int", "bigint"),
    "int": ("bigint",),
    "float": ("double",),
}


def _fits(given: str, expected: str) -> bool:
    """Whether each value of the type ``given`` is also a value of ``expected``, unchanged."""
    return given in (expected, "void") or expected in _WIDER.get(given, ())


def _unfit(table: UpsertTable, problem: str, cause: str) -> InvalidRequest:
    return InvalidRequest(
        f"changes of {table.name}",
        problem,
        cause=cause,
        fix="select the columns of the table, _CHANGE_TYPE and, if there is an order,"
        " _CHANGE_SEQUENCE_NUMBER; nothing was written",
    )


_ADVICE = {
    Reason.TYPE: (
        f"hold a row with an invalid {CHANGE_TYPE}",
        "write UPSERT or DELETE in every row; if a key changes, DELETE the old and UPSERT the new",
    ),
    Reason.KEY: ("hold a row without a key", "give every row a key"),
    Reason.UNCHANGED: (
        f"list in {CHANGE_UNCHANGED} a name that is not a column of values",
        "name columns that are not in the primary key",
    ),
    Reason.NUMBER: ("hold a malformed sequence number", "write a number such as 18F2EBB6480/7B"),
}


def _refused(
    table: UpsertTable, rule: str, row: str, *, are_messages: bool = False
) -> InvalidRequest:
    problem, fix = _ADVICE[Reason(rule)]
    if are_messages and rule == Reason.TYPE:
        problem = "hold a message of Debezium that is not a change of a row"
        fix = "correct its source, leave it out with a query"
    return InvalidRequest(
        f"changes of {table.name}",
        problem,
        cause=f"{rule}; found {row}",
        fix=f"{fix}, or pass on_bad_rows='quarantine'; nothing was written",
    )
