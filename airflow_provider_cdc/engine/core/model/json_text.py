"""The JSON text of the classes of the model. All of them are frozen."""

from __future__ import annotations

from threading import Lock
from typing import Any, TypeVar

import msgspec

Value = TypeVar("Value")


def to_json(value: object) -> str:
    """Encode a frozen dataclass of this package as JSON."""
    return msgspec.json.encode(value).decode()


def from_json(text: str | bytes, kind: type[Value]) -> Value:
    """Decode the dataclass from the ``text`` that :func:`to_json` made.

    :raises msgspec.ValidationError: ``text`` does not describe a ``kind``
    """
    return _decoder(kind).decode(text)


_decoders: dict[type, msgspec.json.Decoder[Any]] = {}
_building = Lock()


def _decoder(kind: type[Value]) -> msgspec.json.Decoder[Value]:
    """The decoder of ``kind``, made once.

    One thread makes it and the others wait. msgspec shares what it knows about a class with other
    threads before that is complete. A thread that decodes with incomplete knowledge crashes the
    interpreter.
    """
    found = _decoders.get(kind)
    if found is None:
        with _building:
            found = _decoders.get(kind)
            if found is None:
                found = _decoders[kind] = msgspec.json.Decoder(kind)
    return found
