"""Targets whose rows are compared with those of a source by a key."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import CharType, MapType, StructField, StructType, VariantType

from ...core.arguments.one_or_several import one_or_several
from ...core.errors import InvalidRequest
from ...core.model.tables import Table
from ...core.names import first_alike, name_key, quote, table_name
from ..change_sets.columns import parts_of
from ..tables.delta_tables import Tables
from ..tables.store_assignment import StoreAssignment, declared_type

_LOAD_ANEW = "load the target again with the statements that fill it"


@dataclass(frozen=True, slots=True)
class KeyedTarget:
    """A table, its columns, and the columns that identify a row.

    ``verb`` is what happens to it, for messages: ``recovered`` or ``verified``.
    """

    table: Table
    schema: StructType
    key: tuple[str, ...]
    verb: str

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return list(self.schema.names)

    @property
    def key_fields(self) -> tuple[StructField, ...]:
        """Its key columns."""
        return tuple(self.schema[name] for name in self.key)

    @property
    def has_padded_key(self) -> bool:
        """Whether its key contains a CHAR."""
        kinds = map(declared_type, self.key_fields)
        return any(isinstance(part, CharType) for kind in kinds for part in parts_of(kind))

    def stored(
        self, spark: SparkSession, rows: DataFrame, source: str, kept: Sequence[str] = ()
    ) -> DataFrame:
        """``rows`` of a source in the form in which the target stores them, and the columns
        ``kept``.

        :param source: the name of the source, for messages
        :raises InvalidRequest: the source lacks a column or a field of the target, or a column has
            a type that the target does not store
        """
        problem = f"cannot be {self.verb} from {source}"
        found = {name_key(field.name): field for field in rows.schema.fields}
        missing = [name for name in self.columns if name_key(name) not in found]
        if missing:
            raise InvalidRequest(
                f"target {self.table.name}",
                problem,
                cause=f"the source has no column {missing[0]}",
                fix=_LOAD_ANEW,
            )
        store = StoreAssignment(spark, f"target {self.table.name}", problem, _LOAD_ANEW)
        given = [(found[name_key(wanted.name)], wanted) for wanted in self.schema.fields]
        values = [
            store.column(F.col(quote(field.name)), field.dataType, wanted)
            for field, wanted in given
        ]
        return rows.select(*kept, *values)


def keyed_target(
    spark: SparkSession, tables: Tables, name: str, key: str | Collection[str], verb: str
) -> KeyedTarget:
    """The target of that name, with the key that a caller names.

    :raises TableNotFound: there is no such table
    :raises InvalidRequest: the key is not one of its columns, or cannot be compared
    """
    found = tables.get(table_name(name))
    schema = spark.read.format("delta").load(found.location).schema
    if alike := first_alike(schema.names):
        raise InvalidRequest(
            f"target {name}",
            f"cannot be {verb}",
            cause=f"Delta's MERGE treats its columns {alike[0]} and {alike[1]} as the same column",
            fix="rename one of them",
        )
    known = {name_key(column): column for column in schema.names}
    names = one_or_several(f"target {name}", "key", key)
    if not names or any(name_key(name) not in known for name in names):
        raise InvalidRequest(
            f"target {name}",
            f"cannot be {verb} by this key",
            cause=f"expected some of the columns {', '.join(schema.names)}, found {key!r}",
            fix="name the columns that identify its rows, such as key=['id']",
        )
    target = KeyedTarget(found, schema, tuple(known[name_key(name)] for name in names), verb)
    for field in target.key_fields:
        if any(isinstance(part, MapType | VariantType) for part in parts_of(field.dataType)):
            kind = field.dataType.simpleString()
            raise InvalidRequest(
                f"target {name}",
                f"cannot be {verb} by this key",
                cause=f"values of {field.name}, of type {kind}, cannot be compared as a key",
                fix="name the columns that identify its rows, such as key=['id']",
            )
    return target
