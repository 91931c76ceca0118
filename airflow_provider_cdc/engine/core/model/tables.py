"""A Delta table as statements name it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    """A Delta table: the user's name for it, its quoted SQL, and its root."""

    name: str
    sql: str
    location: str
