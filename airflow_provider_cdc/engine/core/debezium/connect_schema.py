"""The schema in a message (Kafka Connect's): the columns of the table that the message is about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ..errors import InvalidRequest
from .envelope import AFTER, BEFORE
from .wire_types import (
    MOST_DIGITS,
    WireColumn,
    WireType,
    array_of,
    days,
    decimal_with_scale,
    map_of,
    plain,
    struct_of,
    units_since_1970,
    unscaled_decimal,
    zoned_time,
)

_PLAIN = {
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INT",
    "int64": "BIGINT",
    "float": "FLOAT",
    "float32": "FLOAT",
    "double": "DOUBLE",
    "float64": "DOUBLE",
    "boolean": "BOOLEAN",
    "string": "STRING",
    "bytes": "BINARY",
}
_LOGICAL: Mapping[str, Callable[[], WireType]] = {
    "io.debezium.time.Date": days,
    "org.apache.kafka.connect.data.Date": days,
    "io.debezium.time.Timestamp": lambda: units_since_1970("ms"),
    "org.apache.kafka.connect.data.Timestamp": lambda: units_since_1970("ms"),
    "io.debezium.time.MicroTimestamp": lambda: units_since_1970("us"),
    "io.debezium.time.NanoTimestamp": lambda: units_since_1970("ns"),
    "io.debezium.time.ZonedTimestamp": zoned_time,
    "io.debezium.data.VariableScaleDecimal": decimal_with_scale,
}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_WIDER = (("TINYINT", "SMALLINT", "INT", "BIGINT"), ("FLOAT", "DOUBLE"))


def columns_of_schemas(subject: str, texts: Sequence[str]) -> tuple[WireColumn, ...]:
    """The columns of the rows in messages with these schemas.

    A column that only some schemas have is a column too. A number has the widest of its types.

    :param subject: the subject of an error
    :param texts: the schemas as JSON, the oldest first
    :raises InvalidRequest: one is not the schema of an envelope, or two give a column types that
        cannot be read together
    """
    schemas = [_decoded(subject, text) for text in texts]
    # The name of an envelope has the name of its table in it.
    tables = {str(each["name"]): None for each in schemas if each.get("name") is not None}
    if len(tables) > 1:
        raise InvalidRequest(
            subject,
            "has Debezium messages of several tables",
            cause=f"their schemas are {', '.join(tables)}",
            fix="let a query return the messages of one table, such as WHERE topic = 'shop.public."
            "customers'",
        )
    found: dict[str, WireType] = {}
    for schema in reversed(schemas):
        for name, kind in _columns_of(subject, schema):
            found[name] = _common(subject, name, found.get(name, kind), kind)
    return tuple(WireColumn(name, kind) for name, kind in found.items())


def _decoded(subject: str, text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:
        raise _no_envelope(subject) from None


def _columns_of(subject: str, schema: Mapping[str, Any]) -> Iterable[tuple[str, WireType]]:
    try:
        rows = [each for each in schema["fields"] if each.get("field") in (BEFORE, AFTER)]
        fields = rows[-1]["fields"]
        return [(str(each["field"]), _type_of(subject, each)) for each in fields]
    except (LookupError, TypeError, AttributeError):
        raise _no_envelope(subject) from None


def _no_envelope(subject: str) -> InvalidRequest:
    return InvalidRequest(
        subject,
        "cannot read a Debezium message",
        cause="its schema has no field before or after",
        fix="let the source return only messages of one table, without heartbeats and"
        " transaction marks",
    )


def _type_of(subject: str, schema: Mapping[str, Any]) -> WireType:
    name, kind = str(schema.get("name")), schema["type"]
    if name in _LOGICAL:
        return _LOGICAL[name]()
    if name == _DECIMAL:
        return _decimal(subject, schema)
    if kind == "struct":
        fields = (
            WireColumn(str(each["field"]), _type_of(subject, each)) for each in schema["fields"]
        )
        return struct_of(fields)
    if kind == "array":
        return array_of(_type_of(subject, schema["items"]))
    if kind == "map" and schema["keys"]["type"] == "string":
        return map_of(_type_of(subject, schema["values"]))
    if kind in _PLAIN:
        return plain(_PLAIN[kind])
    raise _unreadable(subject, schema, f"its type is {kind}")


def _decimal(subject: str, schema: Mapping[str, Any]) -> WireType:
    parameters = schema.get("parameters") or {}
    scale = int(parameters.get("scale", 0))
    digits = int(parameters.get("connect.decimal.precision", MOST_DIGITS))
    if digits > MOST_DIGITS or not 0 <= scale <= MOST_DIGITS:
        raise _unreadable(subject, schema, f"it has {digits} digits and the scale {scale}")
    return unscaled_decimal(digits, scale)


def _unreadable(subject: str, schema: Mapping[str, Any], cause: str) -> InvalidRequest:
    return InvalidRequest(
        subject,
        f"cannot read the column {schema.get('field', '')} of a Debezium message",
        cause=cause,
        fix="let Debezium write it as text, such as with decimal.handling.mode=string, or leave it"
        " out with column.exclude.list",
    )


def _common(subject: str, name: str, newer: WireType, older: WireType) -> WireType:
    """The type as which the values of two schemas can be read."""
    if newer == older:
        return newer
    both = (newer, older)
    for kinds in _WIDER:
        if all(each.type in kinds and not each.is_converted for each in both):
            return plain(max(newer.type, older.type, key=kinds.index))
    if all(each.type.startswith("DECIMAL") for each in both):
        return _wider_decimal(subject, name, newer, older)
    raise _changed(subject, name, newer, older)


def _wider_decimal(subject: str, name: str, newer: WireType, older: WireType) -> WireType:
    (digits, scale), (others, scale_before) = map(_digits, (newer, older))
    if scale != scale_before:
        raise _changed(subject, name, newer, older)
    return unscaled_decimal(max(digits, others), scale)


def _digits(kind: WireType) -> tuple[int, int]:
    digits, scale = kind.type.removeprefix("DECIMAL(").removesuffix(")").split(", ")
    return int(digits), int(scale)


def _changed(subject: str, name: str, newer: WireType, older: WireType) -> InvalidRequest:
    return InvalidRequest(
        subject,
        f"cannot read the column {name} of Debezium messages with two schemas at once",
        cause=f"it was {older.type}, and is {newer.type} now",
        fix="apply the older messages first, such as with max_commits=1; if the column has another"
        " type from then on, let the database and the target have a new column",
    )
