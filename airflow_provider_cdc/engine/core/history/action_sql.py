"""The SQL of what the events of a plan do to the target, and to the memory beside it."""

from __future__ import annotations

from collections.abc import Iterable

from ..names import quote
from .events import ACTION, KIND, REASON, SEQUENCE, Action
from .plan_parts import DELETED, END, content, listed, plan_columns, resolved, struct_of
from .shape import HistoryShape


def actions_of_type_2(shape: HistoryShape) -> str:
    """The query of what is written if a target keeps all versions: the intervals that are new or
    differ, and those that the target must not have any more.
    """
    is_last = f"{KIND} = 'U' AND coalesce(_cdc_next_bound, true)"
    end = f"if(_cdc_is_final, {shape.open_end}, _cdc_next)"
    shown = {name: resolved(shape, name) for name in shape.values}
    values = struct_of(f"{value} AS {quote(name)}" for name, value in shown.items())
    row = "_cdc_begin.row"
    stays = f"{row}.end <=> {end} AND {row}.content <=> {values} AND NOT {row}.deleted"
    rows = [
        (
            Action.WRITE,
            f"{is_last} AND ({row} IS NULL OR NOT ({stays}))",
            shown,
            ("_cdc_begin.sequence", end, "false"),
        )
    ]
    keeps = "_cdc_begins"
    if shape.deleted is not None:
        keeps = "(_cdc_begins OR _cdc_ends)"
        before = {name: f"_cdc_values_before.{quote(name)}" for name in shape.values}
        until = f"coalesce(_cdc_next_begin, {shape.open_end})"
        is_there = (
            f"_cdc_row_here.end <=> {until} AND _cdc_row_here.content <=> _cdc_values_before"
            " AND _cdc_row_here.deleted"
        )
        rows.append(
            (
                Action.WRITE,
                f"_cdc_ends AND NOT coalesce({is_there}, false)",
                before,
                (SEQUENCE, until, "true"),
            )
        )
    raw = {name: quote(name) for name in shape.values}
    rows.append(
        (
            Action.REMOVE,
            f"_cdc_row_here IS NOT NULL AND NOT {keeps}",
            raw,
            (SEQUENCE, end, "false"),
        )
    )
    if shape.remembers:
        is_shown = (
            f"({is_last} AND _cdc_begins AND {_is_unfilled(shape)}) OR ({KIND} = 'D' AND _cdc_ends)"
        )
        condition = f"{KIND} <> 'T' AND {_must_be_kept(shape, is_shown)}"
        rows.append((Action.REMEMBER, condition, raw, (SEQUENCE, end, "false")))
    return _emitted(shape, rows)


def actions_of_type_1(shape: HistoryShape) -> str:
    """The query of what is written if a target keeps the newest row of each key."""
    shown = {name: resolved(shape, name) for name in shape.values}
    values = struct_of(f"{value} AS {quote(name)}" for name, value in shown.items())
    stays = f"_cdc_old.content <=> {values}"
    if shape.start is not None:
        stays += f" AND _cdc_old.start <=> {SEQUENCE}"
    typed_null = f"CAST(NULL AS {shape.sequence_type})"
    ends = (SEQUENCE, typed_null, "false")
    raw = {name: quote(name) for name in shape.values}
    rows = [
        (
            Action.WRITE,
            f"_cdc_is_final AND {KIND} = 'U' AND (_cdc_old IS NULL OR NOT ({stays}))",
            shown,
            ends,
        ),
        (Action.REMOVE, f"_cdc_is_final AND {KIND} <> 'U' AND _cdc_old IS NOT NULL", raw, ends),
    ]
    if shape.remembers:
        is_shown = f"_cdc_is_final AND {KIND} = 'U' AND {_is_unfilled(shape)}"
        counts = "_cdc_life = _cdc_last_life" if shape.filled else "_cdc_is_final"
        condition = f"{KIND} <> 'T' AND {counts} AND {_must_be_kept(shape, is_shown)}"
        rows.append((Action.REMEMBER, condition, raw, ends))
    return _emitted(shape, rows)


def _must_be_kept(shape: HistoryShape, is_shown: str) -> str:
    """The condition that the memory needs an event: no row shows it, or the memory has another
    event with its sequence.
    """
    same = f"{KIND} = 'D' OR _cdc_memory.content <=> {content(shape.values)}"
    is_known = f"coalesce(_cdc_memory.kind = {KIND} AND ({same}), false)"
    return f"NOT {is_known} AND (_cdc_memory IS NOT NULL OR NOT ({is_shown}))"


def _is_unfilled(shape: HistoryShape) -> str:
    same = (f"{quote(name)} <=> {resolved(shape, name)}" for name in shape.filled)
    return f"({' AND '.join(same)})" if shape.filled else "true"


Emission = tuple[Action, str, dict[str, str], tuple[str, str, str]]


def _emitted(shape: HistoryShape, rows: Iterable[Emission]) -> str:
    """The rows of a plan: of each event as many as its conditions allow."""
    candidates = []
    for action, condition, values, (sequence, end, is_deleted) in rows:
        fields = [f"'{action}' AS {ACTION}"]
        fields += [f"{values[name]} AS {quote(name)}" for name in shape.values]
        fields += [f"{KIND} AS {KIND}", f"{sequence} AS {SEQUENCE}", f"{end} AS {END}"]
        fields += [f"{is_deleted} AS {DELETED}"]
        candidates.append(f"if({condition}, struct({', '.join(fields)}), NULL)")
    found = f"filter(array({', '.join(candidates)}), each -> each IS NOT NULL)"
    inner = f"SELECT {listed(shape.keys)}, inline({found}) FROM _cdc_spans"
    reason = f"CAST(NULL AS STRING) AS {REASON}"
    return f"SELECT {plan_columns(shape)} FROM (SELECT *, {reason} FROM ({inner}))"
