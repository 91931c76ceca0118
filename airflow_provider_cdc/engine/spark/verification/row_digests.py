"""Compares two multisets of rows by digests: sums of row hashes, which do not depend on the order.

Rows of the source count once, rows of the target minus once. So does what was added to a table, and
what was removed from it. If both hold the same rows, the count and the sums of each range of keys
are zero. A range is a set of keys with the same remainder of their hash.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StructType

from ...core.names import quote
from ..change_sets.columns import comparable
from ..change_sets.row_columns import union
from .changed_rows import SIGN

RANGES = 4096
_KEY, _RANGE, _SIGN = "key", "range", "sign"
_HIGH, _LOW = "high", "low"
# Sums of numbers of 32 bits do not overflow, whatever the session does on overflow.
_HALF = 32
# With all digits, so that two keys have two texts.
_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_SIDES = {"source": 1, "target": -1}
_DIFFERS = f"count <> 0 OR {_HIGH} <> 0 OR {_LOW} <> 0"


def digested(rows: DataFrame, key: Sequence[str], sign: Column, factor: int = 1) -> DataFrame:
    """``rows`` as their key, the range of the key, their sign and the two halves of their hash.

    :param key: the columns of ``rows`` that identify a row
    :param sign: 1 or -1; if it is a column of ``rows``, that column is not compared
    :param factor: 1 for the source, -1 for the target
    """
    kinds = {field.name: field.dataType for field in rows.schema.fields if field.name != SIGN}
    values = {
        name: comparable(F.col(quote(name)), kind, "the same") for name, kind in kinds.items()
    }
    made = rows.select(
        *(value.alias(f"c{place}") for place, value in enumerate(values.values())),
        F.struct(*(F.col(quote(name)).alias(name) for name in key)).alias(_KEY),
        (sign * factor).cast("bigint").alias(_SIGN),
    )
    columns = [
        (F.col(f"c{place}"), made.schema[f"c{place}"].dataType) for place in range(len(kinds))
    ]
    places = [list(kinds).index(name) for name in key]
    row = F.xxhash64(*_parts(columns))
    return made.select(
        _KEY,
        _range([columns[place] for place in places]).alias(_RANGE),
        _SIGN,
        F.shiftright(row, _HALF).alias(_HIGH),
        row.bitwiseAND(F.lit((1 << _HALF) - 1)).alias(_LOW),
    )


def in_ranges(values: Sequence[tuple[Column, DataType]], ranges: Collection[int]) -> Column:
    """Whether a key is in one of ``ranges``.

    :param values: the columns of the key, with their types
    """
    found = [comparable(value, kind, "the same") for value, kind in values]
    kinds = [kind for _, kind in values]
    return _range(list(zip(found, kinds, strict=True))).isin(list(ranges))


def differing_ranges(frames: Sequence[DataFrame]) -> tuple[int, ...]:
    """The ranges of keys in which the rows of ``frames``, as :func:`digested` returns them,
    differ.
    """
    found = _differing(union(frames), _RANGE).select(_RANGE).collect()
    return tuple(row[0] for row in found)


def differing_keys(frames: Sequence[DataFrame], ranges: Collection[int]) -> DataFrame:
    """The keys in ``ranges`` whose rows differ, each once, as JSON."""
    rows = union(frames).where(F.col(_RANGE).isin(list(ranges)))
    return _differing(rows, _KEY).select(_json_of_key())


def rows_of_keys(
    frames: Sequence[DataFrame], ranges: Collection[int], keys: Collection[str]
) -> dict[str, tuple[int, int]]:
    """How many rows the source and the target have of each of ``keys``, which are JSON.

    :param frames: all rows of both
    """
    rows = union(frames).where(F.col(_RANGE).isin(list(ranges)))
    named = rows.select(_json_of_key(), _SIGN).where(F.col(_KEY).isin(list(keys)))
    counts = [F.count_if(F.col(_SIGN) == sign).alias(name) for name, sign in _SIDES.items()]
    found = named.groupBy(_KEY).agg(*counts).collect()
    return {row[_KEY]: (row["source"], row["target"]) for row in found}


def _json_of_key() -> Column:
    return F.to_json(_KEY, _JSON).alias(_KEY)


def _differing(rows: DataFrame, by: str) -> DataFrame:
    """The groups of ``rows`` with the same value in the column ``by`` that are not balanced."""
    sums = [F.sum(F.col(_SIGN) * F.col(half)).alias(half) for half in (_HIGH, _LOW)]
    return rows.groupBy(by).agg(F.sum(_SIGN).alias("count"), *sums).where(_DIFFERS)


def _range(key: Sequence[tuple[Column, DataType]]) -> Column:
    return F.pmod(F.xxhash64(*_parts(key)), F.lit(RANGES)).cast("int")


def _parts(values: Sequence[tuple[Column, DataType]]) -> Iterator[Column]:
    """What to hash of ``values``. A NULL does not change a hash, so its place is hashed too."""
    for value, kind in values:
        yield value.isNull()
        yield _marked(value, kind)


def _marked(value: Column, kind: DataType) -> Column:
    if isinstance(kind, ArrayType):
        element = kind.elementType
        return F.transform(value, lambda item: F.struct(item.isNull(), _marked(item, element)))
    if isinstance(kind, StructType):
        fields = [(value.getField(field.name), field.dataType) for field in kind.fields]
        return F.when(value.isNotNull(), F.struct(*_parts(fields)))
    return value
