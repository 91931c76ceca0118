"""The SQL that moves changes into quarantine if they must not be applied.

A bad change goes there with its reason. A change whose key has an earlier change in quarantine
waits there too. A change that is older than a delete whose tombstone has ended is late. One
statement moves all of them. The next statement applies the changes that are still not in
quarantine.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..delta.log_actions import DataFile
from ..names import spark_literal
from .change_rows import (
    BATCH,
    INGESTED_AT,
    IS_REDRIVEN,
    ORDER,
    REASON,
    SEQUENCE,
    SINCE,
    Reason,
    column_list,
    in_order,
    newest_in_order,
    position,
    redriven,
    same_key,
)
from .definition import CHANGE_SEQUENCE_NUMBER, CHANGE_TYPE, CHANGE_UNCHANGED, UpsertTable

QUARANTINED_AT = "_cdc_quarantined_at"
REDRIVE = "_cdc_redrive"
"""The call that released a row of the quarantine. NULL: no call has released it."""
KEY_HASH = "_cdc_key_hash"
NEEDED = "cdc-diversion-needed"
"""The text of the error that :func:`applicable_changes` raises instead of leaving changes out."""

_VERDICT = "_cdc_verdict"
_RELEASED = "_cdc_released"


@dataclass(frozen=True, slots=True)
class Memory:
    """The relations that decide whether a change may be applied, as SQL: the ``quarantine``, and
    the ``deletes`` whose tombstones have ended. ``None``: no row of the relation can matter.
    """

    quarantine: str | None = None
    deletes: str | None = None


def is_late(prefix: str = "") -> str:
    """The condition that a row of the quarantine is late. A late row blocks no other change."""
    return f"({prefix}{REASON} <=> {spark_literal(Reason.LATE)})"


def key_hash(table: UpsertTable, prefix: str = "") -> str:
    """The hash that identifies a delete after its tombstone has ended."""
    return f"xxhash64({column_list(table.primary_key, prefix)})"


def applicable_changes(
    table: UpsertTable, stream: str, memory: Memory, begins: Sequence[str] | None = None
) -> str:
    """The query of the waiting changes, for the case that none is bad or redriven (see
    :func:`may_divert`).

    It leaves no change out: if one is late, it fails with :data:`NEEDED`.

    :param begins: as for :func:`in_order`
    """
    changes = in_order(table, stream, begins=begins)
    if memory.deletes is None:
        return changes
    joined, late = _late(table, memory)
    stop = f"CAST(raise_error('{NEEDED}') AS BOOLEAN)"
    return f"SELECT change.* FROM ({changes}) AS change {joined} WHERE if({late}, {stop}, true)"


def accepted(table: UpsertTable, stream: str, memory: Memory) -> str:
    """The query of the waiting changes that an apply would not move into quarantine."""
    return f"SELECT * FROM ({_judged(table, stream, memory)}) WHERE {_VERDICT} IS NULL"


def may_divert(files: Iterable[DataFile]) -> bool:
    """Whether files of waiting changes may hold a bad or a redriven change.

    False only if their statistics rule that out.
    """
    for file in files:
        statistics = json.loads(file.stats or "{}")
        rows, nulls = statistics.get("numRecords"), statistics.get("nullCount", {})
        if rows is None or any(nulls.get(name) != rows for name in (REASON, SINCE)):
            return True
    return False


def divert_text(table: UpsertTable, quarantine: str, memory: Memory) -> str:
    """The MERGE that puts changes into quarantine, and takes out those that were redriven.

    :param quarantine: the table, as SQL
    """
    kept = [column.name for column in table.columns]
    kept += [CHANGE_TYPE, CHANGE_SEQUENCE_NUMBER, CHANGE_UNCHANGED]
    kept += [BATCH, ORDER, SINCE, INGESTED_AT]
    return "\n".join(
        (
            f"MERGE INTO {quarantine} AS t USING (SELECT * FROM"
            f" ({_judged(table, _stream(table), memory)})"
            f" WHERE ({_VERDICT} IS NOT NULL OR {IS_REDRIVEN}) AND NOT {_RELEASED}) AS c",
            f"ON t.{BATCH} = c.{BATCH} AND t.{ORDER} = c.{ORDER}",
            f"WHEN MATCHED AND c.{_VERDICT} IS NULL THEN DELETE",
            f"WHEN MATCHED THEN UPDATE SET {REASON} = c.{_VERDICT}, {REDRIVE} = NULL",
            f"WHEN NOT MATCHED AND c.{_VERDICT} IS NOT NULL THEN INSERT"
            f" ({column_list(kept)}, {REASON}, {QUARANTINED_AT})"
            f" VALUES ({column_list(kept, 'c.')}, c.{_VERDICT}, current_timestamp())",
        )
    )


def remaining(table: UpsertTable, quarantine: str) -> str:
    """The query of the waiting changes that are not in quarantine after :func:`divert_text`."""
    return (
        f"SELECT c.* FROM ({newest_in_order(table, _stream(table))}) AS c"
        f" LEFT ANTI JOIN {quarantine} AS q ON c.{BATCH} = q.{BATCH} AND c.{ORDER} = q.{ORDER}"
        f" WHERE c.{REASON} IS NULL"
    )


def releasable(table: UpsertTable, quarantine: str, reason: str, *, late: bool) -> str:
    """The query of the changes in quarantine that can be applied now.

    Nothing is wrong with such a change, and nothing is wrong with any earlier change of its key.

    :param reason: what is wrong with a row by itself, as SQL
    :param late: return late changes too
    """
    keys = column_list(table.primary_key)
    wanted = "true" if late else f"NOT {is_late()}"
    return (
        f"WITH found AS (SELECT *, {reason} AS {_VERDICT} FROM {quarantine}"
        f" WHERE {REDRIVE} IS NULL AND {wanted}),"
        f" stuck AS (SELECT {keys}, min({position()}) AS _cdc_at FROM found"
        f" WHERE {_VERDICT} IS NOT NULL GROUP BY {keys})"
        f" SELECT f.{BATCH}, f.{ORDER} FROM found AS f"
        f" LEFT JOIN stuck ON {same_key(table, 'f', 'stuck')}"
        f" WHERE f.{_VERDICT} IS NULL"
        f" AND (stuck._cdc_at IS NULL OR {position('f.')} < stuck._cdc_at)"
    )


def _stream(table: UpsertTable) -> str:
    return column_list([table.stream])


def _judged(table: UpsertTable, stream: str, memory: Memory) -> str:
    """The query of waiting changes with a verdict on each: NULL, or the reason for quarantine."""
    keys = column_list(table.primary_key)
    joined, late = _late(table, memory)
    blocked, released = "change._cdc_bad", "false"
    if memory.quarantine is not None:
        # A change that is redriven among these changes no longer blocks others.
        held_keys = column_list(table.primary_key, "q.")
        kept = (
            f"FROM {memory.quarantine} AS q LEFT ANTI JOIN ({redriven(stream)}) AS r"
            f" ON q.{BATCH} = r.{BATCH} AND q.{ORDER} = r.{ORDER}"
        )
        joined += (
            f" LEFT JOIN (SELECT {held_keys}, min({position('q.')}) AS _cdc_at {kept}"
            f" WHERE NOT {is_late('q.')}"
            f" GROUP BY {held_keys}) AS held ON {same_key(table, 'change', 'held')}"
            # A killed call can leave a change both here and in quarantine. If it was released from
            # quarantine, its copy comes later, after what is applied now. So the change here waits.
            f" LEFT JOIN (SELECT q.{BATCH}, q.{ORDER} {kept} WHERE q.{REDRIVE} IS NOT NULL)"
            f" AS released ON change.{BATCH} = released.{BATCH}"
            f" AND change.{ORDER} = released.{ORDER}"
        )
        blocked, released = "least(change._cdc_bad, held._cdc_at)", f"released.{BATCH} IS NOT NULL"
    if memory.deletes is not None and memory.quarantine is not None:
        # A late change that was redriven is no longer late.
        joined += (
            f" LEFT JOIN (SELECT {BATCH}, {ORDER} FROM {memory.quarantine} WHERE {is_late()})"
            f" AS l ON {IS_REDRIVEN} AND change.{BATCH} = l.{BATCH} AND change.{ORDER} = l.{ORDER}"
        )
        late += f" AND l.{BATCH} IS NULL"
    bad = f"CASE WHEN {REASON} IS NOT NULL THEN {position()} END"
    waits = spark_literal(Reason.WAITS)
    return (
        f"SELECT change.*, {released} AS {_RELEASED},"
        f" CASE WHEN {released} THEN {waits} WHEN {REASON} IS NOT NULL THEN {REASON}"
        f" WHEN {position('change.')} > {blocked} THEN {waits}"
        f" WHEN {late} THEN {spark_literal(Reason.LATE)} END AS {_VERDICT}"
        f" FROM (SELECT *, min({bad}) OVER (PARTITION BY {keys}) AS _cdc_bad"
        f" FROM ({newest_in_order(table, stream)})) AS change {joined}"
    )


def _late(table: UpsertTable, memory: Memory) -> tuple[str, str]:
    """The join of the remembered deletes with ``change``, and the condition that a change is late.

    A late delete changes nothing: its row is already deleted.
    """
    if memory.deletes is None:
        return "", "false"
    return (
        f"LEFT JOIN {memory.deletes} AS d ON d.{KEY_HASH} = {key_hash(table, 'change.')}",
        f"change.{CHANGE_TYPE} = 'UPSERT' AND coalesce(change.{SEQUENCE} < d.{SEQUENCE}, false)",
    )
