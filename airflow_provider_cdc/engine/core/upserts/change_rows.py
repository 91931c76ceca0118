"""The waiting changes of an upsert table: their columns, their order, and what makes one bad.

The change with the greater sequence number wins. Among equal numbers, the change that was ingested
later wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from ..change_sets.net_files import inserted_files
from ..delta.log_actions import Commit, DataFile
from ..model.sources import row_id_text
from ..names import name_key, quote, spark_literal, text_value
from .definition import CHANGE_SEQUENCE_NUMBER, CHANGE_TYPE, CHANGE_UNCHANGED, UpsertTable
from .sequence_numbers import is_sequence_number

SEQUENCE = "_cdc_sequence"
BATCH = "_cdc_batch"
ORDER = "_cdc_order"
INGESTED_AT = "_cdc_ingested_at"
SINCE = "_cdc_since"
"""The place of a change's write among all writes. A change that goes through quarantine keeps its
place.
"""
REASON = "_cdc_reason"
"""What is wrong with a change. NULL: nothing is wrong."""
IS_REDRIVEN = "_cdc_is_redriven"

MOST_WRITES = 32
_FEW_BYTES = 10 * 2**20
_FEW_BYTES_IN_MEMORY = 64 * 2**20
_BYTES_OF_A_VALUE = 8
_ROW_ID = "`METADATA$ROW_ID`"
# The least row id. If Spark compared them as text, it would sort all rows.
_BEGIN = f"lower(hex(min(CAST(conv({_ROW_ID}, 16, 10) AS BIGINT))))"


class Reason(StrEnum):
    """Why a change is in quarantine."""

    TYPE = "The given value is not a valid CHANGE_TYPE: expected UPSERT or DELETE"
    KEY = "a column of the primary key is NULL"
    UNCHANGED = f"{CHANGE_UNCHANGED} names a column that is not a value column"
    NUMBER = "expected 1 to 4 sections of 1 to 16 hexadecimal digits, with / between them"
    WAITS = "an earlier change of its key is in quarantine"
    LATE = "it is older than a delete whose tombstone has ended"


def reason(table: UpsertTable) -> str:
    """What is wrong with a change by itself, as SQL. NULL: it may be applied."""
    no_key = " OR ".join(f"{quote(name)} IS NULL" for name in table.primary_key)
    wrong = [
        (f"NOT coalesce({CHANGE_TYPE} IN ('UPSERT', 'DELETE'), false)", Reason.TYPE),
        (no_key, Reason.KEY),
        (f"NOT coalesce({is_sequence_number()}, true)", Reason.NUMBER),
    ]
    if table.has_partial_changes:
        values = ", ".join(text_value(name_key(name)) for name in table.values)
        is_known = f"coalesce(lower(name) IN ({values}), false)"
        has_unknown = f"exists({CHANGE_UNCHANGED}, name -> NOT {is_known})"
        wrong.append((f"{CHANGE_TYPE} = 'UPSERT' AND {has_unknown}", Reason.UNCHANGED))
    cases = (f"WHEN {condition} THEN {spark_literal(why)}" for condition, why in wrong)
    return f"CASE {' '.join(cases)} END"


def write_begins(commits: Iterable[Commit]) -> tuple[str, ...] | None:
    """The least row id of each write among the ``commits`` of changes, in their order.

    The ids have the form that the stream on the changes shows. ``None``: the log does not show
    them, or there are more than :data:`MOST_WRITES` writes.
    """
    begins: dict[int, int] = {}
    for version, file in inserted_files(commits):
        if file.base_row_id is None:
            return None
        begins[version] = min(begins.get(version, file.base_row_id), file.base_row_id)
    return tuple(map(row_id_text, begins.values())) if 0 < len(begins) <= MOST_WRITES else None


def in_order(
    table: UpsertTable,
    stream: str,
    rows: str | None = None,
    *,
    begins: Sequence[str] | None = None,
) -> str:
    """The query of waiting changes, each with the place of its write among all writes.

    A change was ingested later if its commit is later, or if it comes later within one write.
    Delta's row ids grow from commit to commit, so the least row id of a write identifies the write.

    :param stream: the stream on the changes, or a relation in its place, as SQL
    :param rows: the wanted rows of ``stream``, as a relation; by default all
    :param begins: the result of :func:`write_begins` for all waiting changes; by default the query
        finds it in the changes
    """
    names = [column.name for column in table.columns]
    names += [CHANGE_TYPE, CHANGE_SEQUENCE_NUMBER, CHANGE_UNCHANGED, SEQUENCE, BATCH, ORDER]
    names += [INGESTED_AT, REASON]
    found, hint = f"{rows or stream} AS change", ""
    if begins is None:
        begin, hint = "batch._cdc_begin", broadcast("batch")
        found += (
            f" JOIN (SELECT {BATCH}, {_BEGIN} AS _cdc_begin FROM {stream} GROUP BY {BATCH})"
            f" AS batch ON change.{BATCH} = batch.{BATCH}"
        )
    else:
        first, *later = map(spark_literal, begins)
        cases = (f" WHEN change.{_ROW_ID} >= {each} THEN {each}" for each in reversed(later))
        begin = f"CASE{''.join(cases)} ELSE {first} END" if later else first
    return (
        f"SELECT {hint}{column_list(names, 'change.')},"
        f" change.{SINCE} IS NOT NULL AS {IS_REDRIVEN},"
        f" coalesce(change.{SINCE}, {begin}) AS {SINCE} FROM {found}"
    )


def newest_in_order(table: UpsertTable, stream: str) -> str:
    """Like :func:`in_order`, but a change that waits twice at its place appears once, as its newest
    copy.

    Such a change was redriven, and then the consumption that had put it into quarantine was undone.
    """
    newest = (
        f"(SELECT first.* FROM {stream} AS first LEFT ANTI JOIN ({redriven(stream)}) AS copy"
        f" ON first.{BATCH} = copy.{BATCH} AND first.{ORDER} = copy.{ORDER}"
        f" AND first.{_ROW_ID} < copy.{_ROW_ID})"
    )
    return in_order(table, stream, newest)


def redriven(stream: str) -> str:
    """The query of the places of waiting changes that come from quarantine."""
    return f"SELECT {BATCH}, {ORDER}, {_ROW_ID} FROM {stream} WHERE {SINCE} IS NOT NULL"


def position(prefix: str = "") -> str:
    """The place of a change among all ingested changes, as SQL that can be compared."""
    return f"struct({prefix}{SINCE}, {prefix}{ORDER})"


def same_key(table: UpsertTable, left: str, right: str) -> str:
    """The condition that rows of two relations have the same key. A NULL does not equal any key."""
    pairs = (f"{left}.{name} = {right}.{name}" for name in map(quote, table.primary_key))
    return " AND ".join(pairs)


def are_few(table: UpsertTable, files: Sequence[DataFile]) -> bool:
    """Whether the changes in ``files`` can be sent to each task.

    Their files must be small by Spark's rule for tables. Their values must also be small in memory,
    because files store repeated values in less space.
    """
    if sum(file.size_bytes for file in files) > _FEW_BYTES:
        return False
    counts = [file.record_count for file in files]
    known = [count for count in counts if count is not None]
    least = sum(known) * len(table.columns) * _BYTES_OF_A_VALUE
    return len(known) == len(counts) and least <= _FEW_BYTES_IN_MEMORY


def broadcast(name: str, *, when: bool = True) -> str:
    """The hint that a relation of a SELECT is small.

    Spark estimates the size of a join as the product of its two sides. Without the hint it would
    sort the whole base to join it.
    """
    return f"/*+ BROADCAST({name}) */ " if when else ""


def column_list(names: Sequence[str], prefix: str = "") -> str:
    """The columns as a list in SQL."""
    return ", ".join(f"{prefix}{quote(name)}" for name in names)
