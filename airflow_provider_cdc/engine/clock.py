"""The clock of the engine; tests hand in their own."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> datetime:
    """Now, in UTC."""
    return datetime.now(tz=UTC)
