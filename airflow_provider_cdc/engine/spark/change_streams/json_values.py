"""Values and types of columns as the JSON of change records.

A capture stores plain values as they are, because a file of them is smaller and faster to write
than their JSON. The JSON is made when a record is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from ...core.change_streams.captures import CapturedColumn
from ...core.change_streams.definition import Int64As

_KEEP_NULLS = {"ignoreNullFields": "false"}
_WHOLE_NUMBERS = (ByteType, ShortType, IntegerType, LongType)
_STORED_AS_THEY_ARE = (
    FloatType,
    DoubleType,
    DecimalType,
    BinaryType,
    BooleanType,
    DateType,
    TimestampType,
    TimestampNTZType,
)
_WHOLE_NUMBER, _TEXT, _JSON = "bigint", "string", "json"
_ESCAPED = r'["\\\x00-\x1f]'
_CODES: Mapping[type[DataType], str] = {
    FloatType: "FLOAT32",
    DoubleType: "FLOAT64",
    DecimalType: "NUMERIC",
    BinaryType: "BYTES",
    BooleanType: "BOOL",
    DateType: "DATE",
    TimestampType: "TIMESTAMP",
    StructType: "JSON",
    MapType: "JSON",
    VariantType: "JSON",
}


def type_json(kind: DataType, int64_as: Int64As) -> dict[str, Any]:
    """A type as Spanner's API describes it. Types that Spanner lacks are JSON or strings."""
    if isinstance(kind, _WHOLE_NUMBERS):
        return {"code": "INT64" if int64_as is Int64As.STRING else "INT"}
    if isinstance(kind, ArrayType):
        element = type_json(kind.elementType, int64_as)
        return {"code": "ARRAY", "array_element_type": element}
    return {"code": _CODES.get(type(kind), "STRING")}


def stored_as(kind: DataType) -> str:
    """How a capture stores values of a type: as a Spark type, or as ``json``, a text of JSON."""
    if isinstance(kind, _WHOLE_NUMBERS):
        return _WHOLE_NUMBER
    if isinstance(kind, _STORED_AS_THEY_ARE):
        return str(kind.simpleString())
    return _JSON if isinstance(kind, ArrayType) else _TEXT


def spark_type(stored: str) -> str:
    """The Spark type of what :func:`stored_as` returned."""
    return _TEXT if stored == _JSON else stored


def stored_value(value: Column, kind: DataType, int64_as: Int64As) -> Column:
    """``value`` as a capture stores it."""
    if isinstance(kind, ArrayType):
        return F.to_json(_shown(value, kind, int64_as), _KEEP_NULLS)
    if isinstance(kind, (StructType, MapType, VariantType)):
        return _shown(value, kind, int64_as)
    if isinstance(kind, StringType):
        return F.collate(value, "UTF8_BINARY")
    return value.cast(stored_as(kind))


def object_json(fields: Iterable[tuple[CapturedColumn, Column]], int64_as: Int64As) -> Column:
    """The JSON of an object.

    :param fields: the column and the stored value of each of its fields
    """
    parts = [
        part
        for place, (column, value) in enumerate(fields)
        for part in (F.lit(","), *_parts(column, value, int64_as))[0 if place else 1 :]
    ]
    return F.concat(F.lit("{"), *parts, F.lit("}"))


def some_fields_json(
    fields: Iterable[tuple[CapturedColumn, Column, Column]], int64_as: Int64As
) -> Column:
    """The JSON of an object with only some of its fields.

    :param fields: the column and the stored value of each field, and whether it is there
    """
    parts = [
        F.when(is_there, F.concat(*_parts(column, value, int64_as)))
        for column, value, is_there in fields
    ]
    return F.concat(F.lit("{"), F.concat_ws(",", *parts), F.lit("}"))


def _parts(column: CapturedColumn, value: Column, int64_as: Int64As) -> tuple[Column, Column]:
    name = json.dumps(column.name, ensure_ascii=False)
    text = _json(value, column.stored_as, int64_as)
    return F.lit(f"{name}:"), F.coalesce(text, F.lit("null"))


def _json(value: Column, stored: str, int64_as: Int64As) -> Column:
    """The JSON of a stored value. Spark's own ``to_json`` takes much longer for plain values."""
    match stored:
        case "bigint" if int64_as is Int64As.NUMBER:
            return value.cast("string")
        case "boolean" | "json":
            return value.cast("string")
        case "float" | "double":
            # JSON has no numbers for these.
            is_number = ~(F.isnan(value) | F.abs(value).eqNullSafe(F.lit(float("inf"))))
            return F.when(is_number, value.cast("string")).otherwise(_quoted(value.cast("string")))
        case "string":
            plain = _quoted(value)
            return F.when(value.rlike(_ESCAPED), _by_spark(value)).otherwise(plain)
        case "binary":
            return _by_spark(value)
        case "timestamp":
            return _quoted(F.concat(_moment(value), F.lit("Z")))
        case "timestamp_ntz":
            return _quoted(F.replace(value.cast("string"), F.lit(" "), F.lit("T")))
        case _:
            return _quoted(value.cast("string"))


def _quoted(text: Column) -> Column:
    return F.concat(F.lit('"'), text, F.lit('"'))


def _by_spark(value: Column) -> Column:
    """The JSON of a value as Spark makes it; NULL for NULL."""
    whole = F.to_json(F.struct(value.alias("v")))
    return F.when(value.isNotNull(), F.substring(whole, 6, F.length(whole) - 6))


def _spark_json(fields: Iterable[tuple[str, Column, DataType]], int64_as: Int64As) -> Column:
    values = [_shown(value, kind, int64_as).alias(name) for name, value, kind in fields]
    return F.to_json(F.struct(*values), _KEEP_NULLS) if values else F.lit("{}")


def _shown(value: Column, kind: DataType, int64_as: Int64As) -> Column:
    """``value`` in a form that Spark shows in JSON as a change record does."""
    if isinstance(kind, _WHOLE_NUMBERS):
        return value if int64_as is Int64As.NUMBER else value.cast("string")
    if isinstance(kind, TimestampType):
        return F.when(value.isNotNull(), F.concat(_moment(value), F.lit("Z")))
    if isinstance(kind, TimestampNTZType):
        return F.replace(value.cast("string"), F.lit(" "), F.lit("T"))
    if isinstance(kind, ArrayType):
        element = kind.elementType
        return F.transform(value, lambda item: _shown(item, element, int64_as))
    if isinstance(kind, VariantType):
        return F.to_json(value)
    if isinstance(kind, StructType):
        fields = ((field.name, value.getField(field.name), field.dataType) for field in kind)
        return F.when(value.isNotNull(), _spark_json(fields, int64_as))
    if isinstance(kind, MapType):
        values = F.transform_values(value, lambda _, item: _shown(item, kind.valueType, int64_as))
        return F.to_json(values, _KEEP_NULLS)
    if isinstance(kind, (FloatType, DoubleType, BooleanType, BinaryType)):
        return value
    return value.cast("string")


def _moment(value: Column) -> Column:
    """In UTC, whatever the time zone of the session is, and with the shortest fraction."""
    micros = F.unix_micros(value).cast("decimal(20,0)") / F.lit(1_000_000)
    begin = F.lit("1970-01-01 00:00:00").cast("timestamp_ntz")
    zero = F.lit(0)
    text = (begin + F.make_dt_interval(zero, zero, zero, micros)).cast("string")
    return F.replace(text, F.lit(" "), F.lit("T"))
