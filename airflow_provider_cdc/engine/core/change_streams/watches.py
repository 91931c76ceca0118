"""Which tables, keys and columns a change stream watches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ..delta.table_schema import Layout, physical_name
from ..errors import InvalidRequest
from ..model.sources import Source
from ..names import name_key


class Columns(StrEnum):
    """``ALL`` watches every column of a table, and those that are added later."""

    ALL = "ALL"


ALL = Columns.ALL


@dataclass(frozen=True, slots=True)
class Watch:
    """What to watch of a table.

    Spanner: the columns of the key are always there, and are not listed.

    :param keys: the columns that identify a row; without any, its row id does
    :param columns: ``ALL``, or the columns beside the key. An empty list watches the key only: then
        inserts and deletes give records, and updates give none
    """

    keys: Sequence[str] = ()
    columns: Columns | Sequence[str] = ALL


@dataclass(frozen=True, slots=True)
class WatchedTable:
    """A table of a change stream.

    ``name`` is the name in its records. ``keys`` and ``columns`` are the physical names of columns,
    which a rename keeps. ``columns`` is ``None`` for all. ``sealed`` and ``captured`` are the last
    versions that a tick sealed, and that were captured. ``stream`` names the stream that makes the
    table keep what is not captured.
    """

    name: str
    source: Source
    keys: tuple[str, ...]
    columns: tuple[str, ...] | None
    stream: str
    sealed: int
    captured: int

    def watches(self, field: Mapping[str, Any]) -> bool:
        """Whether a column beside the key is watched.

        :param field: the column as a schema describes it
        """
        name = physical_name(field)
        return name not in self.keys and (self.columns is None or name in self.columns)


def resolved(
    subject: str, table: str, watch: Watch, layout: Layout
) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """The physical names of the keys, and of the columns beside them; ``None``: all columns.

    :param subject: the change stream, for messages
    :param table: the name of the table
    :raises InvalidRequest: a column is unknown, is named twice, or cannot be a key
    """
    fields = {name_key(field["name"]): field for field in layout.fields}
    keys = _found(subject, table, "keys", watch.keys, fields)
    nested = next((field["name"] for field in keys if not _may_be_key(field["type"])), None)
    if nested is not None:
        raise _refused(
            subject,
            table,
            f"column {nested} has a type whose values cannot be keys",
            "name columns with plain values, or no key: then the row id is the key",
        )
    names = tuple(physical_name(field) for field in keys)
    if isinstance(watch.columns, str):
        if watch.columns != ALL:
            raise _refused(
                subject,
                table,
                f"expected ALL or a list of columns, found {watch.columns!r}",
                "write columns=['balance'], columns=[] for the key only, or columns=ALL",
            )
        return names, None
    columns = _found(subject, table, "columns", watch.columns, fields)
    both = next((field["name"] for field in columns if physical_name(field) in names), None)
    if both is not None:
        raise _refused(
            subject,
            table,
            f"column {both} is in keys and in columns",
            "leave it out of columns: each record has the key",
        )
    return names, tuple(physical_name(field) for field in columns)


def _found(
    subject: str,
    table: str,
    argument: str,
    names: Sequence[str],
    fields: Mapping[str, Mapping[str, Any]],
) -> list[Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for name in names:
        key = name_key(name)
        if key not in fields:
            known = ", ".join(str(field["name"]) for field in fields.values())
            raise _refused(
                subject,
                table,
                f"{argument} names {name}, and the columns are {known}",
                "name these",
            )
        if key in found:
            raise _refused(subject, table, f"{argument} names {name} twice", "name it once")
        found[key] = fields[key]
    return list(found.values())


def _may_be_key(kind: Any) -> bool:
    return isinstance(kind, str) and kind != "variant"


def _refused(subject: str, table: str, cause: str, fix: str) -> InvalidRequest:
    return InvalidRequest(subject, f"cannot watch {table}", cause=cause, fix=fix)
