"""Change sets across operations on a table other than plain DML."""

from __future__ import annotations

import pytest
from oracle import MakeTable, SourceTable, delete, insert, update
from pyspark.sql import SparkSession

from airflow_provider_cdc.engine.core.errors import StreamStale

ROWS = ("1, 'a'", "2, 'b'", "3, 'c'", "4, 'd'")
COLUMNS = "id INT, v STRING"


@pytest.mark.thorough
@pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "no vectors"])
def test_change_set_across_restore_compares_commit_versions_for_equality(
    make_table: MakeTable, vectors: bool
) -> None:
    table = make_table(COLUMNS, *ROWS, vectors=vectors)
    first = table.version
    before = table.stream()
    table.sql("UPDATE {t} SET v = 'x' WHERE id = 1", "DELETE FROM {t} WHERE id = 2")
    stream = table.stream()
    table.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {first}")
    # The commit version of row 0 goes back below the offset: the change is still an update.
    assert sorted(table.check(stream)) == sorted(
        [*update(0, (1, "x"), (1, "a")), insert(1, 2, "b")]
    )
    assert table.check(before) == []
    again = table.stream()
    table.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {table.version}")
    assert table.check(again) == []
    table.sql("INSERT INTO {t} VALUES (9, 'late')")
    table.check(again)
    table.check(stream)
    table.check(before)


@pytest.mark.thorough
def test_change_set_across_restore_returns_undeleted_rows(
    make_table: MakeTable,
) -> None:
    table = make_table(COLUMNS, *ROWS)
    whole = table.version
    table.sql("DELETE FROM {t} WHERE id = 1")
    one_deleted = table.version
    table.sql("DELETE FROM {t} WHERE id IN (2, 3)")
    stream = table.stream()
    table.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {one_deleted}")
    assert table.check(stream) == [insert(1, 2, "b"), insert(2, 3, "c")]
    # Both directions at once: row 3 is deleted, rows 1 and 2 come back.
    table.sql("DELETE FROM {t} WHERE id = 4")
    assert table.check(stream) == [delete(3, 4, "d"), insert(1, 2, "b"), insert(2, 3, "c")]
    table.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {whole}")
    assert [change.row_id for change in table.check(stream)] == [0, 1, 2]


@pytest.mark.thorough
def test_change_set_across_replace_and_restore_back_is_exact(make_table: MakeTable) -> None:
    table = make_table(COLUMNS, *ROWS)
    stream = table.stream()
    table.sql("UPDATE {t} SET v = 'x' WHERE id = 1")
    wanted = table.version
    table.sql(
        "CREATE OR REPLACE TABLE {t} USING delta TBLPROPERTIES ('delta.enableRowTracking' = 'true')"
        " AS SELECT 7 AS id, 'seven' AS v"
    )
    with pytest.raises(StreamStale, match="the source was replaced"):
        table.read(stream)
    table.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {wanted}")
    assert sorted(table.check(stream)) == sorted(update(0, (1, "a"), (1, "x")))
    table.sql("INSERT INTO {t} VALUES (8, 'eight')")
    assert len(table.check(stream)) == 3


@pytest.mark.thorough
def test_change_set_of_overwrites_deletes_and_inserts(
    make_table: MakeTable, spark: SparkSession
) -> None:
    table = make_table(COLUMNS, *ROWS)
    stream = table.stream()
    table.sql("INSERT OVERWRITE {t} VALUES (1, 'a'), (5, 'e')")
    changes = table.check(stream)
    assert [change.action for change in changes] == ["DELETE"] * 4 + ["INSERT"] * 2
    assert not any(change.is_update for change in changes)
    stream = table.stream()
    frame = spark.sql("SELECT 5 AS id, 'e5' AS v")
    frame.write.format("delta").mode("overwrite").save(table.location)
    assert [change.values for change in table.check(stream)] == [(1, "a"), (5, "e"), (5, "e5")]
    stream = table.stream()
    table.sql("INSERT INTO {t} REPLACE WHERE id >= 5 VALUES (6, 'six')")
    assert [change.values for change in table.check(stream)] == [(5, "e5"), (6, "six")]
    table.sql("TRUNCATE TABLE {t}")
    assert [change.values for change in table.check(stream)] == [(5, "e5")]


@pytest.mark.thorough
def test_change_set_across_save_as_table_overwrite_keeps_the_stream(
    make_table: MakeTable, spark: SparkSession
) -> None:
    table = make_table(COLUMNS, *ROWS)
    spark.sql(f"CREATE TABLE overwritten_ones USING delta LOCATION '{table.location}'")
    try:
        stream = table.stream()
        frame = spark.sql("SELECT 1 AS id, 'again' AS v")
        frame.write.format("delta").mode("overwrite").saveAsTable("overwritten_ones")
        assert len(table.check(stream)) == 5
    finally:
        spark.sql("DROP TABLE overwritten_ones")


