"""The minimal change set: the rows that a standard stream returns, with deletion vectors on and
off.
"""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path

import pytest
from foreign_files import add_rows, delete_rows
from oracle import FILES, MakeTable, SourceTable, delete, insert, update
from pyroaring import BitMap64
from pyspark.sql import SparkSession
from streams import delta_row_id

from airflow_provider_cdc.engine.core.change_sets.read_plan import Strategy
from airflow_provider_cdc.engine.core.change_sets.rewrites import net_difference
from airflow_provider_cdc.engine.core.delta.deletion_vectors import Bitmap, complement
from airflow_provider_cdc.engine.core.model.stream import ColumnStyle, Stream
from airflow_provider_cdc.engine.spark.change_sets import table_changes_reader
from airflow_provider_cdc.engine.spark.session.session_settings import settings
from airflow_provider_cdc.engine.storage.sources.source_log import SourceLog


@pytest.mark.thorough
@pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "no vectors"])
def test_change_set_of_many_commits_is_minimal(make_table: MakeTable, vectors: bool) -> None:
    table = make_table(
        "id INT, v STRING",
        *[f"{i}, 'v{i}'" for i in range(8)],
        vectors=vectors,
        folder="t %20 +&#1",
    )
    stream = table.stream()
    assert table.plan(stream).strategy is Strategy.NOTHING
    assert table.check(stream) == []
    table.sql(
        "UPDATE {t} SET v = 'x' WHERE id = 1",
        "DELETE FROM {t} WHERE id = 2",
        "INSERT INTO {t} VALUES (100, 'new'), (101, 'deleted')",
        "DELETE FROM {t} WHERE id = 101",
        "UPDATE {t} SET v = 'newer' WHERE id = 100",
        "UPDATE {t} SET v = v WHERE id = 5",
        "UPDATE {t} SET v = if(id = 6, 'B', 'last') WHERE id IN (6, 7)",
        "UPDATE {t} SET v = 'v6' WHERE id = 6",
        "DELETE FROM {t} WHERE id = 7",
    )
    changes = table.check(stream)
    (born,) = [change.row_id for change in changes if change.values[0] == 100]
    assert born > stream.offset.row_id_high_water_mark
    assert sorted(changes) == sorted(
        [
            *update(1, (1, "v1"), (1, "x")),
            delete(2, 2, "v2"),
            insert(born, 100, "newer"),
            delete(7, 7, "v7"),
        ]
    )


@pytest.mark.thorough
def test_change_set_of_an_update_that_changes_nothing_is_empty(make_table: MakeTable) -> None:
    table = make_table("id INT, v STRING", "1, 'a'", "2, NULL")
    stream = table.stream()
    table.sql("UPDATE {t} SET v = v")
    assert table.check(stream) == []
    table.sql("UPDATE {t} SET v = 'b'")
    table.sql("UPDATE {t} SET v = if(id = 1, 'a', NULL)")
    assert table.check(stream) == []


@pytest.mark.thorough
def test_change_set_of_a_truncate_is_deletes(make_table: MakeTable) -> None:
    table = make_table("id INT, v STRING", "1, 'a'", "2, NULL")
    stream = table.stream()
    table.sql("UPDATE {t} SET v = 'late' WHERE id = 1", "TRUNCATE TABLE {t}")
    assert table.check(stream) == [delete(0, 1, "a"), delete(1, 2, None)]


@pytest.mark.thorough
def test_change_set_of_inserts_then_truncate_is_empty(make_table: MakeTable) -> None:
    table = make_table()
    stream = table.stream()
    table.sql("INSERT INTO {t} VALUES (1, 'a')")
    assert table.check(stream) == [insert(0, 1, "a")]
    table.sql("TRUNCATE TABLE {t}")
    assert table.check(stream) == []


