"""Change sets by the change data feed: the same as by data files, from fewer bytes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from oracle import Change, MakeTable, SourceTable, delete, insert, update
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_provider_cdc.engine.core.change_sets.read_plan import Strategy
from airflow_provider_cdc.engine.core.model.stream import Stream

FEED = "'delta.enableChangeDataFeed' = 'true'"
NO_FEED = "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')"
WITH_FEED = f"ALTER TABLE {{t}} SET TBLPROPERTIES ({FEED})"
ROWS = tuple(f"{i}, 'v{i}'" for i in range(8))
MERGE = (
    "MERGE INTO {t} t USING (SELECT * FROM VALUES (1, 'm1'), (2, 'm2'), (50, 'm50') q(id, v)) q"
    " ON t.id = q.id WHEN MATCHED AND q.id = 2 THEN DELETE WHEN MATCHED THEN UPDATE SET v = q.v"
    " WHEN NOT MATCHED THEN INSERT *"
)
either_vectors = pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "no vectors"])


def check(table: SourceTable, stream: Stream) -> list[Change]:
    """The changes by change files, once they equal those of the snapshots and of the data files."""
    by_files = table.read_by(Strategy.FILE_DIFFERENCE)
    by_feed = table.read_by(Strategy.CHANGE_FILES)
    assert by_files.plan(stream).strategy is Strategy.FILE_DIFFERENCE
    assert by_feed.plan(stream).strategy is Strategy.CHANGE_FILES
    found = by_feed.check(stream)
    assert by_files.changes(stream) == Counter(found)
    return found


@pytest.mark.thorough
@either_vectors
def test_change_files_of_many_commits_give_the_minimal_change_set(
    make_table: MakeTable, vectors: bool
) -> None:
    table = make_table("id INT, v STRING", *ROWS, vectors=vectors, properties=FEED)
    stream = table.stream()
    table.sql(
        "UPDATE {t} SET v = 'x' WHERE id = 0",
        MERGE,
        "DELETE FROM {t} WHERE id = 3",
        "INSERT INTO {t} VALUES (100, 'new'), (101, 'deleted')",
        "DELETE FROM {t} WHERE id = 101",
        "UPDATE {t} SET v = 'newer' WHERE id = 100",
        "UPDATE {t} SET v = v WHERE id = 5",
        "OPTIMIZE {t}",
        "UPDATE {t} SET v = 'there' WHERE id = 6",
        "UPDATE {t} SET v = 'v6' WHERE id = 6",
    )
    changes = check(table, stream)
    born = {change.values[0]: change.row_id for change in changes}
    assert sorted(changes) == sorted(
        [
            *update(0, (0, "v0"), (0, "x")),
            *update(1, (1, "v1"), (1, "m1")),
            delete(2, 2, "v2"),
            delete(3, 3, "v3"),
            insert(born[50], 50, "m50"),
            insert(born[100], 100, "newer"),
        ]
    )


@pytest.mark.thorough
@pytest.mark.parametrize(("first", "vectors"), [("on", True), ("off", False)])
def test_change_files_of_a_part_of_the_range_give_the_minimal_change_set(
    make_table: MakeTable, first: str, vectors: bool
) -> None:
    properties = FEED if first == "on" else "'delta.enableChangeDataFeed' = 'false'"
    table = make_table("id INT, v STRING", *ROWS, vectors=vectors, properties=properties)
    stream = table.stream()
    table.sql("UPDATE {t} SET v = 'x' WHERE id IN (0, 1)", "DELETE FROM {t} WHERE id = 7")
    table.sql(NO_FEED if first == "on" else WITH_FEED)
    table.sql(MERGE, "UPDATE {t} SET v = 'y' WHERE id = 4", "DELETE FROM {t} WHERE id = 5")
    assert len(check(table, stream)) == 2 * 3 + 3 + 1


@pytest.mark.in_ci("off")
@pytest.mark.parametrize("first", ["on", "off"])
def test_change_files_of_a_part_of_the_range_omit_rows_only_carried_over(
    make_table: MakeTable, first: str
) -> None:
    """Values alone cannot show it: a variant with an array of mixed types equals no other."""
    properties = FEED if first == "on" else "'delta.enableChangeDataFeed' = 'false'"
    mixed = """parse_json('[1, "a"]')"""
    rows = [f"{i}, 'v{i}', {mixed}" for i in range(4)]
    table = make_table("id INT, v STRING, m VARIANT", *rows, vectors=False, properties=properties)
    stream = table.stream()
    table.sql("UPDATE {t} SET v = 'x' WHERE id = 0")
    table.sql(NO_FEED if first == "on" else WITH_FEED)
    table.sql("UPDATE {t} SET v = 'y' WHERE id = 1", "DELETE FROM {t} WHERE id = 2")
    assert {change.row_id for change in check(table, stream)} == {0, 1, 2}


def test_change_files_from_before_a_column_with_a_clashing_name_are_unread(
    make_table: MakeTable,
) -> None:
    table = make_table("id INT, v STRING", *ROWS, properties=FEED)
    stream = table.stream()
    table.sql("UPDATE {t} SET v = 'x' WHERE id = 1", NO_FEED)
    table.sql("ALTER TABLE {t} ADD COLUMN _change_type STRING")
    by_feed = table.read_by(Strategy.CHANGE_FILES)
    assert sorted(by_feed.check(stream), key=repr) == sorted(
        update(1, (1, "v1", None), (1, "x", None)), key=repr
    )
    assert by_feed.plan(stream).strategy is Strategy.FILE_DIFFERENCE


@pytest.mark.thorough
def test_change_files_beside_overwrites_and_restores_give_minimal_changes(
    make_table: MakeTable,
) -> None:
    table = make_table("id INT, v STRING", *ROWS, properties=FEED)
    table.sql("DELETE FROM {t} WHERE id = 1")
    one_deleted = table.version
    stream = table.stream()
    table.sql("UPDATE {t} SET v = 'x' WHERE id < 4", f"RESTORE TABLE {{t}} TO VERSION AS OF {1}")
    assert check(table, stream) == [insert(1, 1, "v1")]
    table.sql("INSERT INTO {t} REPLACE WHERE id > 5 VALUES (6, 'six')")
    check(table, stream)
    table.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {one_deleted}")
    assert table.plan(stream).strategy is Strategy.NOTHING
    assert table.check(stream) == []
    table.sql("INSERT OVERWRITE {t} VALUES (0, 'v0')", "UPDATE {t} SET v = 'last'")
    assert len(check(table, stream)) == 7 + 1
    table.sql("TRUNCATE TABLE {t}")
    assert {change.action for change in check(table, stream)} == {"DELETE"}


@pytest.mark.in_ci("name-*")
@pytest.mark.parametrize(
    ("mapping", "strategy"),
    [("name", Strategy.CHANGE_FILES), ("id", Strategy.FILE_DIFFERENCE)],
)
def test_change_files_under_column_mapping_follow_columns_by_id(
    make_table: MakeTable, mapping: str, strategy: Strategy
) -> None:
    table = make_table(
        "id INT, v STRING, w STRUCT<a: INT>",
        *[f"{row}, named_struct('a', 1)" for row in ROWS],
        properties=f"{FEED}, 'delta.columnMapping.mode' = '{mapping}'",
    )
    stream = table.stream()
    table.sql("UPDATE {t} SET v = 'x' WHERE id = 1", "DELETE FROM {t} WHERE id = 2")
    table.sql("ALTER TABLE {t} RENAME COLUMN v TO renamed")
    table.sql("ALTER TABLE {t} ADD COLUMN (added INT)", "UPDATE {t} SET added = 5 WHERE id = 3")
    by_feed = table.read_by(Strategy.CHANGE_FILES)
    found = by_feed.check(stream, old={"renamed": "v", "added": None})
    assert {change.values[0] for change in found} == {1, 2, 3}
    assert by_feed.plan(stream).strategy is strategy


@pytest.mark.thorough
@either_vectors
def test_change_files_of_partitions_and_odd_values_give_minimal_changes(
    make_table: MakeTable, vectors: bool
) -> None:
    table = make_table(
        "id INT, p STRING, v MAP<STRING, INT>",
        "1, 'a b/ü%', map('k', 1)",
        "2, NULL, NULL",
        "3, 'c', map()",
        vectors=vectors,
        clause="PARTITIONED BY (p)",
        properties=FEED,
    )
    stream = table.stream()
    table.sql(
        "UPDATE {t} SET p = 'd' WHERE id = 1",
        "UPDATE {t} SET v = map('k', NULL) WHERE id = 2",
        "DELETE FROM {t} WHERE id = 3",
    )
    assert len(check(table, stream)) == 5


@pytest.mark.thorough
def test_change_files_for_append_only_streams_give_the_surviving_rows(
    make_table: MakeTable,
) -> None:
    table = make_table("id INT, v STRING", *ROWS, properties=FEED)
    stream = table.surviving()
    table.sql(MERGE, "UPDATE {t} SET v = 'later' WHERE id IN (50, 4)")
    found = table.read_by(Strategy.CHANGE_FILES).check_inserts(stream)
    assert [change.values for change in found] == [(50, "later")]


@pytest.mark.thorough
def test_plan_reads_change_files_if_they_are_smaller(
    make_table: MakeTable, spark: SparkSession
) -> None:
    table = make_table("id INT, v STRING", properties=FEED)
    rows = spark.range(20000).selectExpr("CAST(id AS INT) AS id", "uuid() AS v").coalesce(1)
    rows.write.format("delta").mode("append").save(table.location)
    stream = table.stream()
    table.sql("UPDATE {t} SET v = 'x' WHERE id = 7")
    plan = table.plan(stream)
    assert plan.strategy is Strategy.CHANGE_FILES
    assert plan.file_count == 1
    assert plan.size_bytes < 10_000
    assert plan.commit_count == 1
    assert "the file difference is" in plan.reason
    # An append has no change files: the change set reads only the file that it added.
    stream = table.stream()
    table.sql("INSERT INTO {t} VALUES (30000, 'y')")
    plan = table.plan(stream)
    assert (plan.strategy, plan.reason) == (
        Strategy.FILE_DIFFERENCE,
        "no commit has change files",
    )


@pytest.mark.in_ci("plain")
@pytest.mark.parametrize("folder", ["täble 1", "plain"])
def test_change_files_without_row_ids_are_refused_when_they_are_read(
    make_table: MakeTable, folder: str
) -> None:
    """The protocol does not require row ids in change files, but Delta 4.4 writes them."""
    table = make_table("id INT, v STRING", *ROWS, properties=FEED, folder=folder)
    stream = table.stream()
    table.sql("UPDATE {t} SET v = 'x' WHERE id = 1", MERGE)
    for version in range(stream.offset.version + 1, table.version + 1):
        rewrite_change_files(table, version)
    by_feed = table.read_by(Strategy.CHANGE_FILES)
    assert by_feed.plan(stream).strategy is Strategy.CHANGE_FILES
    with pytest.raises(PySparkException, match=r'stream s: .*no row id.*"file_difference"'):
        by_feed.changes(stream)
    assert len(table.read_by(Strategy.FILE_DIFFERENCE).check(stream)) == 4


def rewrite_change_files(table: SourceTable, version: int) -> None:
    """Rewrite the change files of a commit without row ids, as a writer that does not know them."""
    log = Path(table.location, "_delta_log", f"{version:020d}.json")
    actions = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    for action in actions:
        if "cdc" in action:
            path = Path(table.location, action["cdc"]["path"])
            rows = pq.read_table(path)
            pq.write_table(rows.drop_columns([c for c in rows.column_names if "row-id" in c]), path)
            action["cdc"]["size"] = path.stat().st_size
    log.write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")


def test_missing_change_files_fall_back_to_the_file_difference(make_table: MakeTable) -> None:
    table = make_table("id INT, v STRING", *ROWS, properties=FEED)
    stream = table.stream()
    table.sql("UPDATE {t} SET v = 'x' WHERE id = 1")
    for path in Path(table.location, "_change_data").glob("*.parquet"):
        path.unlink()
    by_feed = table.read_by(Strategy.CHANGE_FILES)
    plan = by_feed.plan(stream)
    assert plan.strategy is Strategy.FILE_DIFFERENCE
    assert plan.reason == "change files were removed"
    assert len(by_feed.check(stream)) == 2
