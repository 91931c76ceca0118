"""Finding out, before changes are applied, which files of the base they cannot touch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ...core.names import quote
from ...core.upserts.definition import UpsertTable
from ...core.upserts.pruning import Intervals, intervals_of
from ...storage.files import Files
from ...storage.table_snapshots import newest_snapshot
from .queries import ROWS, query_over

# Below that, or where that share of it is read all the same, the look costs more than it saves.
WORTH_BYTES = 64 * 2**20
_WORTH_SHARE = 0.75
_COLUMN_MAPPING = "delta.columnMapping.mode"


@dataclass(frozen=True, slots=True)
class BaseShare:
    """How much of a base an apply has to read: ``read_bytes`` of ``total_bytes`` of its ``files``,
    add actions; no change is in the intervals ``untouched``.
    """

    files: tuple[Mapping[str, Any], ...]
    total_bytes: int
    read_bytes: int
    untouched: Intervals | None = None


class Pruning:
    """Tells which part of a base changes cannot touch, from statistics and the changes' keys."""

    def __init__(self, spark: SparkSession, files: Files) -> None:
        self._spark = spark
        self._files = files

    def whole(self, table: UpsertTable) -> BaseShare:
        """The whole base of ``table``."""
        base = newest_snapshot(table.location, self._files)
        return BaseShare(base.files, base.size_bytes, base.size_bytes)

    def share(self, table: UpsertTable, changes: DataFrame) -> BaseShare:
        """The part of the base of ``table`` that ``changes`` may touch."""
        base = newest_snapshot(table.location, self._files)
        total = base.size_bytes
        whole = BaseShare(base.files, total, total)
        mapping = base.metadata.get("configuration", {}).get(_COLUMN_MAPPING, "none")
        if total < WORTH_BYTES or mapping != "none":
            return whole
        intervals = intervals_of(table, base.files)
        if intervals is None:
            return whole
        text = (
            f"SELECT DISTINCT i.number FROM {ROWS} AS c JOIN {intervals.rows()}"
            f" ON c.{quote(intervals.column)} BETWEEN i.low AND i.high"
        )
        found = query_over(self._spark, text, changes).collect()
        untouched = intervals.without(row["number"] for row in found)
        read = total - untouched.size
        if read > _WORTH_SHARE * total:
            return whole
        return BaseShare(base.files, total, read, untouched)
