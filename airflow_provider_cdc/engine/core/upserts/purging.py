"""The SQL that ends tombstones which were kept long enough, and remembers the deletes briefly."""

from __future__ import annotations

from datetime import UTC, datetime

from ..names import quote
from .changes import SEQUENCE
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


def _ended(before: datetime) -> str:
    moment = before.astimezone(UTC).isoformat(sep=" ")
    return f"{quote(STATE)}.deleted_at < TIMESTAMP '{moment}'"
