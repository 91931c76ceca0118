"""The change feed returns the changes of each commit, as Delta's own feed does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from feed_lab import (
    Feed,
    as_steps,
    by_commit,
    delta_feed,
    plain,
    replayed,
    times_by_commit,
    without_rewritten,
)
from pyspark.sql import SparkSession
from stream_lab import StreamLab

from airflow_provider_cdc.engine.spark.change_feed import pairing

FED = "'delta.enableChangeDataFeed' = 'true'"
TRACKED = "'delta.enableRowTracking' = 'true'"
VECTORS = "'delta.enableDeletionVectors' = 'true'"
COPIED = "'delta.enableDeletionVectors' = 'false'"

# Statements of all kinds. Most carry rows over into other files, or leave values as they are.
WRITES = (
    "INSERT INTO {t} SELECT /*+ COALESCE(1) */ *"
    " FROM VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')",
    "UPDATE {t} SET v = 'x' WHERE id <= 2",
    "UPDATE {t} SET v = v WHERE id = 3",
    "DELETE FROM {t} WHERE id = 2",
    "MERGE INTO {t} USING (SELECT explode(array(1, 3, 5, 6)) AS key) ON id = key"
    " WHEN MATCHED AND key = 3 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 'y'"
    " WHEN NOT MATCHED THEN INSERT (id, v) VALUES (key, 'e')",
    "MERGE INTO {t} USING (SELECT 1 AS key) ON id = key"
    " WHEN NOT MATCHED BY SOURCE AND id > 5 THEN UPDATE SET v = 'z'",
    "MERGE INTO {t} USING (SELECT 9 AS key) ON id = key WHEN MATCHED THEN DELETE",
    "OPTIMIZE {t}",
    "INSERT OVERWRITE {t} VALUES (1, 'a'), (7, 'f')",
    "RESTORE TABLE {t} TO VERSION AS OF 6",
    "INSERT INTO {t} VALUES (7, 'g'), (8, NULL)",
    "DELETE FROM {t} WHERE id >= 7",
    "UPDATE {t} SET id = id + 10",
    "TRUNCATE TABLE {t}",
    "RESTORE TABLE {t} TO VERSION AS OF 11",
)


@pytest.fixture(scope="module")
def lab(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> StreamLab:
    return StreamLab(spark, tmp_path_factory.mktemp("feed"))


@pytest.fixture(scope="module", params=[VECTORS, COPIED], ids=["vectors", "copied"])
def table(request: pytest.FixtureRequest, lab: StreamLab) -> str:
    """A table with the feed and row tracking on, after all of ``WRITES``."""
    name = "vectors" if request.param is VECTORS else "copied"
    properties = f"{FED}, {TRACKED}, {request.param}"
    lab.make(name, "id INT, v STRING", *WRITES, properties=properties)
    return name


@pytest.fixture(scope="module")
def expected(lab: StreamLab, table: str) -> Feed:
    """What Delta's own feed returns for all commits of the table."""
    found = by_commit(delta_feed(lab.spark, lab.path(table), 0))
    assert len(found) > 10
    return found


@pytest.fixture(scope="module")
def versions(lab: StreamLab, table: str) -> list[list[tuple[object, ...]]]:
    """The rows of each version of the table."""
    found = []
    for version in range(lab.version(table) + 1):
        rows = lab.spark.read.format("delta").option("versionAsOf", version)
        loaded = rows.load(lab.path(table)).collect()
        found.append(sorted((tuple(map(plain, row)) for row in loaded), key=repr))
    return found


def feed(lab: StreamLab, table: str, source: str, first: int = 0) -> Feed:
    return by_commit(lab.engine.change_feed(lab.path(table), from_version=first, source=source))


def restores(lab: StreamLab, table: str) -> list[int]:
    """The versions at which a RESTORE brought rows back."""
    history = lab.spark.sql(f"DESCRIBE HISTORY {lab.name(table)}").where("operation = 'RESTORE'")
    return sorted(row.version for row in history.collect())


@pytest.mark.in_ci("copied")
def test_feed_source_returns_the_rows_of_delta_commit_by_commit(lab: StreamLab, table: str) -> None:
    expected = by_commit(delta_feed(lab.spark, lab.path(table), 0))
    assert len(expected) > 10
    assert feed(lab, table, "feed") == expected


@pytest.mark.parametrize("source", ["row_tracking", "auto"])
def test_row_tracking_returns_the_rows_of_delta_without_rewritten_rows(
    lab: StreamLab, table: str, source: str, expected: Feed
) -> None:
    found = feed(lab, table, source)
    versions = restores(lab, table)
    restored = {version: found.pop(version) for version in versions}
    returned = {version: expected[version] for version in versions}
    assert len(versions) == 2
    assert found == {version: expected[version] for version in expected.keys() - set(versions)}
    # Delta deletes and inserts all rows of a restored file. Here, only those that differ change.
    assert as_steps(restored) == without_rewritten(returned)


