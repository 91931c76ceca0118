"""The SQL that lets the memory of a history target forget events of long ago."""

from __future__ import annotations

from datetime import datetime, timedelta

from ..names import moment_sql, quote
from .events import APPLIED_AT, KIND, SEQUENCE, Kind
from .plan_parts import IS_OF_A_KEY, listed, same_key
from .shape import HistoryShape


def forget_text(
    shape: HistoryShape, memory: str, target: str, now: datetime, horizon: timedelta
) -> str:
    """The MERGE that forgets the events that were applied longer ago than the horizon.

    The events within one interval are forgotten together: alone, one of them would replace what
    the interval shows. The greatest sequence of what is forgotten stays.

    :param memory: the memory, as SQL
    :param target: the target, as SQL
    """
    keys = listed(shape.keys, "m.")
    place, found = f"CAST(NULL AS {shape.sequence_type})", f"{memory} AS m"
    if shape.start is not None and shape.end is not None:
        start, end = f"t.{quote(shape.start)}", f"t.{quote(shape.end)}"
        same = same_key(shape, "t", "m")
        place = f"coalesce({start}, m.{SEQUENCE})"
        found += (
            f" LEFT JOIN {target} AS t ON {same} AND m.{SEQUENCE} >= {start}"
            f" AND ({end} <=> {shape.open_end} OR m.{SEQUENCE} < {end})"
        )
    placed = (
        f"SELECT {keys}, m.{SEQUENCE}, m.{APPLIED_AT}, {place} AS _cdc_place FROM {found}"
        f" WHERE m.{IS_OF_A_KEY}"
    )
    # A window and not a group: each forgotten event is a row of the MERGE.
    together = f"PARTITION BY {listed(shape.keys)}, _cdc_place"
    last = f"SELECT *, max({APPLIED_AT}) OVER ({together}) AS _cdc_last FROM ({placed})"
    old = (
        f"SELECT {listed(shape.keys)}, {SEQUENCE} FROM ({last})"
        f" WHERE _cdc_last < {moment_sql(now - horizon)}"
    )
    nothing = ", ".join(f"NULL AS {name}" for name in map(quote, shape.keys))
    rows = (
        f"SELECT *, false AS _cdc_is_mark FROM ({old}) UNION ALL"
        f" SELECT {nothing}, max({SEQUENCE}), true FROM ({old}) HAVING max({SEQUENCE}) IS NOT NULL"
    )
    pairs = same_key(shape, "t", "c")
    columns = f"{SEQUENCE}, {KIND}, {APPLIED_AT}"
    return "\n".join(
        (
            f"MERGE INTO {memory} AS t USING ({rows}) AS c",
            f"ON NOT c._cdc_is_mark AND {pairs} AND t.{SEQUENCE} = c.{SEQUENCE}"
            f" AND t.{IS_OF_A_KEY}",
            "WHEN MATCHED THEN DELETE",
            f"WHEN NOT MATCHED AND c._cdc_is_mark THEN INSERT ({columns})"
            f" VALUES (c.{SEQUENCE}, '{Kind.FORGOTTEN}', {moment_sql(now)})",
        )
    )
