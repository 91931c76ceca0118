"""Whether the newer type of a column holds every value of its older type."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .table_schema import OlderFields

_WHOLE = ("byte", "short", "integer", "long")
# How many digits the largest value of each type has.
_DIGITS = dict(zip(_WHOLE, (3, 5, 10, 19), strict=True))
# Casts with the same result in every session. The text of a timestamp, and the moment at which a
# date begins, depend on the session's time zone.
_WIDER = {
    **{kind: _WHOLE[place + 1 :] for place, kind in enumerate(_WHOLE)},
    "date": ("timestamp_ntz",),
    "float": ("double",),
}
_FLOATING = {"byte": ("float", "double"), "short": ("float", "double"), "integer": ("double",)}
_AS_TEXT = frozenset({*_WHOLE, "float", "double", "boolean", "date", "timestamp_ntz"})
_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")
# With more digits after the point, some sessions write small numbers with an exponent.
_MOST_PLAIN_DIGITS = 6


@dataclass(frozen=True, slots=True)
class TypeChange:
    """A change of the type of ``column``, a path of names, from ``before`` to ``now``."""

    column: str
    before: str
    now: str


def lossy_change(
    newer: Sequence[Mapping[str, Any]], older: Sequence[Mapping[str, Any]]
) -> TypeChange | None:
    """The first column of ``newer`` whose type may lose or refuse values that it held in ``older``.

    ``None``: there is no such column.

    :param newer: the fields of a schema, in their JSON form
    :param older: the fields of an older schema
    """
    return _among("", newer, older)


def _among(
    prefix: str, newer: Sequence[Mapping[str, Any]], older: Sequence[Mapping[str, Any]]
) -> TypeChange | None:
    older_fields = OlderFields(older)
    for field in newer:
        before = older_fields.match(field)
        if before is not None:
            found = _between(f"{prefix}{field['name']}", before["type"], field["type"])
            if found is not None:
                return found
    return None


def _between(column: str, before: Any, now: Any) -> TypeChange | None:
    if isinstance(before, str) or isinstance(now, str):
        holds = isinstance(before, str) and _holds(before, now)
        return None if holds else TypeChange(column, _name(before), _name(now))
    match before["type"], now["type"]:
        case "struct", "struct":
            return _among(f"{column}.", now["fields"], before["fields"])
        case "array", "array":
            return _between(f"{column}.element", before["elementType"], now["elementType"])
        case "map", "map":
            return _between(f"{column}.key", before["keyType"], now["keyType"]) or _between(
                f"{column}.value", before["valueType"], now["valueType"]
            )
    return TypeChange(column, _name(before), _name(now))


def _holds(before: str, now: Any) -> bool:
    if before in (now, "void"):
        return True
    if not isinstance(now, str):
        return False
    if now == "string":
        return before in _AS_TEXT or _is_plain(before)
    if wanted := _DECIMAL.fullmatch(now):
        digits, scale = _decimal(before)
        precision, new_scale = map(int, wanted.groups())
        return digits is not None and precision - new_scale >= digits and new_scale >= scale
    return now in (*_WIDER.get(before, ()), *_FLOATING.get(before, ()))


def _is_plain(kind: str) -> bool:
    """Whether values of ``kind`` are decimals that every session writes in the same way."""
    found = _DECIMAL.fullmatch(kind)
    return found is not None and 0 <= int(found[2]) <= _MOST_PLAIN_DIGITS


def _decimal(kind: str) -> tuple[int | None, int]:
    """How many digits values of ``kind`` may have before and after the point.

    The first number is ``None`` if ``kind`` is not an exact number.
    """
    found = _DECIMAL.fullmatch(kind)
    if found is None:
        return _DIGITS.get(kind), 0
    precision, scale = map(int, found.groups())
    return precision - scale, scale


def _name(kind: Any) -> str:
    return kind if isinstance(kind, str) else str(kind["type"])
