"""The SQL of tables whose changes may leave columns unchanged.

Each column has its own sequence number. A column holds the value of the newest change that wrote to
it. A delete writes NULL to all columns. A change that comes late takes its place among the applied
changes, column by column. The base remembers the sequence number of each column that is older than
its row.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..delta.key_pruning import Intervals
from ..names import name_key, quote, spark_literal, text_value
from .change_rows import INGESTED_AT, ORDER, SEQUENCE, SINCE, broadcast, column_list, same_key
from .definition import CHANGE_TYPE, CHANGE_UNCHANGED, STATE, UpsertTable
from .merge_sql import IS_DELETE, assigned, merge_head

_STATE = f"t.{quote(STATE)}"
_ROW_NUMBER = f"coalesce({_STATE}.sequence, '')"
_WINS = f"c.{SEQUENCE} >= {_ROW_NUMBER}"
_IS_TOMBSTONE = f"({_STATE}.deleted_at IS NOT NULL)"


def partial_apply_text(
    table: UpsertTable,
    changes: str,
    untouched: Intervals | None = None,
    *,
    are_few: bool = False,
) -> str:
    """Like :func:`apply_text`, for changes that may leave columns unchanged."""
    columns = [_Column(number, name) for number, name in enumerate(table.values)]
    changed = " OR ".join(
        (
            f"c.{SEQUENCE} > {_ROW_NUMBER}",
            f"({_WINS} AND ({IS_DELETE}) <> {_IS_TOMBSTONE})",
            *(f"({column.takes} AND {column.differs})" for column in columns),
        )
    )
    merged = [(column.name, column.merged) for column in columns]
    names = [*table.primary_key, *table.values, STATE]
    keys = [f"c.{name}" for name in map(quote, table.primary_key)]
    new = [f"{column.won}.value" for column in columns]
    number = f"greatest(c.{SEQUENCE}, {_ROW_NUMBER})"
    written = _state(f"c.{SEQUENCE}", _deleted_at(), [column.written_number for column in columns])
    kept = f"if({_WINS}, {_deleted_at()}, {_STATE}.deleted_at)"
    state = _state(number, kept, [column.merged_number for column in columns])
    return "\n".join(
        (
            merge_head(table, _winners(table, changes), untouched, are_few=are_few),
            f"WHEN MATCHED AND {_WINS} AND {IS_DELETE} AND c.{SEQUENCE} = '' THEN DELETE",
            f"WHEN MATCHED AND ({changed}) THEN UPDATE SET {assigned([*merged, (STATE, state)])}",
            f"WHEN NOT MATCHED AND NOT ({IS_DELETE} AND c.{SEQUENCE} = '') THEN INSERT"
            f" ({column_list(names)}) VALUES ({', '.join([*keys, *new, written])})",
        )
    )


def partial_fresh_rows(
    table: UpsertTable, changes: str, version: int, *, are_few: bool = False
) -> str:
    """Like :func:`fresh_rows`, for changes that may leave columns unchanged."""
    names, same = [column.name for column in table.columns], same_key(table, "t", "c")
    merged = {name: f"c.{quote(name)}" for name in table.primary_key}
    for number, name in enumerate(table.values):
        merged[name] = _Column(number, name).merged
    new = ", ".join(f"{merged[name]} AS {quote(name)}" for name in names)
    base = f"{table.sql} VERSION AS OF {version}"
    few = broadcast("c", when=are_few)
    return (
        f"WITH pending AS ({_winners(table, changes)}),"
        f" touched AS (SELECT {few}* FROM {base} AS t LEFT SEMI JOIN pending AS c ON {same})"
        f" SELECT {few}{column_list(names, 't.')} FROM {base} AS t"
        f" LEFT ANTI JOIN pending AS c ON {same} WHERE NOT {_IS_TOMBSTONE}"
        f" UNION ALL SELECT {new} FROM pending AS c LEFT JOIN touched AS t ON {same}"
        f" WHERE if({_WINS}, NOT ({IS_DELETE}), NOT {_IS_TOMBSTONE})"
    )


class _Column:
    """The SQL of a column outside the key, in the MERGE of winning changes ``c`` into ``t``."""

    def __init__(self, number: int, name: str) -> None:
        self.name = name
        self.won = f"c._cdc_won_{number}"
        self._row = f"t.{quote(name)}"
        self._number = f"coalesce({_STATE}.older[{text_value(name)}], {_ROW_NUMBER})"

    @property
    def takes(self) -> str:
        """Whether a waiting change writes to the column and is not older than its value."""
        return f"coalesce({self.won}.sequence >= {self._number}, false)"

    @property
    def differs(self) -> str:
        """Whether that write changes the value or its sequence number."""
        return f"({self.won}.sequence > {self._number} OR NOT ({self.won}.value <=> {self._row}))"

    @property
    def merged(self) -> str:
        """The value of the column after the MERGE."""
        return f"if({self.takes}, {self.won}.value, {self._row})"

    @property
    def merged_number(self) -> tuple[str, str]:
        """The name of the column, and its sequence number after the MERGE."""
        return self.name, f"if({self.takes}, {self.won}.sequence, {self._number})"

    @property
    def written_number(self) -> tuple[str, str]:
        """The name of the column, and its sequence number in a new row.

        If no change wrote to the column, the number is empty, which is the least number.
        """
        return self.name, f"coalesce({self.won}.sequence, '')"


def _winners(table: UpsertTable, changes: str) -> str:
    """The query of the newest change of each key, with the last write to each column."""
    key, order = column_list(table.primary_key), f"struct({SEQUENCE}, {SINCE}, {ORDER})"
    rest = [CHANGE_TYPE, SEQUENCE, INGESTED_AT]
    newest = ", ".join(f"{spark_literal(name)}, {name}" for name in rest)
    is_delete = f"{CHANGE_TYPE} = 'DELETE'"
    found = [f"max_by(named_struct({newest}), {order}) AS _cdc_newest"]
    for number, name in enumerate(table.values):
        value = f"if({is_delete}, NULL, {quote(name)})"
        left = f"coalesce(array_contains({CHANGE_UNCHANGED}, {text_value(name_key(name))}), false)"
        found.append(
            f"max_by(named_struct('value', {value}, 'sequence', {SEQUENCE}), {order})"
            f" FILTER (WHERE {is_delete} OR NOT {left}) AS _cdc_won_{number}"
        )
    return (
        f"SELECT * EXCEPT (_cdc_newest), _cdc_newest.* FROM"
        f" (SELECT {key}, {', '.join(found)} FROM ({changes}) GROUP BY {key})"
    )


def _deleted_at() -> str:
    return f"if({IS_DELETE}, c.{INGESTED_AT}, NULL)"


def _state(number: str, deleted_at: str, columns: Sequence[tuple[str, str]]) -> str:
    """The state that the base remembers of a row: its sequence number, the time of its deletion,
    and the sequence numbers of the columns that are older.
    """
    pairs = ", ".join(f"struct({text_value(name)} AS name, {own} AS own)" for name, own in columns)
    older = f"map_from_entries(filter(array({pairs}), pair -> pair.own <> {number}))"
    return f"named_struct('sequence', {number}, 'deleted_at', {deleted_at}, 'older', {older})"
