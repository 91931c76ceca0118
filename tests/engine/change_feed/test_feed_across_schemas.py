"""The change feed of ranges in which columns change, and of columns of all kinds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from feed_lab import Feed, by_commit, delta_feed, replayed
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from stream_lab import StreamLab

from airflow_provider_cdc.engine import InvalidRequest, StreamUnusable

FED = "'delta.enableChangeDataFeed' = 'true'"
TRACKED = "'delta.enableRowTracking' = 'true'"
BOTH = f"{FED}, {TRACKED}"
SOURCES = ["feed", "row_tracking", "auto"]
MAPPED = "'delta.columnMapping.mode' = 'name'"

Maker = Callable[..., str]


@pytest.fixture(scope="module")
def lab(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> StreamLab:
    return StreamLab(spark, tmp_path_factory.mktemp("feed"))


@pytest.fixture
def make(lab: StreamLab, tmp_path: Path) -> Maker:
    def made(columns: str, *writes: str, properties: str = BOTH, clause: str = "") -> str:
        name = tmp_path.name
        lab.make(name, columns, *writes, properties=properties, clause=clause)
        return name

    return made


def feed(lab: StreamLab, table: str, source: str, first: int = 0) -> Feed:
    return by_commit(lab.engine.change_feed(lab.path(table), from_version=first, source=source))


def check_replay(lab: StreamLab, table: str, source: str) -> None:
    """Every change of the table leads to its rows of today."""
    changes = feed(lab, table, source)
    rows = lab.spark.read.format("delta").load(lab.path(table))
    now = by_commit(rows.selectExpr("*", "'insert' AS _change_type", "0 AS _commit_version"))
    expected = Counter({tuple(values): count for (_, *values), count in now[0].items()})
    assert replayed(changes, lab.version(table)) == expected


@pytest.mark.in_ci("feed-id", "row_tracking-name")
@pytest.mark.parametrize("mode", ["name", "id"])
@pytest.mark.parametrize("source", SOURCES)
def test_columns_renamed_dropped_and_added_are_matched_by_their_ids(
    lab: StreamLab, make: Maker, mode: str, source: str
) -> None:
    table = make(
        "id INT, v STRING, w STRING",
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a', 'x'), (2, 'b', 'y')",
        "UPDATE {t} SET v = 'c' WHERE id = 1",
        "ALTER TABLE {t} RENAME COLUMN v TO w2",
        "ALTER TABLE {t} DROP COLUMN w",
        "ALTER TABLE {t} ADD COLUMN (w INT)",
        "UPDATE {t} SET w = 7 WHERE id = 1",
        "DELETE FROM {t} WHERE id = 2",
        properties=f"{BOTH}, 'delta.columnMapping.mode' = '{mode}'",
    )
    assert feed(lab, table, source) == {
        1: Counter({("insert", 1, "a", None): 1, ("insert", 2, "b", None): 1}),
        2: Counter({("update_preimage", 1, "a", None): 1, ("update_postimage", 1, "c", None): 1}),
        6: Counter({("update_preimage", 1, "c", None): 1, ("update_postimage", 1, "c", 7): 1}),
        7: Counter({("delete", 2, "b", None): 1}),
    }
    with pytest.raises(PySparkException, match="INCOMPATIBLE_SCHEMA_CHANGE"):
        delta_feed(lab.spark, lab.path(table), 0).collect()


@pytest.mark.in_ci("row_tracking")
@pytest.mark.parametrize("source", SOURCES)
def test_schema_of_commits_keeps_dropped_columns_null_where_they_were_not(
    lab: StreamLab, make: Maker, source: str
) -> None:
    table = make(
        "id INT, v STRING, w STRING",
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a', 'x'), (2, 'b', 'y')",
        "UPDATE {t} SET w = 'z' WHERE id = 1",
        "ALTER TABLE {t} DROP COLUMN w",
        "DELETE FROM {t} WHERE id = 2",
        "ALTER TABLE {t} RENAME COLUMN v TO u",
        "ALTER TABLE {t} ADD COLUMN (n INT)",
        "INSERT INTO {t} VALUES (3, 'c', 5)",
        properties=f"{BOTH}, {MAPPED}",
    )
    rows = lab.engine.change_feed(lab.path(table), from_version=0, source=source, schema="commit")
    assert rows.columns[:4] == ["id", "u", "n", "w"]
    assert by_commit(rows) == {
        1: Counter({("insert", 1, "a", None, "x"): 1, ("insert", 2, "b", None, "y"): 1}),
        2: Counter(
            {
                ("update_preimage", 1, "a", None, "x"): 1,
                ("update_postimage", 1, "a", None, "z"): 1,
            }
        ),
        4: Counter({("delete", 2, "b", None, None): 1}),
        7: Counter({("insert", 3, "c", 5, None): 1}),
    }


def test_schema_of_commits_with_two_columns_of_one_name_is_refused(
    lab: StreamLab, make: Maker
) -> None:
    table = make(
        "id INT, v STRING",
        "INSERT INTO {t} VALUES (1, 'a')",
        "ALTER TABLE {t} DROP COLUMN v",
        "ALTER TABLE {t} ADD COLUMN (V INT)",
        properties=f"{BOTH}, {MAPPED}",
    )
    with pytest.raises(InvalidRequest, match="column v was dropped, and there is another column V"):
        lab.engine.change_feed(lab.path(table), from_version=0, schema="commit")
    assert feed(lab, table, "auto") == {1: Counter({("insert", 1, None): 1})}


@pytest.mark.in_ci("row_tracking")
@pytest.mark.parametrize("source", SOURCES)
def test_widened_column_has_its_final_type(lab: StreamLab, make: Maker, source: str) -> None:
    table = make(
        "id INT, v INT",
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 1), (2, 2)",
        "UPDATE {t} SET v = 3 WHERE id = 1",
        "ALTER TABLE {t} ALTER COLUMN v TYPE BIGINT",
        "UPDATE {t} SET v = 5000000000 WHERE id = 1",
        properties=f"{BOTH}, 'delta.enableTypeWidening' = 'true'",
    )
    rows = lab.engine.change_feed(lab.path(table), from_version=0, source=source)
    assert dict(rows.dtypes)["v"] == "bigint"
    assert by_commit(rows)[4] == Counter(
        {("update_preimage", 1, 3): 1, ("update_postimage", 1, 5_000_000_000): 1}
    )
    check_replay(lab, table, source)


@pytest.mark.in_ci("feed", "row_tracking")
@pytest.mark.parametrize("source", SOURCES)
def test_partition_values_are_read_with_their_rows(
    lab: StreamLab, make: Maker, source: str
) -> None:
    table = make(
        "id INT, p STRING, d DATE",
        "INSERT INTO {t} VALUES (1, 'a', DATE'2026-01-01'), (2, NULL, NULL), (3, 'ä b', NULL)",
        "UPDATE {t} SET p = 'b' WHERE id = 1",
        "DELETE FROM {t} WHERE p IS NULL",
        "DELETE FROM {t} WHERE p = 'ä b'",
        clause="PARTITIONED BY (p, d)",
    )
    assert feed(lab, table, source) == by_commit(delta_feed(lab.spark, lab.path(table), 0))


@pytest.mark.in_ci("row_tracking")
@pytest.mark.parametrize("source", SOURCES)
def test_nested_generated_and_identity_columns_keep_their_values(
    lab: StreamLab, make: Maker, source: str
) -> None:
    table = make(
        "key BIGINT GENERATED ALWAYS AS IDENTITY, s STRUCT<a: INT, b: ARRAY<STRING>>,"
        " m MAP<STRING, INT>, n INT, g INT GENERATED ALWAYS AS (n + 1), f DOUBLE, t TIMESTAMP",
        "INSERT INTO {t} (s, m, n, f, t) SELECT /*+ COALESCE(1) */ named_struct('a', CAST(id AS"
        " INT), 'b', array('x', NULL)), map('k', CAST(id AS INT)), CAST(id AS INT),"
        " CAST('NaN' AS DOUBLE), TIMESTAMP'2026-01-01 00:00:00' FROM range(3)",
        "UPDATE {t} SET s.a = 9, n = 5 WHERE n = 1",
        "DELETE FROM {t} WHERE n = 2",
    )
    assert feed(lab, table, source) == by_commit(delta_feed(lab.spark, lab.path(table), 0))
    check_replay(lab, table, source)


def test_table_with_a_column_of_the_feed_needs_a_prefix(lab: StreamLab, make: Maker) -> None:
    table = make(
        "id INT, _change_type STRING",
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'mine'), (2, 'yours')",
        "UPDATE {t} SET _change_type = 'ours' WHERE id = 1",
        properties=TRACKED,
    )
    path = lab.path(table)
    with pytest.raises(InvalidRequest, match=r"already has a column _change_type.*column_prefix"):
        lab.engine.change_feed(path, from_version=0)
    rows = lab.engine.change_feed(path, from_version=0, column_prefix="feed")
    added = ["feed_change_type", "feed_commit_version", "feed_commit_timestamp"]
    assert rows.columns == ["id", "_change_type", *added]
    assert sorted(row[:4] for row in rows.collect()) == [
        (1, "mine", "insert", 1),
        (1, "mine", "update_preimage", 2),
        (1, "ours", "update_postimage", 2),
        (2, "yours", "insert", 1),
    ]


def test_change_files_from_before_a_column_of_that_name_are_read(
    lab: StreamLab, make: Maker
) -> None:
    table = make(
        "id INT, v STRING",
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a'), (2, 'b')",
        "UPDATE {t} SET v = 'c' WHERE id = 1",
        "ALTER TABLE {t} UNSET TBLPROPERTIES ('delta.enableChangeDataFeed')",
        "ALTER TABLE {t} ADD COLUMN (_change_type STRING)",
        properties=FED,
    )
    rows = lab.engine.change_feed(
        lab.path(table), from_version=2, to_version=4, column_prefix="feed"
    )
    assert sorted(row[:4] for row in rows.collect()) == [
        (1, "a", None, "update_preimage"),
        (1, "c", None, "update_postimage"),
    ]


def test_type_that_does_not_hold_old_values_is_refused(lab: StreamLab, make: Maker) -> None:
    table = make("id INT, v STRING", "INSERT INTO {t} VALUES (1, 'a')")
    rows = lab.spark.sql("SELECT 1 AS id, 5 AS v")
    writer = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    writer.save(lab.path(table))
    with pytest.raises(StreamUnusable, match="was of type string and is now of type integer"):
        lab.engine.change_feed(lab.path(table), from_version=0)
    rows = lab.engine.change_feed(lab.path(table), from_version=0, to_version=1)
    assert by_commit(rows) == {1: Counter({("insert", 1, "a"): 1})}


@pytest.mark.in_ci("auto")
@pytest.mark.parametrize("source", SOURCES)
def test_clone_has_a_feed_of_its_own(lab: StreamLab, make: Maker, source: str) -> None:
    table = make("id INT", "INSERT INTO {t} VALUES (1)", "INSERT INTO {t} VALUES (2)")
    lab.sql(f"CREATE TABLE {{{table}_c}} SHALLOW CLONE {{{table}}}")
    lab.sql(f"DELETE FROM {{{table}_c}} WHERE id = 1")
    assert feed(lab, f"{table}_c", source) == {
        0: Counter({("insert", 1): 1, ("insert", 2): 1}),
        1: Counter({("delete", 1): 1}),
    }
