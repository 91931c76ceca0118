"""The SQL that removes old changes, and old tombstones of which a hash remains."""

from __future__ import annotations

from datetime import datetime

from ..names import moment_sql, quote
from .change_rows import INGESTED_AT, SEQUENCE
from .definition import STATE, UpsertTable
from .diversion import KEY_HASH, key_hash

_STATE = quote(STATE)


def remember_text(table: UpsertTable, deletes: str, before: datetime) -> str:
    """The MERGE that remembers the deletes that were made before ``before`` by a hash of their
    keys.

    :param deletes: the table that remembers them, as SQL
    """
    return (
        f"MERGE INTO {deletes} AS t USING (SELECT {key_hash(table)} AS {KEY_HASH},"
        f" max({_STATE}.sequence) AS {SEQUENCE} FROM {table.sql}"
        f" WHERE {_STATE}.deleted_at < {moment_sql(before)} GROUP BY ALL) AS c"
        f" ON t.{KEY_HASH} = c.{KEY_HASH}"
        f" WHEN MATCHED AND c.{SEQUENCE} > t.{SEQUENCE} THEN UPDATE SET {SEQUENCE} = c.{SEQUENCE}"
        f" WHEN NOT MATCHED THEN INSERT ({KEY_HASH}, {SEQUENCE})"
        f" VALUES (c.{KEY_HASH}, c.{SEQUENCE})"
    )


def purge_text(table: UpsertTable, deletes: str) -> str:
    """The MERGE that removes the tombstones of remembered deletes.

    :param deletes: the table that remembers them, as SQL
    """
    return (
        f"MERGE INTO {table.sql} AS t USING {deletes} AS c ON {key_hash(table, 't.')} ="
        f" c.{KEY_HASH} AND t.{_STATE}.deleted_at IS NOT NULL"
        f" AND t.{_STATE}.sequence <= c.{SEQUENCE} WHEN MATCHED THEN DELETE"
    )


def forget_text(changes: str, before: datetime) -> str:
    """The DELETE that removes the changes that were ingested before ``before``.

    :param changes: their table, as SQL
    """
    return f"DELETE FROM {changes} WHERE {INGESTED_AT} < {moment_sql(before)}"
