"""Values and types of columns as the JSON of change records."""

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
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from ...core.change_streams.definition import Int64As

_KEEP_NULLS = {"ignoreNullFields": "false"}
_WHOLE_NUMBERS = (ByteType, ShortType, IntegerType, LongType)
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


def object_json(fields: Iterable[tuple[str, Column, DataType]], int64_as: Int64As) -> Column:
    """The JSON of an object.

    :param fields: the name, the value and the type of each of its fields
    """
    values = [_shown(value, kind, int64_as).alias(name) for name, value, kind in fields]
    return F.to_json(F.struct(*values), _KEEP_NULLS) if values else F.lit("{}")


def some_fields_json(
    fields: Iterable[tuple[str, Column, DataType, Column]], int64_as: Int64As
) -> Column:
    """The JSON of an object with only some of its fields.

    :param fields: the name, the value and the type of each field, and whether it is there
    """
    parts = []
    for name, value, kind, is_there in fields:
        whole = object_json([(name, value, kind)], int64_as)
        parts.append(F.when(is_there, F.substring(whole, 2, F.length(whole) - 2)))
    return F.concat(F.lit("{"), F.concat_ws(",", *parts), F.lit("}"))


def _shown(value: Column, kind: DataType, int64_as: Int64As) -> Column:
    """``value`` in a form whose JSON is that of a change record."""
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
        return F.when(value.isNotNull(), object_json(fields, int64_as))
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
