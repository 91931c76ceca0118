"""The clock of the engine. Tests pass their own."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> datetime:
    """Now, in UTC."""
    return datetime.now(tz=UTC)
