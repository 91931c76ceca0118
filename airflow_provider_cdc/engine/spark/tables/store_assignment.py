"""Stores the values of a source in the columns of a target, as Delta stores assigned values.

The rules are those of Delta's store assignment, independent of the session's settings. Fields are
matched by name at any depth. A type can be stored as another type if Spark's ANSI policy allows it.
A value that does not fit ends the job.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    CharType,
    DataType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    VarcharType,
)

from ...core.delta.table_schema import LENGTH
from ...core.errors import InvalidRequest
from ...core.names import first_alike, name_key, quote

_UNFIT = re.compile(r"column .*: expected a value of (?s:.*?), found <(?s:.*?)>")
_MOST_SHOWN_CHARACTERS = 60


def unfit_value(error: BaseException) -> str | None:
    """Which value did not fit which column; ``None``: ``error`` is about something else."""
    found = _UNFIT.search(str(error))
    return None if found is None else found[0]


@dataclass(frozen=True, slots=True)
class StoreAssignment:
    """Stores the values of one source in the columns of one target.

    :param subject: the subject of an error, such as the target
    :param problem: the problem in an error if the columns do not fit
    :param fix: the fix in that error
    """

    spark: SparkSession
    subject: str
    problem: str
    fix: str
    _known: set[tuple[str, str]] = field(default_factory=set)

    def rows(self, rows: DataFrame, target: StructType) -> DataFrame:
        """``rows`` with the names and the types of their columns in ``target``.

        :raises InvalidRequest: the target lacks a column, or cannot store its type
        """
        schema = rows.schema
        names = list(map(name_key, schema.names))
        if len(set(names)) < len(names):
            raise self._refusal(f"expected each column once, found {', '.join(schema.names)}")
        known = {name_key(column.name): column for column in target.fields}
        columns = []
        for given in schema.fields:
            wanted = known.get(name_key(given.name))
            if wanted is None:
                cause = f"expected some of {', '.join(target.names)}, found {given.name}"
                raise self._refusal(cause)
            columns.append(self.column(F.col(quote(given.name)), given.dataType, wanted))
        return rows.select(*columns)

    def column(self, value: Column, given: DataType, wanted: StructField) -> Column:
        """``value`` as the column ``wanted`` stores it, under its name.

        The job that computes it ends if a value does not fit (:func:`unfit_value`).

        :param given: the type of ``value``
        :raises InvalidRequest: no value of that type can be stored there
        """
        stored = self._stored(value, given, declared_type(wanted), wanted.name)
        return stored.alias(wanted.name)

    def _stored(self, value: Column, given: DataType, wanted: DataType, path: str) -> Column:
        if _is_same(given, wanted):
            return value
        if isinstance(given, StructType) and isinstance(wanted, StructType):
            return self._struct(value, given, wanted, path)
        if isinstance(given, ArrayType) and isinstance(wanted, ArrayType):
            old, new = given.elementType, wanted.elementType
            return F.transform(value, lambda item: self._stored(item, old, new, f"{path}.element"))
        if isinstance(given, MapType) and isinstance(wanted, MapType):
            return self._map(value, given, wanted, path)
        return self._leaf(value, given, wanted, path)

    def _struct(self, value: Column, given: StructType, wanted: StructType, path: str) -> Column:
        self._check_fields(given, wanted, path)
        known = {name_key(each.name): each for each in given.fields}
        pairs = ((known[name_key(each.name)], each) for each in wanted.fields)
        fields = [
            self._stored(
                value.getField(old.name), old.dataType, new.dataType, f"{path}.{new.name}"
            ).alias(new.name)
            for old, new in pairs
        ]
        return F.when(value.isNotNull(), F.struct(*fields))

    def _map(self, value: Column, given: MapType, wanted: MapType, path: str) -> Column:
        def entry(item: Column) -> Column:
            key, held = item.getField("key"), item.getField("value")
            return F.struct(
                self._stored(key, given.keyType, wanted.keyType, f"{path}.key").alias("key"),
                self._stored(held, given.valueType, wanted.valueType, f"{path}.value").alias(
                    "value"
                ),
            )

        return F.map_from_entries(F.transform(F.map_entries(value), entry))

    def _leaf(self, value: Column, given: DataType, wanted: DataType, path: str) -> Column:
        self._check_types(_read_as(given), _read_as(wanted), path)
        if isinstance(given, NullType):
            return value.cast(_read_as(wanted))
        if isinstance(wanted, CharType | VarcharType):
            return _text(value, wanted, path)
        if isinstance(given, StringType) and isinstance(wanted, StringType):
            return F.collate(value, wanted.collation)
        return F.coalesce(value.try_cast(wanted), _stop(value, wanted, path))

    def _check_types(self, given: DataType, wanted: DataType, path: str) -> None:
        """Refuse what Spark's ANSI policy does not store. Spark decides, on an empty frame."""
        pair = given.simpleString(), wanted.simpleString()
        if pair in self._known:
            return
        empty = self.spark.createDataFrame([], StructType([StructField("value", given)]))
        try:
            # Over Spark Connect only this access makes Spark check the types.
            _ = empty.to(StructType([StructField("value", wanted)])).schema
        except AnalysisException:
            cause = f"expected {path} as a type that can be stored as {pair[1]}, found {pair[0]}"
            raise self._refusal(cause) from None
        self._known.add(pair)

    def _check_fields(self, given: StructType, wanted: StructType, path: str) -> None:
        """Refuse fields that only one side has: a value would be invented, or lost."""
        if alike := first_alike(given.names):
            cause = f"Spark treats the fields {' and '.join(alike)} of {path} as the same field"
            raise self._refusal(cause)
        old, new = set(map(name_key, given.names)), set(map(name_key, wanted.names))
        found = f"found {', '.join(given.names)}"
        for name in wanted.names:
            if name_key(name) not in old:
                raise self._refusal(f"expected a field {path}.{name}, {found}")
        for name in given.names:
            if name_key(name) not in new:
                names = ", ".join(wanted.names)
                raise self._refusal(f"expected the fields {names} in {path}, found {name} too")

    def _refusal(self, cause: str) -> InvalidRequest:
        return InvalidRequest(self.subject, self.problem, cause=cause, fix=self.fix)


