"""Spark types as SQL, with quoted names of fields."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampType

from ...core.delta.columns import Column
from ...core.errors import InvalidRequest
from ...core.names import quote
from ..session.failures import first_line


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


def columns_of(schema: StructType) -> tuple[Column, ...]:
    """The columns of ``schema``, with their types in SQL."""
    return tuple(Column(field.name, sql_type(field.dataType)) for field in schema.fields)


def declared_columns(
    spark: SparkSession, subject: str, schema: StructType | str
) -> tuple[Column, ...]:
    """The columns that a caller declares, such as ``id INT, name STRING``.

    :raises InvalidRequest: Spark cannot read it
    """
    try:
        return columns_of(spark.createDataFrame([], schema).schema)
    except PySparkException as error:
        raise InvalidRequest(
            subject,
            "has a schema that Spark cannot read",
            cause=first_line(error),
            fix="write it as id INT, name STRING",
        ) from None
