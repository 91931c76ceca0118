"""The text of a stream's state in the registry, and what is known of one that cannot be read.

A text is written only after a check that it reads back equal. A text from another program, from a
newer version of this package or from a damaged file is read as an :class:`UnreadableStream`. Only
that stream is unusable, until it is dropped, replaced or repaired.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import Any, TypeVar, get_type_hints

import msgspec

from ..errors import InvalidRequest, StreamUnreadable
from .json_text import from_json, to_json
from .sources import Base
from .stream import Stream

FORMAT = 1
"""The format of the text. A change that older versions would misread gets the next number."""

ALTERABLE = ("comment", "owner", "readers", "consumers", "max_data_extension", "max_lag")
"""The fields of a stream that ``alter_stream`` sets."""

_REPLACE = (
    "replace it with CreateStream or create_stream (or_replace=True), or drop it with DropStream or"
    " drop_stream"
)

DROPPED_UNREAD = ""
"""The text of a stream that was dropped while it could not be read."""

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class _Stored:
    """The text as it is stored: the number of its format, and the stream."""

    format: int
    stream: msgspec.Raw


@dataclass(frozen=True, slots=True)
class UnreadableStream:
    """A stream whose state cannot be read.

    ``parts`` are the fields that can still be read. ``faults`` holds, for each of the others, why
    it cannot be read. ``is_newer``: a newer version of this package wrote it.
    """

    stream_id: str
    name: str
    sequence: int
    reason: str
    parts: Mapping[str, Any] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)
    is_newer: bool = False

    def __repr__(self) -> str:
        """The stream and the reason, in one line."""
        return f"stream {self.name} cannot be read: {self.reason}"

    @property
    def owner(self) -> str | None:
        """The principal that owns it. ``None``: the owner cannot be read."""
        return self.parts.get("owner")

    @property
    def readers(self) -> tuple[str, ...] | None:
        """The principals who may read it. ``None``: every principal, or the list cannot be read."""
        return self.parts.get("readers")

    @property
    def consumers(self) -> tuple[str, ...] | None:
        """The principals who may consume it. ``None``: its readers, or the list cannot be read."""
        return self.parts.get("consumers")

    @property
    def upsert_table(self) -> str | None:
        """The upsert table whose changes wait in it, as far as that can be read."""
        return self.parts.get("upsert_table")

    @property
    def bases(self) -> tuple[Base, ...] | None:
        """The tables that it reads. ``None``: they cannot be read."""
        return self.parts.get("bases")

    @property
    def error(self) -> StreamUnreadable:
        """The error that every use of the stream raises."""
        if self.is_newer:
            fix = "upgrade airflow-provider-cdc here to the version that wrote it"
        elif self._is_alterable:
            fix = f"set {', '.join(self.faults)} with AlterStream or alter_stream, {_REPLACE}"
        else:
            fix = _REPLACE
        return StreamUnreadable(f"stream {self.name}", "cannot be read", cause=self.reason, fix=fix)

    def repaired(self, given: Mapping[str, Any]) -> Stream:
        """The stream with ``given`` in place of the fields that cannot be read.

        :param given: fields of :class:`Stream`
        :raises StreamUnreadable: a field still cannot be read
        """
        if not self._is_alterable or not set(self.faults) <= set(given):
            raise self.error
        return Stream(**{**self.parts, "sequence": self.sequence, **given})

    @property
    def _is_alterable(self) -> bool:
        return bool(self.faults) and set(self.faults) <= set(ALTERABLE) and not self.is_newer


def stream_text(stream: Stream | UnreadableStream) -> str:
    """The text of ``stream`` for the registry, which :func:`read_stream` reads back equal.

    :raises InvalidRequest: the stream holds a value that cannot be read back
    """
    if isinstance(stream, UnreadableStream):
        return DROPPED_UNREAD
    text = readable_json(f"stream {stream.name}", stream)
    return to_json(_Stored(FORMAT, msgspec.Raw(text.encode())))


def readable_json(subject: str, value: object) -> str:
    """The JSON of a frozen dataclass, after a check that it reads back equal.

    :param subject: what is stored, for the message
    :raises InvalidRequest: ``value`` holds something of a wrong type
    """
    try:
        text = to_json(value)
        found = from_json(text, type(value))
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise _unstorable(subject, str(error)) from error
    if found != value:
        raise _unstorable(subject, "expected to read back the written value, found another")
    return text


def read_stream(
    text: str, *, stream_id: str, name: str, sequence: int
) -> Stream | UnreadableStream:
    """The stream from the ``text`` that :func:`stream_text` made, or what is known of it.

    :param stream_id: the id in the row of the registry; ``name`` and ``sequence`` are from there
        too
    """
    is_newer, state = False, text
    try:
        stored = from_json(text, _Stored)
        is_newer, state = stored.format > FORMAT, bytes(stored.stream).decode()
        if not is_newer:
            return from_json(state, Stream)
        reason = (
            f"a newer version of airflow-provider-cdc wrote it: expected format {FORMAT},"
            f" found {stored.format}"
        )
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        reason = str(error)
    if text == DROPPED_UNREAD:
        reason = "it was dropped while its record could not be read"
    parts, faults = _parts(state)
    if faults and not is_newer:
        reason = "; ".join(f"{field}: {fault}" for field, fault in faults.items())
    return UnreadableStream(stream_id, name, sequence, reason, parts, faults, is_newer)


def unusable(stream: Stream, reason: str) -> UnreadableStream:
    """What is known of a ``stream`` whose record can be read but is wrong, for ``reason``."""
    parts = {each.name: getattr(stream, each.name) for each in fields(Stream)}
    return UnreadableStream(stream.stream_id, stream.name, stream.sequence, reason, parts)


def _parts(state: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The fields of a stream that can be read, and why the others cannot."""
    try:
        given = msgspec.json.decode(state, type=dict[str, msgspec.Raw])
    except msgspec.MsgspecError:
        return {}, {}
    parts: dict[str, Any] = {}
    faults: dict[str, str] = {}
    for each in fields(Stream):
        if each.name in given:
            try:
                parts[each.name] = _decoder(each.name).decode(given[each.name])
            except msgspec.MsgspecError as error:
                faults[each.name] = str(error)
        elif each.default is MISSING:
            faults[each.name] = "it is missing"
    return parts, faults


@cache
def _decoder(name: str) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(get_type_hints(Stream)[name])


def _unstorable(subject: str, cause: str) -> InvalidRequest:
    return InvalidRequest(
        subject,
        "cannot be stored, nothing was written",
        cause=cause,
        fix="correct the argument that the cause names",
    )
