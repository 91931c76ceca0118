"""Values and types of columns as change records show them, and as captures store them.

A capture stores plain values as they are, because a file of them is smaller and faster to write
than their JSON. The JSON is made when a record is read.
"""

from __future__ import annotations

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
    begin = F.lit("1970-01-01 00:00:00").cast("timestamp_ntz")
    moment = F.timestamp_add("MICROSECOND", F.unix_micros(value), begin)
    return F.replace(moment.cast("string"), F.lit(" "), F.lit("T"))
