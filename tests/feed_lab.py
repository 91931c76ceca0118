"""The change feed of the engine and that of Delta, in one form that can be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import VariantVal

ADDED = ("_change_type", "_commit_version", "_commit_timestamp")
# Each commit of a feed: how often it has each change. A change is its type, then its values.
Feed = dict[int, Counter[tuple[Any, ...]]]


def delta_feed(
    spark: SparkSession, location: str, first: int, last: int | None = None
) -> DataFrame:
    """The rows that Delta's own feed returns from ``first`` through ``last``."""
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    reader = reader.option("startingVersion", first)
    if last is not None:
        reader = reader.option("endingVersion", last)
    return reader.load(location)


def by_commit(rows: DataFrame) -> Feed:
    """The changes of each commit, without their times."""
    found: Feed = {}
    columns = [name for name in rows.columns if name not in ADDED]
    for row in rows.collect():
        change = (row["_change_type"], *(plain(row[name]) for name in columns))
        found.setdefault(row["_commit_version"], Counter())[change] += 1
    return found


def times_by_commit(rows: DataFrame) -> dict[int, set[Any]]:
    """The times that the rows of each commit have."""
    found: dict[int, set[Any]] = {}
    for row in rows.select("_commit_version", "_commit_timestamp").distinct().collect():
        found.setdefault(row[0], set()).add(row[1])
    return found


def without_rewritten(feed: Feed) -> Feed:
    """``feed`` without rows that a commit deleted and inserted again with the same values, as
    Delta's own feed has them for a RESTORE.
    """
    found: Feed = {}
    for version, changes in feed.items():
        kept = Counter(changes)
        for (kind, *values), count in changes.items():
            if kind == "delete":
                both = min(count, changes[("insert", *values)])
                kept[("delete", *values)] -= both
                kept[("insert", *values)] -= both
        if kept := +kept:
            found[version] = kept
    return found


def as_steps(feed: Feed) -> Feed:
    """``feed`` with each update as a delete and an insert."""
    names = {"update_preimage": "delete", "update_postimage": "insert"}
    found: Feed = {}
    for version, changes in feed.items():
        steps: Counter[tuple[Any, ...]] = Counter()
        for (kind, *values), count in changes.items():
            steps[(names.get(kind, kind), *values)] += count
        found[version] = steps
    return found


def replayed(feed: Feed, through: int) -> Counter[tuple[Any, ...]]:
    """The rows of the table after the changes of all commits up to ``through``."""
    rows: Counter[tuple[Any, ...]] = Counter()
    for version in sorted(version for version in feed if version <= through):
        for (kind, *values), count in feed[version].items():
            sign = -1 if kind in ("delete", "update_preimage") else 1
            rows[tuple(values)] += sign * count
        assert all(count >= 0 for count in rows.values()), f"version {version}"
    return +rows


def plain(value: Any) -> Any:
    """``value`` in a form that can be hashed; NaN equals itself."""
    if isinstance(value, Row):
        return tuple(map(plain, value))
    if isinstance(value, Mapping):
        return tuple(sorted((repr(plain(key)), plain(item)) for key, item in value.items()))
    if isinstance(value, list):
        return tuple(map(plain, value))
    if isinstance(value, VariantVal):
        return value.toJson()
    if isinstance(value, float):
        return repr(value)
    return value


def row_ids_of(rows: Iterable[Row]) -> set[str]:
    """The row ids of feed rows."""
    return {row["METADATA$ROW_ID"] for row in rows}
