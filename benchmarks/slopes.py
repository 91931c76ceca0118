"""How figures grow with the size of what they are about."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from .results import Row, Run

_SIZE = re.compile(r"([\d,]+) (streams|commits)")


@dataclass(frozen=True, slots=True)
class Slope:
    """A figure at growing sizes, in seconds or in bytes."""

    workload: str
    unit: str
    sizes: tuple[int, ...]
    values: tuple[float, ...]
    is_bytes: bool

    @property
    def each(self) -> float:
        """What one more of what is counted adds, by the two largest sizes."""
        return (self.values[-1] - self.values[-2]) / (self.sizes[-1] - self.sizes[-2])

    @property
    def exponent(self) -> float:
        """The power of the size with which the figure grows, by the two largest sizes: 1 is in
        proportion.
        """
        growth = self.values[-1] / self.values[-2]
        return math.log(growth) / math.log(self.sizes[-1] / self.sizes[-2])

    def at(self, times: int) -> float:
        """The figure at ``times`` the largest size, on the line through the two largest sizes.
        Computed, not measured. It never sinks below the largest figure.
        """
        last = self.values[-1]
        return max(last, last + self.each * self.sizes[-1] * (times - 1))


def of(run: Run) -> Iterator[Slope]:
    """The slope of each workload whose ways are sizes."""
    for workload, rows in run.by_workload().items():
        found = [(match, row) for way, row in rows.items() if (match := _SIZE.match(way))]
        if len(found) > 1:
            yield Slope(
                workload,
                found[0][0][2],
                tuple(int(match[1].replace(",", "")) for match, _ in found),
                tuple(_value(row) for _, row in found),
                is_bytes=found[0][1].timing is None,
            )


def _value(row: Row) -> float:
    return row.size_bytes if row.timing is None else row.timing.median
