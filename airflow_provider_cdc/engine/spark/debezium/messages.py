"""Rows that hold Debezium's messages, as rows of one form: an envelope."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from ...core.debezium.connect_schema import columns_of_schemas
from ...core.debezium.declared_types import declared_columns_of
from ...core.debezium.envelope import (
    AFTER,
    BEFORE,
    FAULT,
    FIELDS,
    OP,
    PAYLOAD,
    SOURCE,
    SOURCE_TYPE,
    VALUE,
    Op,
)
from ...core.debezium.positions import Position, position_of, position_with
from ...core.debezium.wire_types import WireColumn, plain, struct_of
from ...core.delta.columns import Column
from ...core.errors import InvalidRequest
from ...core.names import quote, text_value
from ..tables.sql_types import sql_type

KnownColumns = Callable[[], Sequence[Column] | None]
"""Returns the columns of a table; ``None``: nothing says them."""

_SCHEMA, _CONNECTOR, _MOMENT = "_cdc_schema", "_cdc_connector", "_cdc_moment"
_ENVELOPE, _CORRUPT = "_cdc_envelope", "_cdc_corrupt"
_UNREADABLE = "it is not a Debezium envelope in JSON"


@dataclass(frozen=True, slots=True)
class Envelopes:
    """Messages in one form.

    :param rows: the columns before, after, op, source and ts_ms of the envelopes, those that were
        wanted beside them, and :data:`FAULT`
    :param columns: the columns of the table that the messages are about
    :param position: what orders them; ``None``: it is not known
    :param is_empty: whether no row holds a readable message
    """

    rows: DataFrame
    columns: tuple[WireColumn, ...]
    position: Position | None
    is_empty: bool = False


def envelopes_of(
    rows: DataFrame, kept: Sequence[str], subject: str, schema: KnownColumns
) -> Envelopes:
    """The envelopes in ``rows``: in columns of their own, in one column, or as JSON in ``value``.

    :param kept: the columns beside them that the result has too
    :param schema: returns the columns of the table, if they are known: JSON may not say them
    :raises InvalidRequest: the rows hold no envelopes, or nothing says their columns
    """
    found = {field.name.lower(): field for field in rows.schema.fields if field.name not in kept}
    if _is_envelope(found):
        return _of_columns(rows, kept, rows.schema, "", subject)
    for name in (PAYLOAD, VALUE, *found):
        field = found.get(name)
        if field is None or not isinstance(field.dataType, StructType):
            continue
        inner = {each.name.lower(): each for each in field.dataType.fields}
        if _is_envelope(inner):
            return _of_columns(rows, kept, field.dataType, f"{quote(field.name)}.", subject)
        deeper = inner.get(PAYLOAD)
        if deeper is not None and isinstance(deeper.dataType, StructType):
            prefix = f"{quote(field.name)}.{quote(deeper.name)}."
            return _of_columns(rows, kept, deeper.dataType, prefix, subject)
    text = found.get(VALUE) or (next(iter(found.values())) if len(found) == 1 else None)
    if text is None or not isinstance(text.dataType, (StringType, BinaryType)):
        raise InvalidRequest(
            subject,
            "has a source without Debezium messages",
            cause=f"expected the columns {', '.join(FIELDS)}, or a column {VALUE} with JSON; found"
            f" {', '.join(field.name for field in found.values())}",
            fix="let a query return one of them, or leave payload out",
        )
    return _of_json(rows, kept, text, subject, schema)


def _is_envelope(fields: dict[str, StructField]) -> bool:
    return OP in fields and any(
        name in fields and isinstance(fields[name].dataType, StructType) for name in (BEFORE, AFTER)
    )


def _of_columns(
    rows: DataFrame, kept: Sequence[str], held: StructType, prefix: str, subject: str
) -> Envelopes:
    """Envelopes whose fields are columns with types."""
    fields = {field.name.lower(): field for field in held.fields}
    values = []
    for name in FIELDS:
        field = fields.get(name)
        value = F.lit(None) if field is None else F.expr(f"{prefix}{quote(field.name)}")
        values.append(value.alias(name))
    columns: dict[str, WireColumn] = {}
    for name in (AFTER, BEFORE):
        kind = fields[name].dataType if name in fields else None
        for field in kind.fields if isinstance(kind, StructType) else ():
            columns.setdefault(field.name, WireColumn(field.name, plain(sql_type(field.dataType))))
    source = fields[SOURCE].dataType if SOURCE in fields else None
    names = source.names if isinstance(source, StructType) else ()
    fault = F.lit(None).cast("string").alias(FAULT)
    # A tombstone has a key only.
    is_tombstone = " AND ".join(
        f"{prefix}{quote(fields[name].name)} IS NULL" for name in FIELDS if name in fields
    )
    found = rows.where(f"NOT ({is_tombstone})").select(*map(quote, kept), *values, fault)
    return Envelopes(found, tuple(columns.values()), position_with(names))


def _of_json(
    rows: DataFrame,
    kept: Sequence[str],
    text: StructField,
    subject: str,
    schema: KnownColumns,
) -> Envelopes:
    """Envelopes in JSON, with or without a schema beside them."""
    value = F.col(quote(text.name)).cast("string")
    # A tombstone has a key only.
    messages = rows.where(value.isNotNull()).select(*map(quote, kept), value.alias(VALUE))
    # The source may have other rows when it is read again.
    messages = messages.localCheckpoint(eager=True)
    looked = _found_in(messages)
    columns = _columns(subject, looked, schema)
    row = struct_of(columns).wire if columns else "STRUCT<_cdc_0: INT>"
    envelope = f"{BEFORE} {row}, {AFTER} {row}, op STRING, source {SOURCE_TYPE}, ts_ms BIGINT"
    whole = f"{envelope}, {PAYLOAD} STRUCT<{envelope}>, {_CORRUPT} STRING"
    options = {"columnNameOfCorruptRecord": _CORRUPT, "mode": "PERMISSIVE"}
    read = messages.withColumn(_ENVELOPE, F.from_json(VALUE, whole, options))
    fields = [
        F.expr(f"coalesce({_ENVELOPE}.{PAYLOAD}.{name}, {_ENVELOPE}.{name})").alias(name)
        for name in FIELDS
    ]
    is_unread = F.col(f"{_ENVELOPE}.{_CORRUPT}").isNotNull() | F.col(_ENVELOPE).isNull()
    fault = F.when(is_unread, F.lit(_UNREADABLE)).otherwise(F.expr(_unknown(columns)))
    found = read.select(*map(quote, kept), *fields, fault.alias(FAULT))
    return Envelopes(found, columns, position_of(looked.connectors), not looked.has_messages)


@dataclass(frozen=True, slots=True)
class _Looked:
    """What messages in JSON say: their schemas, the oldest first, and their connectors."""

    schemas: tuple[str, ...]
    connectors: frozenset[str]
    has_messages: bool


def _found_in(messages: DataFrame) -> _Looked:
    def part(path: str) -> str:
        return f"get_json_object({VALUE}, '$.{path}')"

    def of_envelope(path: str) -> str:
        return f"coalesce({part(f'{PAYLOAD}.{path}')}, {part(path)})"

    found = (
        messages.selectExpr(
            f"{part('schema')} AS {_SCHEMA}",
            f"{of_envelope('source.connector')} AS {_CONNECTOR}",
            f"try_cast({of_envelope('ts_ms')} AS BIGINT) AS {_MOMENT}",
            f"{of_envelope('op')} AS {OP}",
        )
        # A message that somebody wrote into the log of the database is about no table.
        .where(f"{OP} <> '{Op.MESSAGE}'")
        .groupBy(_SCHEMA, _CONNECTOR)
        .agg(F.max(_MOMENT).alias(_MOMENT))
        .orderBy(_MOMENT)
        .collect()
    )
    schemas = dict.fromkeys(row[_SCHEMA] for row in found if row[_SCHEMA] is not None)
    connectors = frozenset(row[_CONNECTOR] for row in found if row[_CONNECTOR] is not None)
    return _Looked(tuple(schemas), connectors, bool(found))


def _columns(subject: str, looked: _Looked, schema: KnownColumns) -> tuple[WireColumn, ...]:
    if looked.schemas:
        return columns_of_schemas(subject, looked.schemas)
    known = schema()
    if known is not None:
        return declared_columns_of(subject, known)
    if looked.has_messages:
        raise InvalidRequest(
            subject,
            "cannot know the columns of its Debezium messages",
            cause="they are JSON without a schema, and the target does not exist yet",
            fix="pass payload_schema='id BIGINT, name STRING', or let Debezium write schemas"
            " (schemas.enable=true)",
        )
    return ()


def _unknown(columns: Sequence[WireColumn]) -> str:
    """Why a message without a schema has a column that nothing declares, as SQL; NULL: it has
    none, or has a schema.
    """
    known = ", ".join(text_value(column.name) for column in columns)
    found = []
    for name in (AFTER, BEFORE):
        for path in (f"{PAYLOAD}.{name}", name):
            held = f"json_object_keys(get_json_object({VALUE}, '$.{path}'))"
            found.append(f"element_at(array_except({held}, array({known})), 1)")
    first = f"coalesce({', '.join(f'try_{each}' for each in found)})"
    why = f"concat('it has a column ', {first}, ', which payload_schema lacks')"
    return f"if(get_json_object({VALUE}, '$.schema') IS NULL, {why}, NULL)"
