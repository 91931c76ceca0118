"""Spark types as SQL, with quoted names of fields."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampType

from ...core.names import quote


def sql_type(kind: DataType) -> str:
    """The SQL of a type. Equal types have the same SQL."""
    if isinstance(kind, StructType):
        fields = (f"{quote(field.name)}:{sql_type(field.dataType)}" for field in kind.fields)
        return f"struct<{','.join(fields)}>"
    if isinstance(kind, ArrayType):
        return f"array<{sql_type(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{sql_type(kind.keyType)},{sql_type(kind.valueType)}>"
    # The meaning of TIMESTAMP depends on the session.
    return "timestamp_ltz" if isinstance(kind, TimestampType) else kind.simpleString()