@pytest.mark.thorough
def test_change_set_of_a_merge_holds_all_its_branches(make_table: MakeTable) -> None:
    table = make_table("id INT, v STRING", "1, 'a'", "2, 'b'", "3, 'c'", "4, NULL")
    stream = table.stream()
    table.sql(
        """MERGE INTO {t} t
        USING (SELECT * FROM VALUES (1, 'z'), (2, NULL), (9, 'n'), (4, 'four') AS s(id, v)) s
        ON t.id = s.id
        WHEN MATCHED AND s.v IS NULL THEN DELETE
        WHEN MATCHED THEN UPDATE SET v = s.v
        WHEN NOT MATCHED THEN INSERT *"""
    )
    changes = table.check(stream)
    assert delete(1, 2, "b") in changes
    assert set(update(0, (1, "a"), (1, "z"))) <= set(changes)
    assert set(update(3, (4, None), (4, "four"))) <= set(changes)
    assert [change.values for change in changes if not change.is_update] == [(2, "b"), (9, "n")]


@pytest.mark.thorough
def test_change_set_through_an_older_version_ends_there(make_table: MakeTable) -> None:
    table = make_table("id INT, v STRING", "1, 'a'", "2, 'b'")
    stream = table.stream()
    table.sql("UPDATE {t} SET v = 'x' WHERE id = 1")
    middle = table.version
    table.sql("UPDATE {t} SET v = 'y'", "DELETE FROM {t} WHERE id = 2")
    assert sorted(table.check(stream, middle)) == sorted(update(0, (1, "a"), (1, "x")))
    assert len(table.check(stream)) == 3
    assert table.check(stream, stream.offset.version) == []


@pytest.mark.thorough
def test_change_set_in_databend_style_names_its_columns_like_databend(
    make_table: MakeTable,
) -> None:
    table = make_table("id INT, v STRING", "1, 'a'")
    stream = table.stream(style=ColumnStyle.DATABEND)
    nothing = table.read(stream).rows
    assert nothing.columns == ["id", "v", "change$action", "change$is_update", "change$row_id"]
    table.sql("DELETE FROM {t}")
    rows = table.read(stream).rows
    assert rows.columns == nothing.columns
    assert [field.dataType for field in rows.schema] == [field.dataType for field in nothing.schema]
    assert table.check(stream) == [delete(0, 1, "a")]
    assert rows.collect()[0]["change$row_id"] == "1" + "0" * 15


@pytest.mark.thorough
def test_change_set_reads_only_the_rows_whose_vector_changed(make_table: MakeTable) -> None:
    table = make_table("id INT", *[str(i) for i in range(20)])
    table.sql("DELETE FROM {t} WHERE id IN (3, 4)")
    stream = table.stream()
    table.sql("DELETE FROM {t} WHERE id = 5")
    change_set = table.read(stream)
    assert change_set.plan.file_count == 1
    assert table.check(stream) == [delete(5, 5)]


@pytest.mark.thorough
def test_change_set_of_rewritten_files_holds_only_what_changed(
    make_table: MakeTable, spark: SparkSession
) -> None:
    table = make_table("id INT, v STRING", vectors=False)
    ids = spark.range(2000).coalesce(1)
    rows = ids.selectExpr("CAST(id AS INT) AS id", "'v' AS v")
    rows.write.format("delta").mode("append").save(table.location)
    stream = table.stream()
    table.sql(
        "UPDATE {t} SET v = 'x' WHERE id IN (0, 63, 64, 1500)",
        "DELETE FROM {t} WHERE id IN (1, 65, 1900)",
        "UPDATE {t} SET v = 'v' WHERE id = 64",
        "INSERT INTO {t} VALUES (-1, 'new')",
        "OPTIMIZE {t}",
    )
    net = net_difference(SourceLog(FILES).range(stream).commits)
    assert (
        net.rewritten_rows > table_changes_reader.MANY_REWRITTEN_ROWS
    )  # so row ids are read first
    assert sorted((*change.values, change.action) for change in table.changes(stream)) == [
        (-1, "new", "INSERT"),
        (0, "v", "DELETE"),
        (0, "x", "INSERT"),
        (1, "v", "DELETE"),
        (63, "v", "DELETE"),
        (63, "x", "INSERT"),
        (65, "v", "DELETE"),
        (1500, "v", "DELETE"),
        (1500, "x", "INSERT"),
        (1900, "v", "DELETE"),
    ]


