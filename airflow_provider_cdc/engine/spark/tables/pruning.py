"""Find the files of a table that changes cannot touch, before the changes are applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from ...core.delta.columns import Column
from ...core.delta.key_pruning import WHOLE_NUMBERS, Intervals, intervals_of, key_ranges
from ...core.delta.log_actions import DataFile
from ...core.delta.table_schema import mapping_mode
from ...core.names import quote
from ...storage.delta.key_values import whole_numbers
from ...storage.delta.table_snapshots import newest_snapshot
from ...storage.files.stores import Files

BASE_BYTES = "baseBytes"
BASE_BYTES_READ = "baseBytesRead"
"""Metrics that an apply adds to those of its MERGE: the bytes of the table, and the most bytes that
the apply may have read.
"""

# Pruning costs more than it saves if the table is smaller than this, or if a greater share of it
# must be read anyway.
WORTH_BYTES = 64 * 2**20
_WORTH_SHARE = 0.75


@dataclass(frozen=True, slots=True)
class TouchedShare:
    """How much of a table at ``version`` an apply must read: ``read_bytes`` of ``total_bytes``.

    ``files`` are the add actions of the table. No change has a key in the intervals ``untouched``.
    """

    version: int
    files: tuple[Mapping[str, Any], ...]
    total_bytes: int
    read_bytes: int
    untouched: Intervals | None = None


@dataclass(frozen=True, slots=True)
class ChangeFiles:
    """The files of the table at ``location`` that hold changes."""

    location: str
    files: Sequence[DataFile]


class Pruning:
    """Finds the part of a table that changes cannot touch, by statistics and the changes' keys."""

    def __init__(self, spark: SparkSession, files: Files) -> None:
        self._spark = spark
        self._files = files

    def whole(self, location: str) -> TouchedShare:
        """The whole table at ``location``."""
        base = newest_snapshot(location, self._files)
        return TouchedShare(base.version, base.files, base.size_bytes, base.size_bytes)

    def share(
        self, location: str, key: Column, changes: str, of: ChangeFiles | None = None
    ) -> TouchedShare:
        """The part of the table at ``location`` that changes may touch.

        :param changes: the changes, as an SQL relation
        :param of: the files that hold the changes, if they may show the keys
        """
        base = newest_snapshot(location, self._files)
        total = base.size_bytes
        whole = TouchedShare(base.version, base.files, total, total)
        mode = mapping_mode(base.metadata.get("configuration", {}))
        if total < WORTH_BYTES or mode != "none":
            return whole
        intervals = intervals_of(key, base.files)
        if intervals is None:
            return whole
        ranges = None if of is None else key_ranges(key, of.files)
        touched = intervals if ranges is None else intervals.near(ranges)
        if touched.size > WORTH_BYTES:
            keys = None if of is None else self._keys(key, of)
            touched = self._touched(touched, changes) if keys is None else touched.holding(keys)
        untouched = intervals.without(touched)
        read = total - untouched.size
        if read > _WORTH_SHARE * total:
            return whole
        return TouchedShare(base.version, base.files, total, read, untouched)

    def _keys(self, key: Column, of: ChangeFiles) -> list[int] | None:
        """The keys of the changes in ascending order. ``None``: Spark has to find them."""
        if key.type not in WHOLE_NUMBERS:
            return None
        return whole_numbers(of.location, of.files, key.name, self._files)

    def _touched(self, intervals: Intervals, changes: str) -> Intervals:
        """The intervals that hold the key of a change."""
        found = self._spark.sql(
            f"SELECT DISTINCT i.number FROM {changes} AS c JOIN {intervals.rows()}"
            f" ON c.{quote(intervals.column)} BETWEEN i.low AND i.high"
        )
        return intervals.numbered(row["number"] for row in found.collect())
