"""The SQL that turns new events into the rows of a copy, without the history of their keys."""

from __future__ import annotations

from ..names import quote
from .events import ACTION, KIND, ORDER, REASON, SEQUENCE, Action
from .options import OnTie
from .plan_parts import DELETED, END, IS_OF_A_KEY, content, listed, passed_on, unless
from .shape import HistoryShape


def copy_sql(shape: HistoryShape, events: str, on_tie: OnTie) -> str:
    """The query of what to write, with the columns of :func:`~.plan_sql.plan_sql`, for a target
    that keeps the newest row of each key. No event is late, and NULL is a value.
    """
    keys, last = listed(shape.keys), f"struct({SEQUENCE}, {KIND}, {ORDER})"
    # A key has one row in each commit.
    tied = f"count_if({KIND} = 'U') > size(collect_set(if({KIND} = 'U', {SEQUENCE}, NULL)))"
    condition = "true" if on_tie is OnTie.LAST else unless(tied, shape)
    values = "".join(f", _cdc_values.{name} AS {name}" for name in map(quote, shape.values))
    newest = (
        f"SELECT {keys}, max_by({KIND}, {last}) AS {KIND},"
        f" max_by({content(shape.values)}, {last}) AS _cdc_values FROM {events}"
        f" WHERE {REASON} IS NULL AND {IS_OF_A_KEY} GROUP BY {keys} HAVING {condition}"
    )
    action = f"if({KIND} = 'U', '{Action.WRITE}', '{Action.REMOVE}')"
    typed_null = f"CAST(NULL AS {shape.sequence_type})"
    changed = (
        f"SELECT {action} AS {ACTION}, {keys}{values}, {KIND}, {typed_null} AS {SEQUENCE},"
        f" {typed_null} AS {END}, false AS {DELETED}, CAST(NULL AS STRING) AS {REASON}"
        f" FROM ({newest})"
    )
    refused = passed_on(shape, Action.QUARANTINE, events, f"{REASON} IS NOT NULL")
    marks = passed_on(shape, Action.REMEMBER, events, f"{REASON} IS NULL AND NOT {IS_OF_A_KEY}")
    return f"{changed} UNION ALL {refused} UNION ALL {marks}"