def declared_type(column: StructField) -> DataType:
    """The declared type of a column. Spark keeps a type that contains CHAR or VARCHAR in the
    metadata of the column.
    """
    declared = (column.metadata or {}).get(LENGTH)
    return column.dataType if declared is None else DataType.fromDDL(declared)


def _read_as(kind: DataType) -> DataType:
    return StringType() if isinstance(kind, CharType | VarcharType) else kind


def _is_same(given: DataType, wanted: DataType) -> bool:
    """Whether the types are equal except for nullability, with the same spelling of fields."""
    if isinstance(given, StructType) and isinstance(wanted, StructType):
        return given.names == wanted.names and all(
            _is_same(old.dataType, new.dataType)
            for old, new in zip(given.fields, wanted.fields, strict=True)
        )
    if isinstance(given, ArrayType) and isinstance(wanted, ArrayType):
        return _is_same(given.elementType, wanted.elementType)
    if isinstance(given, MapType) and isinstance(wanted, MapType):
        keys = _is_same(given.keyType, wanted.keyType)
        return keys and _is_same(given.valueType, wanted.valueType)
    return given == wanted


def _text(value: Column, wanted: CharType | VarcharType, path: str) -> Column:
    """A text as CHAR(n) and VARCHAR(n) store it. Spaces at its end that do not fit are cut off, and
    a CHAR is padded with spaces.
    """
    length, text = wanted.length, value.cast("string")
    fits = F.when(F.length(text) <= length, text)
    fits = fits.when(F.length(F.rtrim(text)) <= length, F.substring(text, 1, length))
    stored = fits.otherwise(_stop(text, wanted, path))
    return F.rpad(stored, length, " ") if isinstance(wanted, CharType) else stored


def _stop(value: Column, wanted: DataType, path: str) -> Column:
    """NULL for NULL; any other value ends the job with an error that names the column."""
    kind = wanted.simpleString()
    shown = F.substring(value.cast("string"), 1, _MOST_SHOWN_CHARACTERS)
    # Sessions differ in how they read an SQL literal, and a name may contain any character.
    message = F.concat(
        F.lit(f"column {path}: expected a value of {kind}, found <"), shown, F.lit(">")
    )
    return F.when(value.isNotNull(), F.raise_error(message).cast(_read_as(wanted)))
