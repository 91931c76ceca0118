"""Values in files of the state folder: JSON in an envelope with the number of its format."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from ...core.model.json_text import from_json, to_json

Value = TypeVar("Value")

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class _Stored:
    """A value as it is stored. The ``nonce`` distinguishes equal values of two writers."""

    format: int
    nonce: str
    value: msgspec.Raw


class NotReadable(Exception):
    """The content of a file is not a value of this version; the message says why."""


def stored(value: object) -> bytes:
    """The content of a file for a frozen dataclass. No other call returns the same content."""
    raw = msgspec.Raw(to_json(value).encode())
    return to_json(_Stored(_FORMAT, uuid.uuid4().hex, raw)).encode()


def read_back(content: bytes, kind: type[Value]) -> Value:
    """The value that :func:`stored` was given.

    :raises NotReadable: the content is of another version, or damaged
    """
    try:
        found = from_json(content, _Stored)
        if found.format == _FORMAT:
            return from_json(bytes(found.value), kind)
    except msgspec.MsgspecError as error:
        raise NotReadable(str(error)) from None
    raise NotReadable(f"it has the format {found.format}, and {_FORMAT} is known")
