"""How a value is written in a message, and how SQL turns it into a value of its type.

A message in JSON writes a date as a number of days, and a decimal as bytes in base64.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..names import quote, spark_literal
from .envelope import BAD

VALUE = "\0"
"""The place of the written value in a conversion."""

_EPOCH = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"
_EACH, _PLACE, _TOTAL = "_cdc_each", "_cdc_place", "_cdc_total"
"""The variables of lambda functions."""
MOST_DIGITS = 38
"""How many digits a decimal of Spark has at most."""

_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""The first day of the year 1 and the last one of the year 9999, in days since 1970. Debezium
writes infinity as other numbers.
"""


@dataclass(frozen=True, slots=True)
class WireType:
    """A type in messages.

    :param wire: the type with which a value is read from JSON, as SQL
    :param type: the type that it has then, as SQL
    :param conversion: the SQL of the second from the first, with :data:`VALUE` in it. It is NULL
        for a value that the type does not have
    """

    wire: str
    type: str
    conversion: str = VALUE

    @property
    def is_converted(self) -> bool:
        """Whether a value that was read is not used as it is."""
        return self.conversion != VALUE

    def of(self, value: str) -> str:
        """The SQL of the value that was read as ``value``."""
        return self.conversion.replace(VALUE, value)

    def within(self, value: str) -> str:
        """Like :meth:`of`, for a value within another one. The job ends if the type does not have
        the value.
        """
        if not self.is_converted:
            return value
        why = f"concat({spark_literal(BAD)}, {unfit(value, self.type)})"
        return f"if({value} IS NULL, NULL, coalesce({self.of(value)}, raise_error({why})))"


@dataclass(frozen=True, slots=True)
class WireColumn:
    """A column of the table that messages are about."""

    name: str
    type: WireType


def unfit(value: str, kind: str) -> str:
    """What is wrong with a value that a type does not have, as SQL."""
    shown = f"left(coalesce(to_json(struct({value} AS value)), ''), 100)"
    return f"concat('expected a value of {kind}, found ', {shown})"


def plain(kind: str) -> WireType:
    """A type that JSON writes as it is."""
    return WireType(kind, kind)


def days() -> WireType:
    """A date as a number of days since 1970."""
    return WireType("INT", "DATE", date_of(VALUE))


def units_since_1970(unit: str) -> WireType:
    """A time without a time zone as a number since 1970.

    :param unit: ``ms``, ``us`` or ``ns``. Of nanoseconds, whole microseconds are kept
    """
    micros = {
        "ms": f"try_multiply({VALUE}, 1000L)",
        "us": VALUE,
        "ns": f"({VALUE} div 1000) - if({VALUE} % 1000 < 0, 1, 0)",
    }[unit]
    first, end = -62_135_596_800_000_000, 253_402_300_800_000_000
    is_known = f"{micros} >= {first}L AND {micros} < {end}L"
    # A cast from the number would depend on the time zone of the session.
    moment = f"{_EPOCH} + INTERVAL '0.000001' SECOND * ({micros})"
    return WireType("BIGINT", "TIMESTAMP_NTZ", f"if({is_known}, {moment}, NULL)")


def zoned_time() -> WireType:
    """A time with a time zone as text of ISO 8601."""
    return WireType("STRING", "TIMESTAMP_LTZ", f"try_cast({VALUE} AS TIMESTAMP_LTZ)")


def unscaled_decimal(digits: int, scale: int) -> WireType:
    """A decimal as the bytes of its digits.

    :param digits: how many it has at most, not more than :data:`MOST_DIGITS`
    :param scale: how many of them come after the point
    """
    kind = f"DECIMAL({max(digits, scale)}, {scale})"
    return WireType("BINARY", kind, f"try_cast({_unscaled(VALUE)} || 'E-{scale}' AS {kind})")


def decimal_with_scale() -> WireType:
    """A decimal as its scale and the bytes of its digits. It becomes text, because each value has
    a scale of its own.
    """
    digits, scale = _unscaled(f"{VALUE}.value"), f"{VALUE}.scale"
    size = f"greatest(length(replace({digits}, '-', '')), {scale} + 1)"
    padded = f"lpad(replace({digits}, '-', ''), {size}, '0')"
    point = (
        f"concat(if(startswith({digits}, '-'), '-', ''), left({padded}, {size} - {scale}), '.',"
        f" right({padded}, {scale}))"
    )
    text = f"if({scale} > 0, {point}, {digits} || repeat('0', -{scale}))"
    return WireType("STRUCT<scale: INT, value: BINARY>", "STRING", text)


def array_of(items: WireType) -> WireType:
    """An array."""
    conversion = VALUE
    if items.is_converted:
        conversion = f"transform({VALUE}, {_EACH} -> {items.within(_EACH)})"
    return WireType(f"ARRAY<{items.wire}>", f"ARRAY<{items.type}>", conversion)


def map_of(values: WireType) -> WireType:
    """A map from text."""
    conversion = VALUE
    if values.is_converted:
        conversion = f"transform_values({VALUE}, (_cdc_key, {_EACH}) -> {values.within(_EACH)})"
    return WireType(f"MAP<STRING, {values.wire}>", f"MAP<STRING, {values.type}>", conversion)


def struct_of(columns: Iterable[WireColumn]) -> WireType:
    """A struct."""
    fields = list(columns)
    conversion = VALUE
    if any(field.type.is_converted for field in fields):
        parts = ", ".join(
            f"{field.type.within(f'{VALUE}.{quote(field.name)}')} AS {quote(field.name)}"
            for field in fields
        )
        conversion = f"if({VALUE} IS NULL, NULL, struct({parts}))"
    wire = ", ".join(f"{quote(field.name)}: {field.type.wire}" for field in fields)
    kind = ", ".join(f"{quote(field.name)}: {field.type.type}" for field in fields)
    return WireType(f"STRUCT<{wire}>", f"STRUCT<{kind}>", conversion)


def date_of(number: str) -> str:
    """The date of a number of days since 1970, as SQL. NULL: Spark does not know such a date."""
    is_known = f"{number} BETWEEN {_FIRST_DAY} AND {_LAST_DAY}"
    return f"if({is_known}, date_from_unix_date({number}), NULL)"


def _unscaled(value: str) -> str:
    """The whole number in bytes, the greatest first, in two's complement; as SQL of a text. NULL:
    it has too many digits.
    """
    number = f"DECIMAL({MOST_DIGITS}, 0)"
    byte = f"CAST(conv(substr(hex({value}), 2 * {_PLACE} - 1, 2), 16, 10) AS {number})"
    # The bits before those of a negative number are all 1.
    first = f"CAST(if(substr(hex({value}), 1, 1) >= '8', -1, 0) AS {number})"
    total = f"try_cast(try_add(try_multiply({_TOTAL}, 256), {byte}) AS {number})"
    places = f"sequence(1, length({value}))"
    return f"CAST(aggregate({places}, {first}, ({_TOTAL}, {_PLACE}) -> {total}) AS STRING)"
