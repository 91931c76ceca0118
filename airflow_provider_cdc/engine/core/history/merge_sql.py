"""The MERGE statements that write a plan: into the target, and into the memory beside it."""

from __future__ import annotations

from ..names import quote
from .events import ACTION, APPLIED_AT, KIND, REASON, SEQUENCE, Action, Kind
from .plan_parts import DELETED, END, IS_OF_A_KEY, same_key
from .shape import HistoryShape


def target_merge(
    shape: HistoryShape,
    target: str,
    plan: str,
    condition: str | None = None,
    *,
    is_small: bool = False,
) -> str:
    """The MERGE that writes the rows of a plan into the target.

    :param target: the target, as SQL
    :param plan: the relation of the plan, as SQL
    :param condition: what else holds for every row ``t`` that the plan touches
    :param is_small: whether the plan can be sent to each task that reads the target. Spark does not
        know how small rows are that were computed before
    """
    pairs = [same_key(shape, "t", "c")]
    if shape.is_type_2 and shape.start is not None:
        pairs.append(f"t.{quote(shape.start)} = c.{SEQUENCE}")
    if condition is not None:
        pairs.append(condition)
    written = _written(shape)
    same = " AND ".join(f"t.{name} <=> c.{name}" for name in map(quote, shape.values))
    # The plan of a copy was made without the rows of the target.
    is_compared = shape.is_type_2 or shape.remembers or bool(shape.filled)
    differs = "" if is_compared else f" AND NOT ({same or 'true'})"
    updates = ", ".join(f"{name} = {value}" for name, value in written.items())
    hint = "/*+ BROADCAST(p) */ " if is_small else ""
    return "\n".join(
        (
            f"MERGE INTO {target} AS t USING (SELECT {hint}* FROM {plan} AS p"
            f" WHERE {ACTION} IN ('{Action.WRITE}', '{Action.REMOVE}')) AS c",
            f"ON {' AND '.join(pairs)}",
            f"WHEN MATCHED AND c.{ACTION} = '{Action.REMOVE}' THEN DELETE",
            f"WHEN MATCHED{differs} THEN UPDATE SET {updates}",
            f"WHEN NOT MATCHED AND c.{ACTION} = '{Action.WRITE}' THEN INSERT"
            f" ({', '.join(written)}) VALUES ({', '.join(written.values())})",
        )
    )


def target_insert(shape: HistoryShape, target: str, plan: str, *, replaces: bool) -> str:
    """The INSERT that writes a plan into a target without rows, or that ``replaces`` its rows."""
    written = _written(shape)
    verb = "INSERT OVERWRITE" if replaces else "INSERT INTO"
    return (
        f"{verb} {target} ({', '.join(written)}) SELECT {', '.join(written.values())}"
        f" FROM {plan} AS c WHERE c.{ACTION} = '{Action.WRITE}'"
    )


def _written(shape: HistoryShape) -> dict[str, str]:
    """The columns of a row of the target, each with its value in a row ``c`` of a plan."""
    written = {quote(name): f"c.{quote(name)}" for name in shape.data}
    if shape.start is not None:
        written[quote(shape.start)] = f"c.{SEQUENCE}"
    if shape.end is not None:
        written[quote(shape.end)] = f"c.{END}"
    if shape.current is not None:
        written[quote(shape.current)] = f"c.{END} <=> {shape.open_end} AND NOT c.{DELETED}"
    if shape.deleted is not None:
        written[quote(shape.deleted)] = f"c.{DELETED}"
    return written


def memory_merge(shape: HistoryShape, memory: str, plan: str, applied_at: str) -> str:
    """The MERGE that keeps the events that no row of the target shows, and those in quarantine.

    :param applied_at: the time of this call, as SQL
    """
    pairs = [f"t.{name} <=> c.{name}" for name in map(quote, shape.keys)]
    of_a_key = f"t.{IS_OF_A_KEY} AND c.{IS_OF_A_KEY}"
    pairs += [f"t.{SEQUENCE} = c.{SEQUENCE}", f"({of_a_key} OR t.{KIND} = c.{KIND})"]
    kept = f"c.{ACTION} = '{Action.REMEMBER}' AND t.{KIND} <> '{Kind.QUARANTINED}'"
    written = {quote(name): f"c.{quote(name)}" for name in shape.data}
    written |= {
        SEQUENCE: f"c.{SEQUENCE}",
        KIND: f"if(c.{ACTION} = '{Action.QUARANTINE}', '{Kind.QUARANTINED}', c.{KIND})",
        REASON: f"c.{REASON}",
        APPLIED_AT: applied_at,
    }
    updates = ", ".join(f"{name} = {value}" for name, value in written.items())
    return "\n".join(
        (
            f"MERGE INTO {memory} AS t USING (SELECT * FROM {plan}"
            f" WHERE {ACTION} IN ('{Action.REMEMBER}', '{Action.QUARANTINE}')) AS c",
            f"ON {kept} AND {' AND '.join(pairs)}",
            f"WHEN MATCHED THEN UPDATE SET {updates}",
            f"WHEN NOT MATCHED THEN INSERT ({', '.join(written)})"
            f" VALUES ({', '.join(written.values())})",
        )
    )
