"""The one SQL query of a change stream that Spanner documents.

``SELECT ChangeRecord FROM READ_<change stream>(start_timestamp => ..., ...)``. Any other shape is
refused by name, as Spanner refuses joins and filters of this function.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from ..errors import InvalidStatement
from ..names import name_key
from ..shown_values import shown

_PREFIX = "read_"
_PARTS = ("expressions", "from_", "kind")
_COLUMN = "changerecord"
_ARGUMENTS = ("start_timestamp", "end_timestamp", "partition_token", "heartbeat_milliseconds")
_REQUIRED = ("start_timestamp", "heartbeat_milliseconds")
_SHAPE = (
    "write SELECT ChangeRecord FROM READ_<change stream>(start_timestamp => ..., end_timestamp =>"
    " ..., partition_token => ..., heartbeat_milliseconds => ...)"
)


@dataclass(frozen=True, slots=True)
class ReadCall:
    """The change stream that a query names, and its four arguments as they were written."""

    name: str
    start_timestamp: str | datetime
    end_timestamp: str | datetime | None
    partition_token: str | None
    heartbeat_milliseconds: int


def read_call(query: str, parameters: Mapping[str, Any]) -> ReadCall:
    """The call that ``query`` makes.

    :param parameters: the values of its parameters, which it writes as ``@name``
    :raises InvalidStatement: the query has another shape, or an argument has another type
    """
    try:
        parsed = sqlglot.parse_one(query, read="bigquery")
    except (SqlglotError, RecursionError):
        raise _refused("it cannot be parsed") from None
    function = _function(parsed)
    given = _arguments(function, parameters)
    missing = next((name for name in _REQUIRED if given.get(name) is None), None)
    if missing is not None:
        raise _refused(f"{missing} is not given")
    return ReadCall(
        function.name[len(_PREFIX) :],
        _checked(given, "start_timestamp", (str, datetime), "a time"),
        _checked(given, "end_timestamp", (str, datetime), "a time"),
        _checked(given, "partition_token", (str,), "a text"),
        _checked(given, "heartbeat_milliseconds", (int,), "a whole number"),
    )


def _function(parsed: object) -> exp.Anonymous:
    """The function that a query of the documented shape calls."""
    if not isinstance(parsed, exp.Select):
        raise _refused(f"it is no SELECT but {type(parsed).__name__.upper()}")
    other = next((name for name, part in parsed.args.items() if part and name not in _PARTS), None)
    if other is not None:
        raise _refused(f"it has {other.strip('_').upper()}")
    (column, *more) = parsed.expressions
    if more or not isinstance(column, exp.Column) or name_key(column.name) != _COLUMN:
        raise _refused("it selects something else than ChangeRecord")
    table = parsed.args["from_"].this if parsed.args.get("from_") else None
    if not isinstance(table, exp.Table):
        raise _refused("it has no FROM with one function")
    function = table.this
    is_plain = all(not part for name, part in table.args.items() if name != "this")
    if not isinstance(function, exp.Anonymous) or not is_plain:
        raise _refused("its FROM is not one function with arguments")
    if not name_key(function.name).startswith(_PREFIX) or len(function.name) == len(_PREFIX):
        raise _refused(f"its function is {function.name}")
    return function


def _arguments(function: exp.Anonymous, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the arguments, by name."""
    found: dict[str, Any] = {}
    if len(function.expressions) > len(_ARGUMENTS):
        raise _refused(f"it has {len(function.expressions)} arguments")
    for place, argument in enumerate(function.expressions):
        name, value = _ARGUMENTS[place], argument
        if isinstance(argument, exp.Kwarg):
            name, value = argument.this.name.lower(), argument.expression
        if name not in _ARGUMENTS:
            raise _refused(f"it has an argument {name}")
        if name in found:
            raise _refused(f"{name} is given twice")
        found[name] = _value(name, value, parameters)
    return found


def _value(name: str, value: exp.Expression, parameters: Mapping[str, Any]) -> Any:
    if isinstance(value, exp.Null):
        return None
    if isinstance(value, exp.Parameter):
        if value.name not in parameters:
            raise _refused(f"its parameter @{value.name} has no value")
        return parameters[value.name]
    if isinstance(value, exp.Cast) and value.is_type("timestamptz", "timestamp"):
        value = value.this
    if isinstance(value, exp.Literal):
        return value.this if value.is_string else _number(name, value.this)
    raise _refused(f"{name} is an expression")


def _number(name: str, text: str) -> int:
    if not text.isdecimal():
        raise _refused(f"{name} is {text}")
    return int(text)


def _checked(given: Mapping[str, Any], name: str, kinds: tuple[type, ...], words: str) -> Any:
    value = given.get(name)
    if value is None or (isinstance(value, kinds) and not isinstance(value, bool)):
        return value
    raise _refused(f"expected {words} as {name}, found {shown(value)}")


def _refused(cause: str) -> InvalidStatement:
    return InvalidStatement(
        "query of a change stream", "has another shape", cause=cause, fix=_SHAPE
    )
