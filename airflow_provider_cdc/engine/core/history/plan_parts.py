"""Pieces of SQL that plans of all kinds share."""

from __future__ import annotations

from collections.abc import Iterable

from ..names import quote
from .events import ACTION, KIND, REASON, SEQUENCE, TIE, Action
from .shape import RESERVED, HistoryShape

END, DELETED = f"{RESERVED}end", f"{RESERVED}deleted"
"""The end of a row to write, and whether it is one that marks a delete."""

IS_OF_A_KEY = f"{KIND} IN ('U', 'D')"
"""The condition of the events that say something about one key."""

_FILLED = f"{RESERVED}filled_"


def same_key(shape: HistoryShape, left: str, right: str) -> str:
    """The condition that rows of two relations have the same key. A NULL does not equal any key."""
    return " AND ".join(f"{left}.{name} = {right}.{name}" for name in map(quote, shape.keys))


def passed_on(shape: HistoryShape, action: Action, relation: str, condition: str) -> str:
    """Events that a plan passes on as they are."""
    return (
        f"SELECT {plan_columns(shape)} FROM (SELECT *, '{action}' AS {ACTION},"
        f" CAST(NULL AS {shape.sequence_type}) AS {END}, false AS {DELETED} FROM {relation}"
        f" WHERE {condition})"
    )


def plan_columns(shape: HistoryShape) -> str:
    """The columns of every row of a plan, in their order."""
    return ", ".join((ACTION, *map(quote, shape.data), KIND, SEQUENCE, END, DELETED, REASON))


def unless(condition: str, shape: HistoryShape) -> str:
    """True; if ``condition`` holds, the job ends because two events of a key are tied."""
    keys = ", ', ', ".join(f"CAST({name} AS STRING)" for name in map(quote, shape.keys))
    return f"if({condition}, raise_error(concat('{TIE}', {keys})) IS NULL, true)"


def content(names: Iterable[str]) -> str:
    """A struct of columns, which can be compared as one value."""
    return struct_of(f"{name} AS {name}" for name in map(quote, names))


def struct_of(fields: Iterable[str]) -> str:
    """A struct of expressions, each with its alias."""
    # A struct has a field; a target may have only a key.
    return f"struct({', '.join(('0 AS _cdc_0', *fields))})"


def listed(names: Iterable[str], prefix: str = "") -> str:
    """Columns as a list in SQL."""
    return ", ".join(f"{prefix}{quote(name)}" for name in names)


def resolved(shape: HistoryShape, name: str) -> str:
    """The column of an event's values after those were replaced that it left unchanged."""
    return quote(f"{_FILLED}{name}" if name in shape.filled else name)
