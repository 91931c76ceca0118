"""The SQL that turns new events into the rows to write, by the whole history of their keys.

The history of a key is a function of the set of its events. The rows of the target show most
events: a row begins with an upsert, and ends with a delete if no other row begins there. The memory
keeps those that no row shows. So the events of a key are its rows, its memory and its new events.
Of the events with one sequence one counts. Windows over the events in order give the rows that the
target must have, and they are compared with those that it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..names import quote
from .action_sql import actions_of_type_1, actions_of_type_2
from .events import KIND, ORDER, REASON, SEQUENCE, Action, Kind
from .options import OnTie
from .plan_parts import (
    IS_OF_A_KEY,
    content,
    listed,
    passed_on,
    resolved,
    same_key,
    struct_of,
    unless,
)
from .shape import RESERVED, HistoryShape

_OF_THE_TARGET, _REMEMBERED, _NEW = 0, 1, 2
_ORIGIN = f"{RESERVED}origin"
_ROW = f"{RESERVED}row"
_NO_ORDER = "named_struct('version', 0L, 'row', 0L)"
_TIED = "_cdc_upserts > 1"


@dataclass(frozen=True, slots=True)
class Relations:
    """What a plan reads, as SQL relations.

    :param events: the new events
    :param target: the rows of the target that may have the key of an event
    :param memory: the events that no row shows; ``None``: it is empty
    """

    events: str
    target: str
    memory: str | None = None


def plan_sql(shape: HistoryShape, found: Relations, on_tie: OnTie) -> str:
    """The query of what to write.

    Each row has an :class:`Action`, the columns of the source, :data:`KIND`, :data:`SEQUENCE`,
    :data:`END`, :data:`DELETED` and :data:`REASON`.
    """
    ctes = {
        "fresh": f"SELECT * FROM {found.events} WHERE {REASON} IS NULL",
        **_cuts(shape, found),
        "touched": _touched(shape, found),
        "held": _semi_join(shape, f"SELECT * FROM {found.target}"),
        "every": _every(shape, found),
        "flagged": _flagged(shape, on_tie),
        "chosen": _chosen(shape, on_tie),
        **_filled(shape),
        "bounds": _bounds(shape),
        "spans": _spans(shape),
    }
    parts = ", ".join(f"_cdc_{name} AS ({query})" for name, query in ctes.items())
    queries = [actions_of_type_2(shape) if shape.is_type_2 else actions_of_type_1(shape)]
    queries.append(passed_on(shape, Action.REMEMBER, "_cdc_fresh", f"NOT {IS_OF_A_KEY}"))
    queries.append(passed_on(shape, Action.QUARANTINE, found.events, f"{REASON} IS NOT NULL"))
    if on_tie is OnTie.QUARANTINE:
        queries.append(_tied(shape))
    if found.memory is not None:
        forgotten = f"SELECT max({SEQUENCE}) FROM {found.memory} WHERE {KIND} = '{Kind.FORGOTTEN}'"
        is_late = f"{IS_OF_A_KEY} AND {SEQUENCE} <= ({forgotten})"
        queries.append(passed_on(shape, Action.LATE, "_cdc_fresh", is_late))
    return f"WITH {parts} {' UNION ALL '.join(queries)}"


def _cuts(shape: HistoryShape, found: Relations) -> dict[str, str]:
    """The sequences at which all rows were truncated. Those of new truncates are marked: a row that
    ends at one of them was ended by a delete.
    """
    if not shape.has_truncates:
        return {}
    known = f"SELECT {SEQUENCE} FROM {found.memory} WHERE {KIND} = 'T'"
    fresh = f"SELECT {SEQUENCE} FROM _cdc_fresh WHERE {KIND} = 'T'"
    new = fresh if found.memory is None else f"{fresh} EXCEPT {known}"
    every = f"SELECT DISTINCT {SEQUENCE}, true AS _cdc_is_new FROM _cdc_new_cuts"
    if found.memory is not None:
        every += f" UNION ALL SELECT DISTINCT {SEQUENCE}, false FROM ({known})"
    return {"new_cuts": new, "cuts": every}


def _touched(shape: HistoryShape, found: Relations) -> str:
    """The keys whose history may change: those of events, and those that a truncate ends."""
    keys = listed(shape.keys)
    queries = [f"SELECT {keys} FROM _cdc_fresh WHERE {IS_OF_A_KEY}"]
    if shape.has_truncates:
        lives = f"{_of('t', shape.sequence, shape)} < c.{SEQUENCE}"
        if shape.end is not None:
            end = f"t.{quote(shape.end)}"
            lives += f" AND ({end} <=> {shape.open_end} OR {end} >= c.{SEQUENCE})"
        queries.append(
            f"SELECT {listed(shape.keys, 't.')} FROM {found.target} AS t JOIN _cdc_new_cuts AS c"
            f" ON {lives}"
        )
    return f"SELECT DISTINCT {keys} FROM ({' UNION ALL '.join(queries)})"


def _semi_join(shape: HistoryShape, rows: str) -> str:
    """Those of ``rows`` that have a touched key."""
    same = same_key(shape, "t", "k")
    return f"SELECT t.* FROM ({rows}) AS t LEFT SEMI JOIN _cdc_touched AS k ON {same}"


def _every(shape: HistoryShape, found: Relations) -> str:
    """All events of the touched keys."""
    keys, values = listed(shape.keys), "".join(f", {name}" for name in map(quote, shape.values))
    nothing = "".join(f", NULL AS {name}" for name in map(quote, shape.values))
    queries = [_of_rows(shape)]
    if found.memory is not None:
        kept = _semi_join(shape, f"SELECT * FROM {found.memory} WHERE {IS_OF_A_KEY}")
        queries.append(
            f"SELECT {keys}{values}, {SEQUENCE}, {KIND}, {_NO_ORDER}, {_REMEMBERED}, NULL"
            f" FROM ({kept})"
        )
    queries.append(
        f"SELECT {keys}{values}, {SEQUENCE}, {KIND}, {ORDER}, {_NEW}, NULL FROM _cdc_fresh"
        f" WHERE {IS_OF_A_KEY}"
    )
    if shape.has_truncates:
        queries.append(
            f"SELECT {keys}{nothing}, {SEQUENCE}, 'T', {_NO_ORDER}, if(_cdc_is_new, {_NEW},"
            f" {_REMEMBERED}), NULL FROM _cdc_touched CROSS JOIN _cdc_cuts"
        )
    return " UNION ALL ".join(queries)


def _of_rows(shape: HistoryShape) -> str:
    """The events that the rows of the target show: each begins with an upsert, and may end with a
    delete.
    """
    kind, values = "'U'", {name: quote(name) for name in shape.values}
    nothing = {name: f"if(false, {value}, NULL)" for name, value in values.items()}
    if shape.deleted is not None:
        is_delete = quote(shape.deleted)
        kind = f"if({is_delete}, 'D', 'U')"
        # Such a row repeats the values that were deleted.
        values = {name: f"if({is_delete}, NULL, {value})" for name, value in values.items()}

    def event(values: Mapping[str, str], sequence: str, kind: str, row: str) -> str:
        fields = [f"{value} AS {quote(name)}" for name, value in values.items()]
        fields += [f"{sequence} AS {SEQUENCE}", f"{kind} AS {KIND}", f"{_NO_ORDER} AS {ORDER}"]
        return f"struct({', '.join(fields)}, {_OF_THE_TARGET} AS {_ORIGIN}, {row} AS {_ROW})"

    row = _shown(shape)
    events = f"array({event(values, shape.sequence, kind, row)})"
    if shape.end is not None:
        end = quote(shape.end)
        last = event(nothing, end, "'D'", f"if(false, {row}, NULL)")
        # One scan of the target gives both.
        events = f"if({end} <=> {shape.open_end}, {events}, concat({events}, array({last})))"
    return f"SELECT {listed(shape.keys)}, inline({events}) FROM _cdc_held"


def _flagged(shape: HistoryShape, on_tie: OnTie) -> str:
    """The events, each with what is known of the others that have its key and its sequence."""
    keys = listed(shape.keys)
    # A truncate comes before an upsert with its sequence.
    by_key = f"SELECT /*+ REPARTITION({keys}) */ *, {KIND} <> 'T' AS _cdc_is_row FROM _cdc_every"
    at_once = f"PARTITION BY {keys}, {SEQUENCE}"
    same = f"{at_once}, _cdc_is_row"
    remembered = (
        f"if({_ORIGIN} = {_REMEMBERED}, struct({KIND} AS kind, {content(shape.values)}"
        " AS content), NULL)"
    )
    is_cut = "false"
    if shape.has_truncates:
        is_cut = f"bool_or({KIND} = 'T' AND {_ORIGIN} = {_REMEMBERED}) OVER ({at_once})"
    found = (
        f"SELECT *, first({_ROW}, true) OVER ({same}) AS _cdc_row_here,"
        f" first({remembered}, true) OVER ({same}) AS _cdc_memory, {is_cut} AS _cdc_is_cut"
        f" FROM ({by_key})"
    )
    if on_tie is OnTie.LAST:
        return found
    if shape.is_in_order:
        # The rows of a commit have no order, so each of them has its own key.
        count = f"count_if({KIND} = 'U' AND {_ORIGIN} = {_NEW})"
        return f"SELECT *, {count} OVER ({same}) AS _cdc_upserts FROM ({found})"
    is_delete = f"{KIND} = 'D' AND NOT ({_IS_NOISE})"
    counts = f"{KIND} = 'U' AND ({_ORIGIN} <> {_OF_THE_TARGET} OR _cdc_memory IS NULL)"
    different = f"size(collect_set(if({counts}, {content(shape.values)}, NULL)) OVER ({same}))"
    upserts = f"if(bool_or({is_delete}) OVER ({same}), 0, {different})"
    return f"SELECT *, {upserts} AS _cdc_upserts FROM ({found})"


# The end of a row is no delete if another row begins there, or if a truncate ended the row.
_IS_NOISE = (
    f"{KIND} = 'D' AND {_ORIGIN} = {_OF_THE_TARGET} AND {_ROW} IS NULL"
    " AND (_cdc_row_here IS NOT NULL OR _cdc_is_cut)"
)


def _chosen(shape: HistoryShape, on_tie: OnTie) -> str:
    """Of the events with one key and one sequence, the one that counts."""
    keys = listed(shape.keys)
    by_kind = f"({KIND} = 'D') DESC, {_ORIGIN} DESC"
    if shape.is_in_order:
        # A commit that deletes a row and inserts another one with its key updates the key.
        by_kind = f"{_ORIGIN} DESC, ({KIND} = 'U') DESC"
    order = (
        f"PARTITION BY {keys}, {SEQUENCE}, _cdc_is_row ORDER BY {by_kind}, {ORDER} DESC,"
        f" {content(shape.values)}"
    )
    kept = f"NOT ({_IS_NOISE})"
    if on_tie is OnTie.FAIL:
        kept += f" AND {unless(f'{_ORIGIN} = {_NEW} AND {_TIED}', shape)}"
    elif on_tie is OnTie.QUARANTINE:
        kept += f" AND NOT ({_ORIGIN} = {_NEW} AND {KIND} = 'U' AND {_TIED})"
    return (
        f"SELECT * FROM (SELECT *, row_number() OVER ({order}) AS _cdc_place FROM _cdc_flagged"
        f" WHERE {kept}) WHERE _cdc_place = 1"
    )


def _filled(shape: HistoryShape) -> dict[str, str]:
    """The events, in which what an event left unchanged is the value of the event before it."""
    if not shape.filled:
        return {}
    keys = listed(shape.keys)
    lives = (
        f"SELECT *, count_if({KIND} <> 'U') OVER (PARTITION BY {keys} ORDER BY {SEQUENCE},"
        " _cdc_is_row ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS _cdc_life"
        " FROM _cdc_chosen"
    )
    frame = (
        f"PARTITION BY {keys}, _cdc_life ORDER BY {SEQUENCE}"
        " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    )
    columns = "".join(
        f", (last(if({is_left}, NULL, struct({quote(name)} AS value)), true) OVER ({frame})).value"
        f" AS {resolved(shape, name)}"
        for name, is_left in shape.filled.items()
    )
    return {"lives": lives, "filled": f"SELECT *{columns} FROM _cdc_lives"}


def _in_order(shape: HistoryShape) -> str:
    return f"PARTITION BY {listed(shape.keys)} ORDER BY {SEQUENCE}, _cdc_is_row"


def _bounds(shape: HistoryShape) -> str:
    """The events, each with whether an interval begins with it, or ends before it."""
    order = _in_order(shape)
    tracked = struct_of(resolved(shape, name) for name in shape.tracked)
    columns = {"before": f"lag({KIND}) OVER ({order})"}
    if shape.is_type_2:
        columns["tracked_before"] = f"lag({tracked}) OVER ({order})"
    if shape.deleted is not None:
        values = struct_of(f"{resolved(shape, name)} AS {quote(name)}" for name in shape.values)
        columns["values_before"] = f"lag({values}) OVER ({order})"
    given = ", ".join(f"{expression} AS _cdc_{name}" for name, expression in columns.items())
    found = f"SELECT *, {given} FROM {'_cdc_filled' if shape.filled else '_cdc_chosen'}"
    differs = f"NOT ({tracked} <=> _cdc_tracked_before)" if shape.is_type_2 else "false"
    return (
        f"SELECT *, {KIND} = 'U' AND (_cdc_before IS NULL OR _cdc_before <> 'U' OR {differs})"
        f" AS _cdc_begins, {KIND} <> 'U' AND _cdc_before <=> 'U' AS _cdc_ends FROM ({found})"
    )


def _spans(shape: HistoryShape) -> str:
    """The events, each with what follows it, and with the event that begins its interval."""
    order = _in_order(shape)
    so_far = f"{order} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    columns = {
        "is_final": f"lead({KIND}) OVER ({order}) IS NULL",
        "next": f"lead({SEQUENCE}) OVER ({order})",
        "next_bound": f"lead(_cdc_begins OR _cdc_ends) OVER ({order})",
    }
    if shape.is_type_2:
        begin = f"struct({SEQUENCE} AS sequence, _cdc_row_here AS row)"
        columns["begin"] = f"last(if(_cdc_begins, {begin}, NULL), true) OVER ({so_far})"
    else:
        columns["old"] = f"last(_cdc_row_here, true) OVER ({so_far})"
    if shape.deleted is not None:
        later = (
            f"PARTITION BY {listed(shape.keys)} ORDER BY {SEQUENCE} DESC, _cdc_is_row DESC"
            " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
        )
        bound = f"if(_cdc_begins OR _cdc_ends, {SEQUENCE}, NULL)"
        columns["next_begin"] = f"last({bound}, true) OVER ({later})"
    if shape.filled and not shape.is_type_2:
        columns["last_life"] = f"max(_cdc_life) OVER (PARTITION BY {listed(shape.keys)})"
    given = ", ".join(f"{expression} AS _cdc_{name}" for name, expression in columns.items())
    return f"SELECT *, {given} FROM _cdc_bounds"


def _tied(shape: HistoryShape) -> str:
    """The new events that have the sequence of another event, and other values."""
    reason = f"'another event has its key and its sequence' AS {REASON}"
    condition = f"{_ORIGIN} = {_NEW} AND {KIND} = 'U' AND {_TIED}"
    relation = f"(SELECT *, {reason} FROM _cdc_flagged)"
    return passed_on(shape, Action.QUARANTINE, relation, condition)


def _shown(shape: HistoryShape) -> str:
    """What a row of the target shows, to be compared with what it must show."""
    fields = [f"{content(shape.values)} AS content"]
    if shape.end is not None:
        fields.append(f"{quote(shape.end)} AS end")
        is_deleted = "false" if shape.deleted is None else quote(shape.deleted)
        fields.append(f"{is_deleted} AS deleted")
    elif shape.start is not None:
        fields.append(f"{quote(shape.start)} AS start")
    return f"struct({', '.join(fields)})"


def _of(relation: str, expression: str, shape: HistoryShape) -> str:
    """The sequence of a row of a relation."""
    return f"{relation}.{expression}" if shape.start is not None else expression
