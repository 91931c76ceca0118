"""The JSON of stored values, as expressions of Spark SQL.

The text of an expression reaches Spark in one call. Built of functions, the expressions of a table
take a thousand calls, and longer than to read a partition.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from ...core.change_streams.captures import CapturedColumn
from ...core.change_streams.definition import Int64As
from ...core.names import text_value

_EPOCH = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"
# What JSON escapes within a text.
_ESCAPED = text_value(r'["\\\x00-\x1f]')


def object_json(fields: Iterable[tuple[CapturedColumn, str]], int64_as: Int64As) -> str:
    """The JSON of an object.

    :param fields: the column and the stored value of each of its fields
    """
    parts = [_field(column, value, int64_as) for column, value in fields]
    joined = ", ',', ".join(parts)
    return f"concat('{{', {joined}, '}}')" if parts else "'{}'"


def some_fields_json(fields: Iterable[tuple[CapturedColumn, str, str]], int64_as: Int64As) -> str:
    """The JSON of an object with only some of its fields.

    :param fields: the column and the stored value of each field, and whether it is there
    """
    parts = [
        f"CASE WHEN {is_there} THEN concat({_field(column, value, int64_as)}) END"
        for column, value, is_there in fields
    ]
    joined = ", ".join(["','", *parts])
    return f"concat('{{', concat_ws({joined}), '}}')"


def _field(column: CapturedColumn, value: str, int64_as: Int64As) -> str:
    """The name and the value, as two arguments of ``concat``."""
    name = text_value(f"{json.dumps(column.name, ensure_ascii=False)}:")
    return f"{name}, coalesce({_json(value, column.stored_as, int64_as)}, 'null')"


def _json(value: str, stored: str, int64_as: Int64As) -> str:
    """The JSON of a stored value. Spark's own ``to_json`` takes much longer for plain values."""
    text = f"CAST({value} AS STRING)"
    match stored:
        case "bigint" if int64_as is Int64As.NUMBER:
            return text
        case "boolean" | "json":
            return text
        case "float" | "double":
            # JSON has no numbers for NaN and the infinities.
            is_number = f"abs({value}) < CAST('Infinity' AS DOUBLE)"
            return f"CASE WHEN {is_number} THEN {text} ELSE {_in_quotes(text)} END"
        case "string":
            is_escaped = f"{value} RLIKE {_ESCAPED}"
            return f"CASE WHEN {is_escaped} THEN {_by_spark(value)} ELSE {_in_quotes(value)} END"
        case "binary":
            return _by_spark(value)
        case "timestamp":
            # In UTC, whatever the time zone of the session is, and with the shortest fraction.
            moment = f"timestampadd(MICROSECOND, unix_micros({value}), {_EPOCH})"
            return f"concat('\"', replace(CAST({moment} AS STRING), ' ', 'T'), 'Z\"')"
        case "timestamp_ntz":
            return _in_quotes(f"replace({text}, ' ', 'T')")
        case _:
            return _in_quotes(text)


def _in_quotes(text: str) -> str:
    return f"concat('\"', {text}, '\"')"


def _by_spark(value: str) -> str:
    """The JSON of a value as Spark makes it; NULL for NULL."""
    whole = f"to_json(named_struct('v', {value}))"
    return f"CASE WHEN {value} IS NOT NULL THEN substring({whole}, 6, length({whole}) - 6) END"