@pytest.mark.in_ci("surviving")
@pytest.mark.parametrize("kind", ["standard", "inserted", "surviving"])
def test_change_set_of_appends_reads_only_the_requested_columns_and_rows(
    make_table: MakeTable, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    table = make_table("id INT, v STRING, w STRING", "1, 'a', 'b'")
    streams = {
        "standard": table.stream(),
        "inserted": table.inserted(),
        "surviving": table.surviving(),
    }
    table.sql("INSERT INTO {t} VALUES (7, 'c', 'd'), (8, 'e', 'f')")
    rows = table.read(streams[kind]).rows.where("v = 'e'").select("id")
    assert [row.id for row in rows.collect()] == [8]

    capsys.readouterr()
    rows.explain(extended="simple")
    plan = capsys.readouterr().out

    (scan,) = [line for line in plan.splitlines() if "FileScan" in line]
    assert "EqualTo(v,e)" in scan
    assert "ReadSchema: struct<id:int,v:string," in scan
    assert "w:string" not in scan
    assert "Exchange" not in plan
    assert "Join" not in plan


MAPPED = "'delta.columnMapping.mode' = 'name'"


def read_ids(table: SourceTable, stream: Stream) -> tuple[list[int], int]:
    """The ids that ``stream`` returns, and how many files of deletion vectors its read uses."""
    change_set = table.read(stream)
    ids = sorted(change_set.rows.select("id").toArrow()["id"].to_pylist())
    files = [path for root in change_set.scratch for path in Path(root).glob("*.bin")]
    for root in change_set.scratch:
        table.scratch.remove(root)
        assert not Path(root).exists()
    return ids, len(files)


def test_change_set_of_a_vector_too_large_for_the_log_uses_a_file(make_table: MakeTable) -> None:
    count = 300_000
    table = make_table("id BIGINT, v INT", properties=MAPPED)
    add = add_rows(table, count)
    stream = table.stream()

    def is_in_file(rows: int) -> bool:
        bitmap = Bitmap.of(complement(BitMap64(range(0, 3 * rows, 3)), count))
        return bitmap is not None and not bitmap.is_inline

    most = bisect_left(range(count // 3), True, key=is_in_file) - 1
    assert 1 < most < count // 3 - 1

    for rows, files in ((most, 0), (most + 1, 1)):
        deleted = range(0, 3 * rows, 3)
        add = delete_rows(table, add, deleted)
        assert read_ids(table, stream) == ([*deleted], files)


@pytest.mark.thorough
def test_change_set_of_a_file_of_ten_million_rows_is_exact(
    make_table: MakeTable, spark: SparkSession
) -> None:
    count = 10_000_000
    deleted = range(1, count, 100)
    table = make_table("id BIGINT, v INT", properties=MAPPED)
    add = add_rows(table, count)
    stream = table.stream()
    delete_rows(table, add, deleted)

    # Without code generation, this session takes minutes for as many rows.
    compiled = {"wholeStage": "true", "factoryMode": "FALLBACK"}
    with settings(spark, {f"spark.sql.codegen.{name}": to for name, to in compiled.items()}):
        change_set = table.read(stream)
        found = change_set.rows.toArrow().sort_by("id")

    assert len([path for root in change_set.scratch for path in Path(root).glob("*.bin")]) == 1
    assert found["id"].to_pylist() == [*deleted]
    assert set(found["METADATA$ACTION"].to_pylist()) == {"DELETE"}
    assert [delta_row_id(text) for text in found["METADATA$ROW_ID"].to_pylist()] == [*deleted]
