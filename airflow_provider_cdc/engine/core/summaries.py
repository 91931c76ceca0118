"""Parts of the line that a notebook shows for a value. The value's attributes hold more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from .errors import InvalidName
from .figures import counted
from .names import table_name

_MOST_NAMES = 5


def place_text(name: str) -> str:
    """The name or the path of a table, without the quotes that its SQL needs."""
    try:
        found = table_name(name)
    except InvalidName:
        return name
    return found.path or ".".join(found.parts)


def moment_text(moment: datetime) -> str:
    """A moment to the second: ``2026-01-01 12:00:00 UTC``."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def versions_text(versions: Iterable[int]) -> str:
    """``version 4``, or ``versions 4, 7`` of several tables."""
    numbers = [str(version) for version in versions]
    return f"version{'s' * (len(numbers) > 1)} {', '.join(numbers)}"


def names_text(names: Iterable[str], noun: str) -> str:
    """The first of many names, and how many there are. ``noun`` names what is counted."""
    found = list(names)
    shown = ", ".join(found[:_MOST_NAMES])
    return shown if len(found) <= _MOST_NAMES else f"{shown}, ... ({counted(len(found), noun)})"


def counts_text(counts: Mapping[str, int]) -> str:
    """The count of each kind: ``12 inserted, 3 updated``, or ``no rows`` if all counts are zero."""
    return ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count) or "no rows"
