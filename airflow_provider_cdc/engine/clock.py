"""The clock of the engine. Tests pass another clock."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> datetime:
    """The current time, in UTC."""
    return datetime.now(tz=UTC)