@pytest.mark.thorough
@pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "no vectors"])
def test_change_set_of_only_maintenance_is_empty(
    make_table: MakeTable, spark: SparkSession, vectors: bool
) -> None:
    table = make_table(COLUMNS, *ROWS, vectors=vectors)
    table.sql("INSERT INTO {t} VALUES (5, 'e')", "DELETE FROM {t} WHERE id = 2")
    stream = table.stream()
    table.sql("OPTIMIZE {t}")
    assert_nothing(table, stream)
    table.sql("OPTIMIZE {t} ZORDER BY (id)", "REORG TABLE {t} APPLY (PURGE)", "VACUUM {t}")
    assert_nothing(table, stream)
    # With a change in the range, rows that were only rewritten are left out.
    table.sql(
        "UPDATE {t} SET v = 'x' WHERE id = 3", "OPTIMIZE {t}", "REORG TABLE {t} APPLY (PURGE)"
    )
    assert sorted(table.check(stream)) == sorted(update(2, (3, "c"), (3, "x")))


@pytest.mark.thorough
@pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "no vectors"])
def test_change_set_after_maintenance_reads_only_the_touched_files(
    make_table: MakeTable, vectors: bool
) -> None:
    table = make_table(COLUMNS, *ROWS, vectors=vectors)
    table.sql("INSERT INTO {t} VALUES (5, 'e')", "UPDATE {t} SET v = 'd2' WHERE id = 4")
    stream, surviving = table.stream(), table.surviving()
    table.sql("OPTIMIZE {t}", "REORG TABLE {t} APPLY (PURGE)", "OPTIMIZE {t} ZORDER BY (v)")
    table.sql("UPDATE {t} SET v = 'x' WHERE id = 3", "DELETE FROM {t} WHERE id = 1")
    # Without deletion vectors these are the old and the new state of the file. With them, they are
    # the one file and the file of the updated row.
    assert table.plan(stream).file_count == 2
    changed = [delete(0, 1, "a"), *update(2, (3, "c"), (3, "x"))]
    assert sorted(table.check(stream)) == sorted(changed)
    assert table.check_inserts(surviving) == []


def assert_nothing(table: SourceTable, stream: object) -> None:
    assert not table.may_have_data(stream)  # type: ignore[arg-type]
    assert table.check(stream) == []  # type: ignore[arg-type]


@pytest.mark.thorough
def test_change_set_across_a_drop_of_deletion_vectors_is_exact(make_table: MakeTable) -> None:
    table = make_table(COLUMNS, *ROWS)
    before = table.stream()
    table.sql("DELETE FROM {t} WHERE id = 2")
    between, inserted, surviving = table.stream(), table.inserted(), table.surviving()
    table.sql("ALTER TABLE {t} DROP FEATURE deletionVectors")
    assert_nothing(table, between)
    table.sql("INSERT INTO {t} VALUES (5, 'e')")
    assert [change.values for change in table.check(between)] == [(5, "e")]
    assert [change.values for change in table.check(before)] == [(2, "b"), (5, "e")]
    for stream in (inserted, surviving):
        assert [change.values for change in table.changes(stream)] == [(5, "e")]
    table.sql("UPDATE {t} SET v = 'x' WHERE id = 1")
    assert len(table.check(between)) == 3


@pytest.mark.thorough
def test_change_set_across_auto_compaction_holds_the_inserts(
    make_table: MakeTable, spark: SparkSession
) -> None:
    table = make_table(
        COLUMNS, properties="'delta.autoOptimize.autoCompact' = 'true'", vectors=False
    )
    stream = table.stream()
    spark.conf.set("spark.databricks.delta.autoCompact.minNumFiles", "2")
    try:
        table.sql("INSERT INTO {t} VALUES (1, 'a')", "INSERT INTO {t} VALUES (2, 'b')")
        table.sql("INSERT INTO {t} VALUES (3, 'c')")
    finally:
        spark.conf.unset("spark.databricks.delta.autoCompact.minNumFiles")
    history = spark.sql(f"DESCRIBE HISTORY {table.name}").collect()
    assert "OPTIMIZE" in {commit["operation"] for commit in history}
    assert [change.values for change in table.check(stream)] == [(1, "a"), (2, "b"), (3, "c")]
    assert len(table.check(table.stream())) == 0


@pytest.mark.thorough
def test_change_set_with_clustering_holds_only_changes(make_table: MakeTable) -> None:
    table = make_table(COLUMNS, *ROWS, clause="CLUSTER BY (id)")
    table.sql("INSERT INTO {t} VALUES (9, 'z')")
    stream = table.stream()
    table.sql("OPTIMIZE {t}", "ALTER TABLE {t} CLUSTER BY (v)", "OPTIMIZE {t} FULL")
    assert_nothing(table, stream)
    table.sql("DELETE FROM {t} WHERE id = 9")
    assert [change.values for change in table.check(stream)] == [(9, "z")]
