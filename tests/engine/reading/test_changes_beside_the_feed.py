"""Each call of Delta's change data feed, and the call of the engine that replaces it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import combinations_with_replacement
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from stream_lab import StreamLab

from airflow_provider_cdc.engine import InvalidRange, Timestamp, Version

LAST = 5


@pytest.fixture(scope="module")
def lab(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> StreamLab:
    """A table ``src`` with the feed on, whose version 0 inserts; no ``id`` is used twice."""
    lab = StreamLab(spark, tmp_path_factory.mktemp("feed"))
    lab.sql(
        "CREATE TABLE {src} USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true',"
        " 'delta.enableRowTracking' = 'true') AS SELECT /*+ COALESCE(1) */ *"
        " FROM VALUES (1, 'a'), (2, 'b'), (3, 'c') AS (id, v)",
        "UPDATE {src} SET v = 'x' WHERE id <= 2",
        "DELETE FROM {src} WHERE id = 2",
        "MERGE INTO {src} USING (SELECT explode(array(1, 3, 4)) AS key) ON id = key"
        " WHEN MATCHED AND key = 3 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 'y'"
        " WHEN NOT MATCHED THEN INSERT (id, v) VALUES (key, 'd')",
        "INSERT INTO {src} VALUES (5, 'e')",
        "OPTIMIZE {src}",
    )
    assert lab.version("src") == LAST
    return lab


def feed(lab: StreamLab, **options: Any) -> DataFrame:
    reader = lab.spark.read.format("delta").option("readChangeFeed", "true").options(**options)
    return reader.load(lab.path("src"))


def steps(rows: Iterable[Row]) -> Counter[tuple[Any, ...]]:
    """Rows of the feed in the form of change sets: values, action and is-update."""
    return Counter(
        (
            row.id,
            row.v,
            "DELETE" if row._change_type in ("delete", "update_preimage") else "INSERT",
            row._change_type.startswith("update"),
        )
        for row in rows
    )


def net(rows: Iterable[Row]) -> Counter[tuple[Any, ...]]:
    """Net rows of the feed by ``id``: its steps cancel each other out."""
    old: dict[int, str] = {}
    new: dict[int, str | None] = {}
    for row in sorted(
        rows, key=lambda row: (row._commit_version, "preimage" not in row._change_type)
    ):
        is_removed = row._change_type in ("delete", "update_preimage")
        if is_removed and row.id not in new:
            old[row.id] = row.v
        new[row.id] = None if is_removed else row.v
    found = []
    for key, now in new.items():
        if key in old and old[key] != now:
            found.append((key, old[key], "DELETE", now is not None))
        if now is not None and old.get(key) != now:
            found.append((key, now, "INSERT", key in old))
    return Counter(found)


def changes(lab: StreamLab, **points: Any) -> Counter[tuple[Any, ...]]:
    return Counter(
        tuple(row[:-1]) for row in lab.engine.changes(lab.path("src"), **points).collect()
    )


@pytest.mark.thorough
def test_version_range_equals_the_netted_change_data_feed(lab: StreamLab) -> None:
    for first, last in combinations_with_replacement(range(LAST + 1), 2):
        rows = feed(lab, startingVersion=first, endingVersion=last).collect()
        found = changes(lab, before=Version(first), end=Version(last))
        assert found == net(rows), (first, last)


@pytest.mark.thorough
def test_time_range_equals_the_netted_change_data_feed(lab: StreamLab) -> None:
    times = [lab.committed_at("src", version) for version in range(LAST + 1)]
    for first, last in ((0, 0), (0, 3), (1, 2), (2, LAST)):
        start, end = times[first], times[last]
        rows = feed(
            lab, startingTimestamp=start.isoformat(), endingTimestamp=end.isoformat()
        ).collect()
        found = changes(lab, before=Timestamp(start), end=Timestamp(end))
        assert found == net(rows) != Counter(), (first, last)
        assert found == changes(lab, before=Version(first), end=Version(last))


@pytest.mark.thorough
def test_range_without_an_end_equals_the_netted_feed_without_an_end(lab: StreamLab) -> None:
    start = lab.committed_at("src", 1)
    assert changes(lab, before=Version(0)) == net(feed(lab, startingVersion=0).collect())
    assert changes(lab, before=Timestamp(start)) == net(
        feed(lab, startingTimestamp=start.isoformat()).collect()
    )


def test_range_equals_the_netted_result_of_table_changes(lab: StreamLab) -> None:
    path = lab.path("src")
    rows = lab.spark.sql(f"SELECT * FROM table_changes_by_path('{path}', 0, {LAST})").collect()
    found = changes(lab, before=Version(0), end=Version(LAST))
    assert found == net(rows) == Counter([(1, "y", "INSERT", False), *_inserts(4, 5)])


@pytest.mark.thorough
def test_range_of_one_version_equals_the_feed_of_that_version(lab: StreamLab) -> None:
    for version in range(LAST + 1):
        rows = feed(lab, startingVersion=version, endingVersion=version).collect()
        assert changes(lab, before=Version(version), end=Version(version)) == steps(rows)


def test_range_at_a_version_equals_the_feed_from_the_next_version(lab: StreamLab) -> None:
    rows = feed(lab, startingVersion=2, endingVersion=3).collect()
    assert changes(lab, at=Version(1), end=Version(3)) == net(rows) != Counter()


def test_range_beyond_the_newest_commit_is_refused_and_at_it_is_empty(
    lab: StreamLab,
) -> None:
    for points in ({"before": Version(LAST + 2)}, {"before": Version(0), "end": Version(LAST + 1)}):
        with pytest.raises(InvalidRange, match=f"from 0 to {LAST}"):
            changes(lab, **points)
    with pytest.raises(InvalidRange, match="is in the future"):
        changes(lab, before=Timestamp("2999-01-01T00:00:00Z"))
    assert changes(lab, at=Timestamp(lab.committed_at("src", LAST))) == Counter()


@pytest.mark.thorough
def test_archive_that_consumes_one_commit_at_a_time_has_every_change(lab: StreamLab) -> None:
    """Delta change data feed: to keep all changes for good, write them to a table of your own."""
    lab.engine.create_stream(
        "archived", on_table=lab.path("src"), at=Version(0), show_initial_rows=True
    )
    lab.make("archive", "id INT, v STRING, action STRING, is_update BOOLEAN, archived_at TIMESTAMP")
    append = (
        "INSERT INTO {archive} SELECT id, v, METADATA$ACTION, METADATA$ISUPDATE,"
        " current_timestamp() FROM archived"
    )
    while lab.engine.stream_has_data("archived"):
        lab.consume(append, max_commits=1)

    found = lab.spark.table(lab.name("archive")).collect()
    assert Counter(tuple(row[:4]) for row in found) == steps(feed(lab, startingVersion=0).collect())
    assert None not in {row.archived_at for row in found}


def _inserts(*keys: int) -> list[tuple[Any, ...]]:
    return [(key, "abcde"[key - 1], "INSERT", False) for key in keys]
