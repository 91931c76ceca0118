"""Applies changes that are all newer than the base, without comparing them with its rows.

Conditions on rows of the target make MERGE read all its columns, and read them twice. If sequence
numbers only grow, like positions in a log, no such condition is needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ..delta.key_pruning import Intervals
from ..delta.log_actions import DataFile
from ..names import quote
from .change_rows import SEQUENCE, column_list
from .definition import STATE, UpsertTable
from .merge_sql import IS_DELETE, assigned, merge_head, new_state, winners


def are_newer(changes: Iterable[DataFile], base: Iterable[Mapping[str, Any]]) -> bool:
    """Whether each change has a greater sequence number than every row of a base.

    The answer comes from statistics. It is false if the statistics do not show it.

    :param changes: the files of the waiting changes
    :param base: the files of the base, as the ``add`` actions of its log
    """
    newest = [_bound(file.get("stats"), "maxValues", STATE, "sequence") for file in base]
    oldest = [_bound(file.stats, "minValues", SEQUENCE) for file in changes]
    known = [bound for bound in newest if bound is not None]
    changed = [bound for bound in oldest if bound is not None]
    if len(known) < len(newest) or len(changed) < len(oldest) or not changed:
        return False
    return min(changed) > max(known, default="")


def newer_text(
    table: UpsertTable,
    changes: str,
    untouched: Intervals | None = None,
    *,
    are_few: bool = False,
) -> str:
    """Like :func:`apply_text`, for changes that are all newer than every row of the base."""
    columns = [*table.values, STATE]
    values = [
        *(f"if({IS_DELETE}, NULL, c.{name}) AS {name}" for name in map(quote, table.values)),
        f"if({IS_DELETE}, {new_state(is_deleted=True)}, {new_state(is_deleted=False)})"
        f" AS {quote(STATE)}",
    ]
    every = [*table.primary_key, *columns]
    source = (
        f"SELECT {column_list(table.primary_key, 'c.')}, {', '.join(values)}"
        f" FROM ({winners(table, changes)}) AS c"
    )
    return "\n".join(
        (
            merge_head(table, source, untouched, are_few=are_few),
            "WHEN MATCHED THEN UPDATE SET"
            f" {assigned([(name, f'c.{quote(name)}') for name in columns])}",
            f"WHEN NOT MATCHED THEN INSERT ({column_list(every)})"
            f" VALUES ({column_list(every, 'c.')})",
        )
    )


def _bound(statistics: str | None, kind: str, *path: str) -> str | None:
    found: Any = json.loads(statistics or "{}").get(kind, {})
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, str) else None
