"""The columns that a caller declares, because messages without a schema do not say their types.

Nothing is guessed: a value whose meaning is not certain is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..delta.columns import Column
from ..errors import InvalidRequest
from .wire_types import MOST_DIGITS, VALUE, WireColumn, WireType, array_of, date_of, plain

_PLAIN = ("boolean", "int", "bigint", "float", "double", "string", "binary")
_SMALL = ("tinyint", "smallint")
_ARRAY = re.compile(r"array<(\w+)>")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_DATE = "^[+-]?[0-9]{4,}-[0-9]{2}-[0-9]{2}"
_TIME = "[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?"
_NUMBER = "^-?[0-9]+$"
_ZONE = "(Z|[+-][0-9]{2}:?[0-9]{2})"


def declared_columns_of(subject: str, columns: Iterable[Column]) -> tuple[WireColumn, ...]:
    """The columns of messages without a schema.

    :raises InvalidRequest: values of a type cannot be read without a schema
    """
    return tuple(WireColumn(each.name, _declared(subject, each)) for each in columns)


def _declared(subject: str, column: Column) -> WireType:
    kind = column.type.lower()
    if kind in _PLAIN:
        return plain(kind)
    if kind in _SMALL:
        # Spark's JSON reader lets a greater number overflow.
        return WireType("INT", kind, f"try_cast({VALUE} AS {kind})")
    if kind == "date":
        number = date_of(f"try_cast({VALUE} AS INT)")
        text = f"if({VALUE} RLIKE '{_DATE}$', try_cast({VALUE} AS DATE), NULL)"
        return WireType("STRING", kind, f"if({VALUE} RLIKE '{_NUMBER}', {number}, {text})")
    if kind.startswith("timestamp"):
        # A number does not say its unit.
        zone = "Z?" if kind == "timestamp_ntz" else _ZONE
        is_text = f"{VALUE} RLIKE '{_DATE}{_TIME}{zone}$'"
        text = f"rtrim('Z', {VALUE})" if kind == "timestamp_ntz" else VALUE
        return WireType("STRING", kind, f"if({is_text}, try_cast({text} AS {kind}), NULL)")
    if found := _DECIMAL.fullmatch(kind):
        return _decimal(kind, int(found[1]), int(found[2]))
    if (items := _ARRAY.fullmatch(kind)) and items[1] in _PLAIN:
        return array_of(plain(items[1]))
    raise InvalidRequest(
        subject,
        f"cannot read the column {column.name} of Debezium messages without a schema",
        cause=f"its type is {kind}, and JSON does not say how its values are written",
        fix="let Debezium write schemas (schemas.enable=true), or declare it as STRING",
    )


def _decimal(kind: str, digits: int, scale: int) -> WireType:
    """A decimal as a number or as text. A value with more digits than the type is not rounded."""
    # As text, the JSON reader would pass a number through a double.
    text = f"CAST({VALUE} AS STRING)"
    exact = f"DECIMAL({MOST_DIGITS}, {MOST_DIGITS - digits + scale})"
    value = f"try_cast({text} AS {kind})"
    return WireType("VARIANT", kind, f"if({value} = try_cast({text} AS {exact}), {value}, NULL)")
