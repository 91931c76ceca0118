"""When a stream goes stale: how long its source keeps what the stream has not consumed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta

import pendulum

_RETENTION_DEFAULTS = {
    "delta.deletedFileRetentionDuration": timedelta(days=7),
    "delta.logRetentionDuration": timedelta(days=30),
}
_INTERVAL = re.compile(r"(\d+)\s+(second|minute|hour|day|week)s?", re.IGNORECASE)


def source_retention(configuration: Mapping[str, str]) -> timedelta:
    """How long a source with these table properties keeps commits and files that a stream needs.

    Seed 000: the retention of the source bounds how long a stream may go unconsumed. Delta keeps
    deleted files and commits for periods of their own; the shorter one counts.
    """
    return min(
        _duration(configuration[name]) if name in configuration else default
        for name, default in _RETENTION_DEFAULTS.items()
    )


def stale_after(consumed_at: datetime, configuration: Mapping[str, str]) -> datetime:
    """When a stream that was last consumed (or created) at ``consumed_at`` is predicted to go
    stale.
    """
    return consumed_at + source_retention(configuration)


def _duration(text: str) -> timedelta:
    """Delta's interval text, such as ``interval 7 days 12 hours``."""
    parts = {"seconds": 0, "minutes": 0, "hours": 0, "days": 0, "weeks": 0}
    for amount, unit in _INTERVAL.findall(text):
        parts[f"{unit.lower()}s"] += int(amount)
    return pendulum.duration(**parts).as_timedelta()
