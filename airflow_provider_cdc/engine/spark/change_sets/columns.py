"""Column expressions over values of any Delta type: to compare values, and to read old ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from ...core.delta.table_schema import LENGTH, OlderFields


def spark_fields(fields: Sequence[Mapping[str, Any]]) -> list[StructField]:
    """``fields`` of a schema, in their JSON form, as Spark's fields."""
    return StructType.fromJson({"type": "struct", "fields": [*map(dict, fields)]}).fields


def comparable(value: Column, kind: DataType, end: str) -> Column:
    """``value`` in a form that ``<=>`` compares exactly.

    Maps and variants cannot be compared, and a collation treats different strings as equal.

    :param end: the end of the range that the value is from. A variant with an array of mixed types
        never equals a variant of the other end
    """
    if not _needs_conversion(kind):
        return value
    if isinstance(kind, StringType):
        return F.collate(value, "UTF8_BINARY")
    if isinstance(kind, VariantType):
        # The JSON of a date, a binary or a NaN is also the JSON of a string. Spark names one type
        # for all elements of an array: VARIANT if they have several types.
        schema = F.schema_of_variant(value)
        is_mixed = F.when(schema.contains("VARIANT"), F.lit(end))
        return F.struct(F.to_json(value).alias("json"), schema.alias("type"), is_mixed.alias("end"))
    if isinstance(kind, ArrayType):
        element = kind.elementType
        return F.transform(value, lambda item: comparable(item, element, end))
    if isinstance(kind, MapType):
        return _sorted_entries(value, kind, end)
    if isinstance(kind, StructType):
        fields = [
            comparable(value.getField(field.name), field.dataType, end).alias(f"f{index}")
            for index, field in enumerate(kind.fields)
        ]
        return F.when(value.isNotNull(), F.struct(*fields))
    return value


def _sorted_entries(value: Column, kind: MapType, end: str) -> Column:
    def entry(item: Column) -> Column:
        return F.struct(
            comparable(item.getField("key"), kind.keyType, end).alias("key"),
            comparable(item.getField("value"), kind.valueType, end).alias("value"),
        )

    return F.array_sort(F.transform(F.map_entries(value), entry))


def holds_variants(kind: DataType) -> bool:
    """Whether values of ``kind`` contain variants. Equal variants may compare as different."""
    return any(isinstance(part, VariantType) for part in parts_of(kind))


def _needs_conversion(kind: DataType) -> bool:
    return any(
        part.collation != "UTF8_BINARY"
        if isinstance(part, StringType)
        else isinstance(part, MapType | VariantType)
        for part in parts_of(kind)
    )


def parts_of(kind: DataType) -> Iterator[DataType]:
    """``kind`` and every type inside it."""
    yield kind
    inner: list[DataType] = []
    if isinstance(kind, ArrayType):
        inner = [kind.elementType]
    elif isinstance(kind, MapType):
        inner = [kind.keyType, kind.valueType]
    elif isinstance(kind, StructType):
        inner = [field.dataType for field in kind.fields]
    for part in inner:
        yield from parts_of(part)


def in_newer_schema(
    read: Callable[[str], Column],
    newer: Sequence[Mapping[str, Any]],
    older: Sequence[Mapping[str, Any]],
) -> list[Column]:
    """The columns of the newer schema, made from what was read under an older schema.

    A column is matched by its column-mapping id, else by its name. A column that was added later
    is NULL.

    :param read: returns the column of a name in the older schema
    :param newer: the fields of the newer schema, in their JSON form
    :param older: the fields of the older schema
    """
    older_fields = OlderFields(older)
    return [_newer_field(field, older_fields.match(field), read) for field in newer]


def _newer_field(
    field: Mapping[str, Any], older: Mapping[str, Any] | None, read: Callable[[str], Column]
) -> Column:
    kind = spark_fields([field])[0].dataType
    value = F.lit(None)
    if older is not None:
        value = _newer_type(read(older["name"]), field["type"], older["type"])
    # Spark recognizes a CHAR by its length, and pads what it compares with such a column.
    kept = {LENGTH: field["metadata"][LENGTH]} if LENGTH in field["metadata"] else {}
    return value.cast(kind).alias(field["name"], metadata=kept)


def _newer_type(value: Column, newer: Any, older: Any) -> Column:
    if newer == older or isinstance(newer, str) or isinstance(older, str):
        return value
    if newer["type"] == older["type"] == "struct":
        fields = in_newer_schema(value.getField, newer["fields"], older["fields"])
        return F.when(value.isNotNull(), F.struct(*fields))
    if newer["type"] == older["type"] == "array":
        return F.transform(
            value, lambda item: _newer_type(item, newer["elementType"], older["elementType"])
        )
    if newer["type"] == older["type"] == "map":
        return F.map_from_entries(
            F.transform(
                F.map_entries(value),
                lambda item: F.struct(
                    _newer_type(item.getField("key"), newer["keyType"], older["keyType"]).alias(
                        "key"
                    ),
                    _newer_type(
                        item.getField("value"), newer["valueType"], older["valueType"]
                    ).alias("value"),
                ),
            )
        )
    return value
