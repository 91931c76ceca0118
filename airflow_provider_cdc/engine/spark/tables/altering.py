"""Creates and alters the columns of Delta tables that the engine makes for a source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructField, StructType, TimestampNTZType

from ...core.delta.column_steps import Add, Rename, Step, Widen
from ...core.delta.table_schema import MAPPING_MODE, Layout
from ...core.errors import InvalidRequest, StreamConflict
from ...core.names import quote
from ...storage.delta.delta_log import DeltaLog
from ...storage.files.stores import Files
from ..change_sets.columns import parts_of, spark_fields
from ..session.failures import first_line, has_ended
from .delta_tables import Tables
from .sql_types import sql_type

TYPE_WIDENING = "delta.enableTypeWidening"
_NTZ_FEATURE = "delta.feature.timestampNtz"
# How Delta's error conditions for concurrent commits begin.
_CONCURRENT = "DELTA_CONCURRENT_"


@dataclass(frozen=True, slots=True)
class Altered:
    """A table that is altered: the subject of messages, its name as SQL, and its root."""

    subject: str
    sql: str
    location: str


def alter(spark: SparkSession, tables: Tables, files: Files, table: Altered, step: Step) -> None:
    """Change a column of ``table``.

    :raises StreamConflict: another call altered it at the same time
    :raises InvalidRequest: Spark cannot do it
    """
    with refused_by_spark(table.subject):
        match step:
            case Rename(column, name):
                _map(tables, files, table)
                change = f"RENAME COLUMN {quote(column)} TO {quote(name)}"
            case Add(path, kind):
                field = _field(path[-1], kind)
                if needs_mapping([field]):
                    _map(tables, files, table)
                _allow(tables, table, field.dataType)
                place = ".".join(map(quote, path))
                change = f"ADD COLUMNS ({place} {sql_type(field.dataType)})"
            case Widen(column, kind):
                tables.set_properties(table.sql, {TYPE_WIDENING: "true"})
                wider = _field(column, kind).dataType
                _allow(tables, table, wider)
                change = f"ALTER COLUMN {quote(column)} TYPE {sql_type(wider)}"
        spark.sql(f"ALTER TABLE {table.sql} {change}")


def needs_mapping(fields: Iterable[StructField]) -> bool:
    """Whether only a table with column mapping may have columns with these names."""
    names = StructType([*fields])
    found = (
        name for part in parts_of(names) if isinstance(part, StructType) for name in part.names
    )
    return any(character in name for name in found for character in " ,;{}()\n\t=")


@contextmanager
def refused_by_spark(subject: str) -> Iterator[None]:
    """Turn Spark's refusal to create or alter a table into an error of the engine.

    :raises StreamConflict: another call altered it at the same time
    :raises InvalidRequest: Spark cannot do it
    """
    try:
        yield
    except Exception as error:  # pyspark has no classes for errors of the JVM
        if not has_ended(error):
            raise
        cause = first_line(error)
        if _CONCURRENT in cause:
            raise StreamConflict(
                subject,
                "was altered at the same time by another call",
                cause=cause,
                fix="run one call at a time",
            ) from error
        raise InvalidRequest(
            subject,
            "cannot have the columns of its source",
            cause=cause,
            fix="give the table a name or a path that Spark can write, and change the type"
            " of a column that Delta cannot store",
        ) from error


def _map(tables: Tables, files: Files, table: Altered) -> None:
    """Let columns have any name, and another one later."""
    metadata = DeltaLog(table.location, files).newest_state().metadata
    if not Layout.of(metadata).is_mapped:
        tables.set_properties(table.sql, {MAPPING_MODE: "name"})


def _allow(tables: Tables, table: Altered, kind: DataType) -> None:
    """Switch on what a type needs; a new table has it by itself."""
    if any(isinstance(part, TimestampNTZType) for part in parts_of(kind)):
        tables.set_properties(table.sql, {_NTZ_FEATURE: "supported"})


def _field(name: str, kind: Any) -> StructField:
    """A column whose type is in the JSON form of schemas."""
    return spark_fields([{"name": name, "type": kind, "nullable": True, "metadata": {}}])[0]