def test_feed_times_are_those_of_delta(lab: StreamLab, table: str) -> None:
    expected = times_by_commit(delta_feed(lab.spark, lab.path(table), 0))
    found = times_by_commit(lab.engine.change_feed(lab.path(table), from_version=0))
    assert found == {version: expected[version] for version in found}


@pytest.mark.in_ci("*-row_tracking")
@pytest.mark.parametrize("source", ["feed", "row_tracking", "auto"])
def test_replayed_feed_equals_each_version_of_the_table(
    lab: StreamLab, table: str, source: str, versions: list[list[tuple[object, ...]]]
) -> None:
    changes = feed(lab, table, source)
    for version, rows in enumerate(versions):
        assert sorted(replayed(changes, version).elements(), key=repr) == rows


def test_part_of_the_range_returns_the_same_commits(lab: StreamLab, table: str) -> None:
    whole = feed(lab, table, "row_tracking")
    rows = lab.engine.change_feed(
        lab.path(table), from_version=4, to_version=10, source="row_tracking"
    )
    assert by_commit(rows) == {version: whole[version] for version in whole if 4 <= version <= 10}


@pytest.mark.parametrize("after_restore", [False, True])
def test_large_rewrites_return_the_same_changes(
    lab: StreamLab,
    table: str,
    expected: Feed,
    after_restore: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    restored, newest = restores(lab, table)
    first, last = (restored + 1, newest - 1) if after_restore else (1, restored - 1)
    marked = Mock(wraps=pairing.marked)
    monkeypatch.setattr(pairing, "MANY_REWRITTEN_ROWS", 0)
    monkeypatch.setattr(pairing, "marked", marked)

    def with_ids(source: str) -> Feed:
        return by_commit(
            lab.engine.change_feed(
                lab.path(table), from_version=first, to_version=last, source=source, row_ids=True
            )
        )

    found = with_ids("row_tracking")
    marked.assert_called_once()
    assert found == with_ids("feed")
    assert {version: sum(changes.values()) for version, changes in found.items()} == {
        version: sum(changes.values())
        for version, changes in expected.items()
        if first <= version <= last
    }


@pytest.mark.in_ci("*-feed", "*-row_tracking")
@pytest.mark.parametrize("source", ["feed", "row_tracking", "auto"])
def test_row_ids_of_the_feed_are_those_of_the_table(
    lab: StreamLab, table: str, source: str
) -> None:
    rows = lab.engine.change_feed(
        lab.path(table), from_version=1, to_version=6, source=source, row_ids=True
    )
    assert by_commit(rows.drop("METADATA$ROW_ID")) == {
        version: changes
        for version, changes in feed(lab, table, source).items()
        if 1 <= version <= 6
    }
    ids = {row["METADATA$ROW_ID"]: row.id for row in rows.collect()}
    by_id: dict[int, set[str]] = {}
    for row_id, key in ids.items():
        by_id.setdefault(key, set()).add(row_id)
    # No statement up to version 6 changes an id, and no id comes back.
    assert {key: len(found) for key, found in by_id.items()} == dict.fromkeys(range(1, 7), 1)


def test_where_filters_the_rows_of_the_feed(lab: StreamLab, table: str) -> None:
    rows = lab.engine.change_feed(
        lab.path(table), from_version=0, where="_change_type = 'delete' AND _commit_version = 4"
    )
    assert by_commit(rows) == {4: {("delete", 2, "x"): 1}}


Maker = Callable[..., str]


@pytest.fixture
def make(lab: StreamLab, tmp_path: Path) -> Maker:
    def made(columns: str, *writes: str, properties: str = TRACKED, clause: str = "") -> str:
        name = tmp_path.name
        lab.make(name, columns, *writes, properties=properties, clause=clause)
        return name

    return made


@pytest.mark.in_ci("vectors")
def test_table_that_never_had_the_feed_equals_its_twin_that_has(
    lab: StreamLab, make: Maker, table: str
) -> None:
    properties = f"{TRACKED}, {VECTORS if table == 'vectors' else COPIED}"
    name = make("id INT, v STRING", *WRITES, properties=properties)
    expected = feed(lab, table, "row_tracking")
    assert feed(lab, name, "auto") == expected


def test_feed_without_row_tracking_is_read_from_its_change_files(
    lab: StreamLab, make: Maker
) -> None:
    name = make("id INT, v STRING", *WRITES[:8], properties=f"{FED}, {VECTORS}")
    assert feed(lab, name, "auto") == by_commit(delta_feed(lab.spark, lab.path(name), 0))
