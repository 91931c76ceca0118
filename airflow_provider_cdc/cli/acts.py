"""The acts of both command lines: their arguments, as users write them, and what they print."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from decimal import Decimal
from typing import Any

from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.core.arguments.points import Point, as_mapping, point_of
from airflow_provider_cdc.engine.core.errors import InvalidRequest, StreamNotFound
from airflow_provider_cdc.engine.core.folders.file_options import options_as_text
from airflow_provider_cdc.engine.core.model.access import Right
from airflow_provider_cdc.engine.core.model.stream import Stream
from airflow_provider_cdc.engine.core.model.stream_spec import StreamSpec
from airflow_provider_cdc.jobs.model import ReadStream, RewindStream, StreamRows

_LISTS = ("readers", "consumers")
_OPTIONAL = ("comment", "max_lag", *_LISTS)
_POINTS = ("version", "timestamp", "offset_of")


def stream_spec(name: str, given: Mapping[str, Any]) -> StreamSpec:
    """The stream that a user asks ``create`` for.

    :param given: the options of :data:`~.act_options.CREATE_OPTIONS` by their names; ``None``: an
        option is not given
    :raises CdcError: an option has a wrong value
    """
    values = _values(given)
    for option in ("at", "before"):
        if option in values:
            values[option] = _point(f"--{option}", values[option])
    if "file_options" in values:
        values["file_options"] = options_as_text(
            json_object("--file-options", values["file_options"])
        )
    defaults = {field.name: field.default for field in fields(StreamSpec)} | {"mode": None}
    return StreamSpec.parsed(**defaults | values | {"name": name})


def existing_stream(catalog: StreamCatalog, spec: StreamSpec) -> Stream | None:
    """The stream that ``create --if-not-exists`` finds, so that it needs no Spark."""
    if not spec.if_not_exists:
        return None
    try:
        return catalog.get_stream(spec.name)
    except StreamNotFound:
        return None


def rewind_task(catalog: StreamCatalog, name: str, to: str) -> RewindStream:
    """The task of ``rewind``.

    :param to: the point, such as ``version=3``
    :raises CdcError: there is no such stream, the principal may not consume it, or ``to`` is not a
        point
    """
    point = as_mapping(_point("--to", to))
    return RewindStream(catalog.permitted(name, Right.CONSUME).name, point)


def read_task(catalog: StreamCatalog, name: str, limit: int) -> ReadStream:
    """The task of ``read``.

    :raises CdcError: there is no such stream, the principal may not read it, or ``limit`` is not a
        number of rows
    """
    task = ReadStream(name, limit)
    catalog.permitted(name, Right.READ)
    return task


def altered_line(catalog: StreamCatalog, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Alter a stream, and return what changed, as in JSON.

    :param given: the options of :data:`~.act_options.ALTER_OPTIONS`, as for :func:`stream_spec`
    :raises CdcError: nothing is given, an option has a wrong value, or the stream cannot be altered
    """
    values = _values(given)
    for each in values.pop("without", ()):
        removed = each.replace("-", "_")
        if removed not in _OPTIONAL or removed in values:
            raise InvalidRequest(
                f"--without {each}",
                "cannot be used",
                cause=f"expected one of {', '.join(_OPTIONAL)} that is not set at the same time",
                fix="correct the option",
            )
        values[removed] = None
    if not values:
        raise InvalidRequest(
            f"stream {name}",
            "is not altered",
            cause="no option says what to change",
            fix="give an option such as --comment or --max-lag; --help lists them",
        )
    stream = catalog.alter_stream(name, **values)
    return {"stream": stream.name, "did": "alter", **values}


def stream_line(did: str, stream: Stream) -> dict[str, Any]:
    """What an act did to a stream, as in JSON."""
    return {
        "stream": stream.name,
        "did": did,
        "source": stream.table_on,
        "mode": stream.mode.value,
        "offsets": [base.offset.version for base in stream.bases],
    }


def row_lines(found: StreamRows) -> list[dict[str, Any]]:
    """The rows of a change set, as in JSON."""
    return [json.loads(row, parse_float=_number) for row in found.rows]


def json_object(subject: str, text: str) -> dict[str, Any]:
    """The JSON object that ``text`` holds.

    :param subject: what holds it, for the error
    :raises InvalidRequest: it holds something else; the message does not repeat ``text``
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InvalidRequest(
            subject,
            "cannot be read",
            cause="expected a JSON object, found something else",
            fix='write something like {"AWS_REGION": "eu-west-1"}',
        )
    return found


def _values(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are given. A list without a name is empty: nobody."""
    found = {name: value for name, value in given.items() if value not in (None, [], False)}
    return found | {
        name: [each for each in found[name] if each] for name in _LISTS if name in found
    }


def _point(option: str, text: str) -> Point:
    kind, is_there, value = text.partition("=")
    kind = kind.strip().replace("-", "_")
    if not is_there or kind not in _POINTS:
        raise InvalidRequest(
            f"{option} {text}",
            "is not a point in the history of a source",
            cause=f"expected {', '.join(f'{each}=...' for each in _POINTS)}",
            fix=f"write {option} version=3 or {option} timestamp=2026-01-01T00:00:00Z",
        )
    point = point_of({kind: value.strip()})
    assert point is not None  # a mapping names a point, or is refused
    return point


def _number(text: str) -> float | str:
    """A number as a float, or as text if a float has fewer digits."""
    found = float(text)
    return found if Decimal(repr(found)) == Decimal(text) else text
