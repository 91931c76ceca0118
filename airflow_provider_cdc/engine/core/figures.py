"""Sizes, lengths of time and counts of rows, as text for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta

import pendulum
from rich.filesize import decimal

ROW_KINDS = ("inserted", "updated", "deleted")
"""What can happen to a row."""


def extent_text(size_bytes: int, file_count: int) -> str:
    """A size and the number of its files: ``3.2 MB in 12 files``."""
    return f"{decimal(size_bytes)} in {counted(file_count, 'file')}"


def length_text(length: timedelta) -> str:
    """A length of time in words: ``1 hour 10 minutes``.

    The text leaves out fractions of a second if the length is at least one second.
    """
    if length < timedelta(seconds=1):
        return f"{length.total_seconds():g} seconds"
    return pendulum.duration(days=length.days, seconds=length.seconds).in_words("en")


def rows_text(rows: Mapping[str, int]) -> str:
    """Counts of rows by what happened to them: ``12 rows inserted, 3 updated``.

    The text leaves out counts of zero.
    """
    found = [(rows[kind], kind) for kind in ROW_KINDS if rows.get(kind)]
    if not found:
        return "no row changed"
    (first, kind), *others = found
    return ", ".join(
        [f"{counted(first, 'row')} {kind}", *(f"{count:,} {each}" for count, each in others)]
    )


def counted(count: int, noun: str) -> str:
    """``count`` and the singular ``noun`` of what is counted: ``1 file``, ``1,200 files``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def known_sum(counts: Iterable[int | None]) -> int | None:
    """The sum of ``counts``, or ``None`` if one of them is unknown."""
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total
