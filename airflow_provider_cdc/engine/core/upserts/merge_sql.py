"""The SQL of upsert tables: which change of a key wins, and what it does to its row."""

from __future__ import annotations

from collections.abc import Sequence

from ..delta.key_pruning import Intervals, is_untouched
from ..names import quote
from .change_rows import INGESTED_AT, ORDER, SEQUENCE, SINCE, broadcast, column_list, same_key
from .definition import CHANGE_TYPE, STATE, UpsertTable

IS_DELETE = f"c.{CHANGE_TYPE} = 'DELETE'"
"""The condition that a winning change ``c`` is a delete."""


def winners(table: UpsertTable, changes: str) -> str:
    """The query of the change that wins for each key.

    :param changes: the query of the changes, each with the place of its write among all writes
    """
    names = [*table.primary_key, *table.values, CHANGE_TYPE, SEQUENCE, INGESTED_AT]
    order = ", ".join(f"{name} DESC" for name in (SEQUENCE, SINCE, ORDER))
    return (
        f"SELECT {column_list(names)} FROM (SELECT *, row_number() OVER"
        f" (PARTITION BY {column_list(table.primary_key)} ORDER BY {order}) AS _cdc_place"
        f" FROM ({changes})) WHERE _cdc_place = 1"
    )


def apply_text(
    table: UpsertTable,
    changes: str,
    untouched: Intervals | None = None,
    *,
    are_few: bool = False,
) -> str:
    """The MERGE that applies ``changes``, a query. It rewrites no row that stays the same.

    BigQuery CDC, deletes out of order: a delete with a sequence number leaves a tombstone, so that
    an older change that comes later loses. Without sequence numbers no change can be late.

    :param untouched: intervals of keys without a change; the MERGE does not read files that have
        only such keys
    :param are_few: whether the changes can be sent to each task that reads the base
    """
    state = f"t.{quote(STATE)}"
    wins = f"c.{SEQUENCE} >= coalesce({state}.sequence, '')"
    newer = f"c.{SEQUENCE} > coalesce({state}.sequence, '')"
    is_tombstone = f"{state}.deleted_at IS NOT NULL"
    same = [f"t.{name} <=> c.{name}" for name in map(quote, table.values)]
    differs = f"NOT ({' AND '.join(same)})" if same else "false"
    names = [column.name for column in table.columns]
    columns, values = column_list([*names, STATE]), column_list(names, "c.")
    tombstone, alive = new_state(is_deleted=True), new_state(is_deleted=False)
    keys, of_change = column_list(table.primary_key), column_list(table.primary_key, "c.")
    erased = assigned([(name, "NULL") for name in table.values] + [(STATE, tombstone)])
    updated = assigned([(name, f"c.{quote(name)}") for name in table.values] + [(STATE, alive)])
    return "\n".join(
        (
            merge_head(table, winners(table, changes), untouched, are_few=are_few),
            f"WHEN MATCHED AND {wins} AND {IS_DELETE} AND c.{SEQUENCE} = '' THEN DELETE",
            f"WHEN MATCHED AND {IS_DELETE} AND ({newer} OR ({wins} AND NOT {is_tombstone}))"
            f" THEN UPDATE SET {erased}",
            f"WHEN MATCHED AND {wins} AND NOT ({IS_DELETE})"
            f" AND ({newer} OR {is_tombstone} OR {differs}) THEN UPDATE SET {updated}",
            f"WHEN NOT MATCHED AND {IS_DELETE} AND c.{SEQUENCE} <> ''"
            f" THEN INSERT ({keys}, {quote(STATE)}) VALUES ({of_change}, {tombstone})",
            f"WHEN NOT MATCHED AND NOT ({IS_DELETE}) THEN INSERT ({columns})"
            f" VALUES ({values}, {alive})",
        )
    )


def merge_head(
    table: UpsertTable, source: str, untouched: Intervals | None, *, are_few: bool
) -> str:
    """The start of a MERGE of changes ``c``, which the query ``source`` returns, into rows ``t`` of
    the base.

    The other arguments are as for :func:`apply_text`.
    """
    elsewhere = "" if untouched is None else f" AND {is_untouched(untouched)}"
    return (
        f"MERGE INTO {table.sql} AS t"
        f" USING (SELECT {broadcast('c', when=are_few)}* FROM ({source}) AS c) AS c\n"
        f"ON {same_key(table, 't', 'c')}{elsewhere}"
    )


# The condition of the rows of a base that are not deleted.
IS_LIVE = f"{quote(STATE)}.deleted_at IS NULL"


def live_rows(table: UpsertTable) -> str:
    """The query of what readers see: the data columns of the rows that are not deleted."""
    columns = column_list([column.name for column in table.columns])
    return f"SELECT {columns} FROM {table.base.sql} WHERE {IS_LIVE}"


def fresh_rows(
    table: UpsertTable,
    changes: str,
    version: int,
    *,
    are_few: bool = False,
    newer: str | None = None,
) -> str:
    """The query of what readers would see if ``changes``, a query, were applied.

    :param version: a version of the base that has all changes that are not pending, and no change
        that was applied after the query was made
    :param are_few: as for :func:`apply_text`
    :param newer: a relation with the keys of the changes, if each change is newer than every row of
        the base and cannot lose to it
    """
    names, same = [column.name for column in table.columns], same_key(table, "t", "c")
    base, state = f"{table.sql} VERSION AS OF {version}", f"t.{quote(STATE)}"
    loses = f"c.{SEQUENCE} < coalesce({state}.sequence, '')"
    kept, new, keys = (
        column_list(names, "t."),
        column_list(names, "c."),
        column_list(table.primary_key, "c."),
    )
    few = broadcast("c", when=are_few)
    losing = f"SELECT {few}{keys} FROM {base} AS t JOIN pending AS c ON {same} AND {loses}"
    # The second join with the base reads only keys.
    replaced, winning = f"{same} AND NOT ({loses})", f"LEFT ANTI JOIN ({losing}) AS t ON {same}"
    if newer is not None:
        replaced, winning = same, ""
    return (
        f"WITH pending AS ({winners(table, changes)})"
        f" SELECT {few}{kept} FROM {base} AS t LEFT ANTI JOIN {newer or 'pending'} AS c"
        f" ON {replaced} WHERE {state}.deleted_at IS NULL"
        f" UNION ALL SELECT {new} FROM pending AS c {winning} WHERE NOT {IS_DELETE}"
    )


def new_state(*, is_deleted: bool) -> str:
    """The state that the base remembers of an applied change ``c``: its sequence number, and for a
    delete the time at which it was ingested.
    """
    deleted_at = f"c.{INGESTED_AT}" if is_deleted else "CAST(NULL AS TIMESTAMP_LTZ)"
    return f"named_struct('sequence', c.{SEQUENCE}, 'deleted_at', {deleted_at})"


def assigned(pairs: Sequence[tuple[str, str]]) -> str:
    """The assignments of an UPDATE SET: columns with the values that they are set to, as SQL."""
    return ", ".join(f"{quote(name)} = {value}" for name, value in pairs)
