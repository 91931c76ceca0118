"""Finds the parts of a table that no change can touch, from the statistics of its files.

Files that are clustered by a key column hold intervals of its values. If no change has a key in an
interval, the MERGE leaves the interval out, and Delta skips its files.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from ..names import quote, text_value
from .columns import Column
from .log_actions import DataFile

MOST_INTERVALS = 128
_WIDE = 4
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_NO_TEXT = "\N{REPLACEMENT CHARACTER}"
WHOLE_NUMBERS = ("tinyint", "smallint", "int", "bigint")
"""The types whose values compare in Python as in Spark."""
# The statistics of other types are rounded, or JSON does not hold them exactly.
_TYPES = (*WHOLE_NUMBERS, "date", "string")


@dataclass(frozen=True, slots=True)
class Interval:
    """The values of a column from ``low`` to ``high``, both inclusive. ``size`` is the size in
    bytes of the files that hold them.
    """

    low: Any
    high: Any
    size: int


@dataclass(frozen=True, slots=True)
class Intervals:
    """The intervals of the values of ``column`` in a table, in order and without overlap.

    A small file may span several of them.
    """

    column: str
    type: str
    found: tuple[Interval, ...]

    @property
    def size(self) -> int:
        """The bytes of the files of all intervals."""
        return sum(interval.size for interval in self.found)

    def contains(self, value: str) -> str:
        """The condition that one of the intervals holds ``value``, as SQL."""
        tests = (
            f"{value} BETWEEN {self._literal(interval.low)} AND {self._literal(interval.high)}"
            for interval in self.found
        )
        return f"({' OR '.join(tests)})"

    def rows(self) -> str:
        """A relation of the intervals, as SQL, with the columns ``number``, ``low`` and
        ``high``.
        """
        rows = (
            f"({number}, {self._literal(interval.low)}, {self._literal(interval.high)})"
            for number, interval in enumerate(self.found)
        )
        return f"VALUES {', '.join(rows)} AS i (number, low, high)"

    def numbered(self, numbers: Iterable[int]) -> Intervals:
        """The intervals with these numbers."""
        return replace(self, found=tuple(self.found[number] for number in sorted(numbers)))

    def near(self, ranges: Iterable[tuple[Any, Any]]) -> Intervals:
        """The intervals that overlap one of the ``ranges``, each a low and a high value."""
        touched: set[int] = set()
        for low, high in ranges:
            touched.update(_met(self.found, low, high))
        return self.numbered(touched)

    def holding(self, values: Sequence[int]) -> Intervals:
        """The intervals that hold one of ``values``, whole numbers in ascending order."""
        return self.numbered(
            number
            for number, each in enumerate(self.found)
            if bisect_left(values, each.low) < bisect_right(values, each.high)
        )

    def without(self, others: Intervals) -> Intervals:
        """The intervals that are not among ``others``."""
        touched = set(others.found)
        return replace(self, found=tuple(each for each in self.found if each not in touched))

    def _literal(self, value: Any) -> str:
        return f"CAST({text_value(str(value))} AS {self.type})"


def intervals_of(key: Column, files: Sequence[Mapping[str, Any]]) -> Intervals | None:
    """The intervals of the first key column in a table, from the statistics of its ``files``.

    ``None``: they would not help.

    :param files: the ``add`` actions of the log of the table
    """
    if key.type not in _TYPES:
        return None
    found = []
    for file in files:
        bounds = _bounds(key.name, key.type, file.get("stats"))
        if bounds is None:
            return None
        found.append(Interval(*bounds, int(file["size"])))
    apart = _apart(found)
    return Intervals(key.name, key.type, tuple(apart)) if len(apart) > 1 else None


def key_ranges(key: Column, files: Iterable[DataFile]) -> list[tuple[Any, Any]] | None:
    """The least and the greatest value of the first key column in each of the ``files`` of changes.
    ``None``: the statistics do not show them.
    """
    found = [_bounds(key.name, key.type, file.stats) for file in files]
    known = [bounds for bounds in found if bounds is not None]
    return known if len(known) == len(found) else None


def _bounds(name: str, kind: str, stats: str | None) -> tuple[Any, Any] | None:
    statistics = json.loads(stats or "{}")
    low = statistics.get("minValues", {}).get(name)
    high = statistics.get("maxValues", {}).get(name)
    is_known = low is not None and high is not None
    if is_known and kind == "date":
        # Years of five digits and years before the year 1 do not sort as text.
        is_known = bool(_DAY.fullmatch(low) and _DAY.fullmatch(high))
    if is_known and kind == "string":
        # This character replaces bytes that are not text, so the text is not a bound of them.
        is_known = _NO_TEXT not in low + high
    return (low, high) if is_known else None


def is_untouched(intervals: Intervals) -> str:
    """The condition by which a MERGE leaves out the rows ``t`` of the intervals. ``intervals`` has
    at least one interval.
    """
    return f"NOT {intervals.contains(f't.{quote(intervals.column)}')}"


def _apart(files: Sequence[Interval]) -> list[Interval]:
    """The intervals of ``files``, in order and without overlap, and not too many.

    A file is left out if it spans intervals that are many times its size. The MERGE reads such a
    file in any case. A change in two distant places makes such a file, and it must not join all
    intervals into one.
    """
    apart: list[Interval] = []
    for file in sorted(files, key=lambda file: -file.size):
        places = _met(apart, file.low, file.high)
        across = apart[places.start : places.stop]
        if len(across) > 1 and sum(each.size for each in across) >= _WIDE * file.size:
            continue
        apart[places.start : places.stop] = [reduce(_joined, across, file)]
    group = max(1, -(-len(apart) // MOST_INTERVALS))
    starts = range(0, len(apart), group)
    return [reduce(_joined, apart[start : start + group]) for start in starts]


def _met(apart: Sequence[Interval], low: Any, high: Any) -> range:
    """The indices of the ordered intervals that hold a value from ``low`` to ``high``.

    If no interval does, the result is the empty range at the index at which such an interval
    belongs.
    """
    first = bisect_left(apart, low, key=lambda interval: interval.high)
    return range(first, bisect_right(apart, high, key=lambda interval: interval.low))


def _joined(first: Interval, second: Interval) -> Interval:
    low, high = min(first.low, second.low), max(first.high, second.high)
    return Interval(low, high, first.size + second.size)
