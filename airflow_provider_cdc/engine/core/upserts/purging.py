"""The SQL that removes what was kept long enough: tombstones, which leave a hash, and changes."""

from __future__ import annotations

from datetime import UTC, datetime

from ..names import quote
from .changes import INGESTED_AT, SEQUENCE
from .definition import STATE, UpsertTable
from .diversion import KEY_HASH, key_hash


def remember_text(table: UpsertTable, deletes: str, before: datetime) -> str:
    """The MERGE that remembers the deletes from before ``before``, by a hash of their keys.

    :param deletes: the table that remembers them, as SQL
    """
    state = quote(STATE)
    return (
        f"MERGE INTO {deletes} AS t USING (SELECT {key_hash(table)} AS {KEY_HASH},"
        f" max({state}.sequence) AS {SEQUENCE} FROM {table.base.sql}"
        f" WHERE {_ended(before)} GROUP BY ALL) AS c ON t.{KEY_HASH} = c.{KEY_HASH}"
        f" WHEN MATCHED AND c.{SEQUENCE} > t.{SEQUENCE} THEN UPDATE SET {SEQUENCE} = c.{SEQUENCE}"
        f" WHEN NOT MATCHED THEN INSERT ({KEY_HASH}, {SEQUENCE})"
        f" VALUES (c.{KEY_HASH}, c.{SEQUENCE})"
    )


def purge_text(table: UpsertTable, before: datetime) -> str:
    """The DELETE that ends the tombstones of the deletes from before ``before``."""
    return f"DELETE FROM {table.base.sql} WHERE {_ended(before)}"


def forget_text(changes: str, before: datetime) -> str:
    """The DELETE that removes changes that were ingested before ``before``.

    :param changes: their table, as SQL
    """
    return f"DELETE FROM {changes} WHERE {INGESTED_AT} < {_moment(before)}"


def _ended(before: datetime) -> str:
    return f"{quote(STATE)}.deleted_at < {_moment(before)}"


def _moment(moment: datetime) -> str:
    return f"TIMESTAMP '{moment.astimezone(UTC).isoformat(sep=' ')}'"
