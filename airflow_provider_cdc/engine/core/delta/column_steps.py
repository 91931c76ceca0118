"""The steps by which a column of a Delta table comes to hold the values of another type too.

A field is added at the end of a struct, and a type is widened (Delta: type widening). Each step
changes only the metadata of the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .type_changes import lossy_change

_INTEGERS = frozenset({"byte", "short", "integer", "long"})
_PARTS = {"elementType": "element", "keyType": "key", "valueType": "value"}


@dataclass(frozen=True, slots=True)
class Rename:
    """Give a column another name."""

    column: str
    name: str


@dataclass(frozen=True, slots=True)
class Add:
    """Add a column, or a field inside a column: the last part of ``path``. ``type`` is in the JSON
    form of schemas.
    """

    path: tuple[str, ...]
    type: Any


@dataclass(frozen=True, slots=True)
class Widen:
    """Give a column a wider type."""

    column: str
    type: Any


Step = Rename | Add | Widen


def adapted(name: str, stored: Any, wanted: Any) -> list[Step] | None:
    """The steps after which a column of type ``stored`` holds every value of both types.

    ``None``: there are no such steps.
    """
    stored, wanted = plain(stored), plain(wanted)
    if stored == wanted:
        return []
    if isinstance(stored, str) or isinstance(wanted, str):
        if _widens(wanted, stored):
            return []
        return [Widen(name, wanted)] if _widens(stored, wanted) else None
    return _extended((name,), stored, wanted)


def _widens(stored: Any, wanted: Any) -> bool:
    """Whether Delta widens the one type to the other (type widening)."""
    if not (isinstance(stored, str) and isinstance(wanted, str)) or wanted == "string":
        return False
    if stored == "void" or (stored in _INTEGERS and wanted == "float"):
        return False
    return lossy_change([_field(wanted)], [_field(stored)]) is None


def _extended(path: tuple[str, ...], stored: Any, wanted: Any) -> list[Step] | None:
    """The fields to add at the ends of structs so that ``stored`` becomes ``wanted``."""
    if stored == wanted:
        return []
    if isinstance(stored, str) or isinstance(wanted, str) or stored["type"] != wanted["type"]:
        return None
    steps: list[Step] = []
    if stored["type"] == "struct":
        older, newer = stored["fields"], wanted["fields"]
        if [each["name"] for each in older] != [each["name"] for each in newer[: len(older)]]:
            return None
        pairs = [
            ((*path, one["name"]), one["type"], other["type"])
            for one, other in zip(older, newer, strict=False)
        ]
        added = [Add((*path, each["name"]), each["type"]) for each in newer[len(older) :]]
    else:
        pairs = [
            ((*path, name), stored[part], wanted[part])
            for part, name in _PARTS.items()
            if part in stored
        ]
        added = []
    for inner, one, other in pairs:
        found = _extended(inner, one, other)
        if found is None:
            return None
        steps.extend(found)
    return [*steps, *added]


def plain(kind: Any) -> Any:
    """A type without the ids of its fields and the lengths of its texts."""
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        fields = kind["fields"]
        return {
            "type": "struct",
            "fields": [{**_field(each["type"]), "name": each["name"]} for each in fields],
        }
    return {name: plain(value) if name in _PARTS else value for name, value in kind.items()}


def _field(kind: Any) -> dict[str, Any]:
    return {"name": "value", "type": plain(kind), "nullable": True, "metadata": {}}
