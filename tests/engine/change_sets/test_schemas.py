"""Change sets across schema changes: each side is read by the schema it was written under."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pytest
from oracle import MakeTable, delete, insert, update
from pyspark.sql import SparkSession

from airflow_provider_cdc.engine.core.errors import InvalidRequest, StreamUnusable
from airflow_provider_cdc.engine.core.model.stream import ColumnStyle

MAPPED = "'delta.columnMapping.mode' = 'name'"
UNMAP = "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'none')"


@pytest.fixture
def own_settings(spark: SparkSession) -> Iterator[None]:
    """Restores the settings that the test changes."""
    yield
    for name in ("spark.sql.ansi.enabled", "spark.sql.caseSensitive"):
        spark.conf.unset(name)


@pytest.mark.thorough
def test_change_set_under_column_mapping_follows_columns_by_id(make_table: MakeTable) -> None:
    table = make_table(
        "id INT, a STRING, b STRING, c STRING",
        "1, 'a1', 'b1', 'c1'",
        "2, 'a2', 'b2', 'c2'",
        "3, 'a3', 'b3', 'c3'",
        properties=MAPPED,
    )
    stream = table.stream()
    table.sql(
        "ALTER TABLE {t} RENAME COLUMN a TO z",
        "ALTER TABLE {t} RENAME COLUMN b TO a",
        "ALTER TABLE {t} DROP COLUMN c",
        "ALTER TABLE {t} ADD COLUMN c INT",
    )
    old = {"z": "a", "a": "b", "c": None}
    # A column of another identity under an old name is a schema change, not a change of a row.
    assert table.check(stream, old=old) == []
    table.sql("UPDATE {t} SET a = 'new', c = 1 WHERE id = 1", "DELETE FROM {t} WHERE id = 2")
    assert sorted(table.check(stream, old=old), key=repr) == sorted(
        [
            *update(0, (1, "a1", "b1", None), (1, "a1", "new", 1)),
            delete(1, 2, "a2", "b2", None),
        ],
        key=repr,
    )


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["id", "ID", "NAME"])
def test_change_set_under_any_spelling_of_the_mapping_mode_keeps_row_ids(
    make_table: MakeTable, mode: str
) -> None:
    table = make_table(
        "id INT, v STRING",
        *[f"{i}, 'v{i}'" for i in range(4)],
        vectors=False,
        properties=f"'delta.columnMapping.mode' = '{mode}'",
    )
    stream = table.stream()
    table.sql("UPDATE {t} SET v = 'x' WHERE id = 1")
    assert sorted(table.check(stream)) == sorted(update(1, (1, "v1"), (1, "x")))


@pytest.mark.thorough
def test_change_set_across_removal_of_column_mapping_keeps_old_values(
    make_table: MakeTable,
) -> None:
    table = make_table("id INT, v STRING", "1, 'a'", "2, 'b'", "3, 'c'", properties=MAPPED)
    stream = table.stream()
    table.sql(UNMAP)
    assert table.check(stream) == []
    table.sql("UPDATE {t} SET v = 'x' WHERE id = 1", "DELETE FROM {t} WHERE id = 2")
    expected = sorted([*update(0, (1, "a"), (1, "x")), delete(1, 2, "b")])
    assert sorted(table.check(stream)) == expected
    # With mapping on again, the physical names differ from those of the files at the offset.
    table.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({MAPPED})")
    assert sorted(table.check(stream)) == expected


@pytest.mark.thorough
def test_change_set_across_rename_and_unmapping_keeps_old_values(
    make_table: MakeTable,
) -> None:
    table = make_table(
        "id INT, a STRING, b STRING", "1, 'a', 'b'", "2, 'c', 'd'", properties=MAPPED
    )
    stream = table.stream()
    table.sql(
        "ALTER TABLE {t} RENAME COLUMN a TO z",
        "ALTER TABLE {t} RENAME COLUMN b TO a",
        "DELETE FROM {t} WHERE id = 2",
        UNMAP,
        "UPDATE {t} SET a = 'new'",
    )
    changes = table.check(stream, old={"z": "a", "a": "b"})
    assert delete(1, 2, "c", "d") in changes


@pytest.mark.thorough
def test_change_set_across_new_column_mapping_follows_renames(
    make_table: MakeTable,
) -> None:
    table = make_table("id INT, a STRING, n STRUCT<x: INT>", "1, 'a', named_struct('x', 1)")
    stream = table.stream()
    table.sql(
        f"ALTER TABLE {{t}} SET TBLPROPERTIES ({MAPPED})",
        "ALTER TABLE {t} RENAME COLUMN a TO b",
        "ALTER TABLE {t} ADD COLUMN a STRING",
        "UPDATE {t} SET a = 'new'",
    )
    assert update(0, (1, "a", (1,), None), (1, "a", (1,), "new"))[0] in table.check(
        stream, old={"b": "a", "a": None}
    )


@pytest.mark.thorough
def test_change_set_across_a_column_dropped_and_added_reads_null_before(
    make_table: MakeTable,
) -> None:
    table = make_table("id INT, v STRING", "1, 'x'", "2, 'y'")
    stream = table.stream()
    table.sql(
        f"ALTER TABLE {{t}} SET TBLPROPERTIES ({MAPPED})",
        "ALTER TABLE {t} DROP COLUMN v",
        "ALTER TABLE {t} ADD COLUMN v STRING",
        UNMAP,
        "UPDATE {t} SET v = 'x' WHERE id = 1",
    )
    # The schemas at both ends are equal, yet ``v`` is another column.
    assert sorted(table.check(stream, old={"v": None}), key=repr) == sorted(
        update(0, (1, None), (1, "x")), key=repr
    )


@pytest.mark.thorough
def test_change_set_across_restarted_column_ids_follows_columns_by_name(
    make_table: MakeTable,
) -> None:
    table = make_table("id INT, a STRING, b STRING", "1, 'a', 'b'", "2, 'c', 'd'")
    table.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({MAPPED})")
    stream = table.stream()
    table.sql(
        "ALTER TABLE {t} DROP COLUMN a",
        "ALTER TABLE {t} RENAME COLUMN b TO a",
        UNMAP,
        f"ALTER TABLE {{t}} SET TBLPROPERTIES ({MAPPED})",
        "UPDATE {t} SET id = 3 WHERE id = 1",
        "DELETE FROM {t} WHERE id = 2",
    )
    assert sorted(table.check(stream, old={"a": "b"}), key=repr) == sorted(
        [*update(0, (1, "b"), (3, "b")), delete(1, 2, "d")], key=repr
    )


@pytest.mark.thorough
def test_change_set_across_a_restore_finds_the_restored_columns(
    make_table: MakeTable,
) -> None:
    table = make_table("id INT, a STRING, b STRING", "1, 'a', 'b'", "2, 'c', 'd'")
    table.sql(
        f"ALTER TABLE {{t}} SET TBLPROPERTIES ({MAPPED})",
        "ALTER TABLE {t} RENAME COLUMN a TO z",
        "ALTER TABLE {t} ADD COLUMN a STRING",
    )
    stream, inserted = table.stream(), table.inserted()
    table.sql(
        "ALTER TABLE {t} DROP COLUMN b",
        "ALTER TABLE {t} RENAME COLUMN z TO b",
        UNMAP,
        f"ALTER TABLE {{t}} SET TBLPROPERTIES ({MAPPED})",
        "INSERT INTO {t} VALUES (3, 'was z', 'a')",
        f"RESTORE TABLE {{t}} TO VERSION AS OF {stream.offset.version}",
    )
    assert table.check(stream) == []
    # Column ids began anew in between, so the columns of that row are matched by name.
    assert [change.values for change in table.changes(inserted)] == [(3, "was z", None, "a")]
    table.sql("UPDATE {t} SET a = 'new' WHERE id = 1")
    assert len(table.check(stream)) == 2


@pytest.mark.in_ci("false")
@pytest.mark.parametrize("is_exact", ["true", "false"])
def test_change_set_across_a_changed_name_case_reads_each_end_by_its_own(
    make_table: MakeTable, own_settings: None, spark: SparkSession, is_exact: str
) -> None:
    table = make_table("id INT, N INT, w INT", "1, 70000, 1")
    stream, inserted = table.stream(), table.inserted()
    table.sql("INSERT INTO {t} VALUES (2, 70001, 2)")
    narrow = table.version
    spark.conf.set("spark.sql.caseSensitive", is_exact)
    table.overwrite("3 AS id, 3 AS n, 3 AS w")
    assert sorted(change.values for change in table.check(stream)) == [(1, 70000, 1), (3, 3, 3)]
    assert {change.values for change in table.changes(inserted)} == {(2, 70001, 2), (3, 3, 3)}
    table.overwrite("4 AS id, CAST(4 AS SMALLINT) AS N")
    for refused in (stream, inserted):
        with pytest.raises(StreamUnusable, match="was of type integer and is now of type short"):
            table.read(refused)
    assert len(table.changes(stream, through=narrow)) == 1


@pytest.mark.thorough
def test_change_set_with_void_columns_returns_them_as_the_table_does(
    make_table: MakeTable, spark: SparkSession
) -> None:
    table = make_table("id INT, v STRING", "1, 'a'", "2, 'b'")
    spark.sql(
        "SELECT 3 AS id, 'c' AS v, NULL AS nothing, named_struct('x', 1, 'y', NULL) AS s"
    ).write.format("delta").mode("append").option("mergeSchema", True).save(table.location)
    stream, inserted, surviving = table.stream(), table.inserted(), table.surviving()
    columns = spark.table(table.name).columns
    table.sql(
        "INSERT INTO {t} (id, v) VALUES (4, 'd')",
        "UPDATE {t} SET v = 'x' WHERE id = 1",
        "DELETE FROM {t} WHERE id = 3",
    )
    assert len(table.check(stream)) == 4
    assert table.read(stream).rows.columns[:-3] == columns
    assert len(table.changes(inserted)) == len(table.check_inserts(surviving)) == 1
    table.sql("ALTER TABLE {t} ADD COLUMN w INT", "UPDATE {t} SET w = 1 WHERE id = 2")
    assert len(table.check(stream)) == 6


@pytest.mark.thorough
def test_change_set_across_added_columns_of_any_depth_reads_null_before(
    make_table: MakeTable,
) -> None:
    table = make_table(
        "id INT, s STRUCT<x: INT>, l ARRAY<STRUCT<x: INT>>, m MAP<STRING, STRUCT<x: INT>>,"
        " row_id STRING, row INT, row_version INT",
        "1, named_struct('x', 1), array(named_struct('x', 1)), map('k', named_struct('x', 1)),"
        " 'r', 1, 1",
        "2, NULL, NULL, NULL, NULL, NULL, NULL",
        "3, named_struct('x', NULL), array(NULL), map('k', NULL), '', 0, 0",
    )
    stream = table.stream()
    table.sql(
        "ALTER TABLE {t} ADD COLUMNS (w DOUBLE, s.y STRING, l.element.y INT, m.value.y INT)",
        "UPDATE {t} SET w = 1",
    )
    changes = table.check(stream)
    assert len(changes) == 6
    table.sql("DELETE FROM {t} WHERE id = 3", "UPDATE {t} SET w = NULL")
    assert table.check(stream) == [
        delete(2, 3, (None, None), (None,), frozenset({("k", None)}), "", 0, 0, None)
    ]


def test_change_set_across_type_widening_casts_old_values(make_table: MakeTable) -> None:
    table = make_table(
        "id INT, b BYTE, f FLOAT, d DECIMAL(5, 2), day DATE, l ARRAY<INT>, p SMALLINT",
        "1, 1, 1.5, 1.25, DATE '2024-02-29', array(1), 1",
        "2, 2, 2.5, 2.25, NULL, NULL, 2",
        "3, NULL, NULL, NULL, NULL, array(NULL), NULL",
        properties="'delta.enableTypeWidening' = 'true'",
        clause="PARTITIONED BY (p)",
    )
    stream = table.stream()
    table.sql(
        "ALTER TABLE {t} ALTER COLUMN b TYPE BIGINT",
        "ALTER TABLE {t} ALTER COLUMN f TYPE DOUBLE",
        "ALTER TABLE {t} ALTER COLUMN d TYPE DECIMAL(12, 4)",
        "ALTER TABLE {t} ALTER COLUMN l.element TYPE BIGINT",
        "ALTER TABLE {t} ALTER COLUMN p TYPE INT",
    )
    assert table.check(stream) == []
    table.sql(
        "UPDATE {t} SET b = 5000000000, l = array(5000000000), p = 100000 WHERE id = 1",
        "DELETE FROM {t} WHERE id = 2",
        "UPDATE {t} SET b = b WHERE id = 3",
    )
    assert [change.values[0] for change in table.check(stream)] == [2, 1, 1]


@pytest.mark.thorough
@pytest.mark.parametrize("mapping", ["none", "name"])
def test_change_set_of_columns_with_any_name_returns_them(
    make_table: MakeTable, mapping: str
) -> None:
    names = ["a.b", "tick`s", "row", "row_id", "row_version", "übung"]
    names += ["with space", "semi;colon", "(x)"] if mapping == "name" else []
    quoted = [f"`{name.replace('`', '``')}`" for name in names]
    table = make_table(
        ", ".join(f"{name} STRING" for name in quoted),
        ", ".join(["'1'"] * len(names)),
        ", ".join(["'2'"] * len(names)),
        properties=f"'delta.columnMapping.mode' = '{mapping}'",
    )
    stream, inserted = table.stream(), table.inserted()
    table.sql(f"UPDATE {{t}} SET {quoted[0]} = 'x', {quoted[2]} = 'y' WHERE {quoted[1]} = '1'")
    assert len(table.check(stream)) == 2
    table.sql(
        "ALTER TABLE {t} ADD COLUMN `new.one` INT", f"DELETE FROM {{t}} WHERE {quoted[1]} = '2'"
    )
    table.sql("INSERT INTO {t} VALUES (" + ", ".join(["'3'"] * len(names)) + ", 3)")
    assert len(table.check(stream)) == 4
    assert [change.values[-1] for change in table.changes(inserted)] == [3]


@pytest.mark.thorough
def test_change_set_of_a_column_called_metadata_returns_it(make_table: MakeTable) -> None:
    # Delta 4.4 refuses UPDATE, DELETE and MERGE on such a table.
    table = make_table("_metadata STRING, id INT", "'a', 1")
    stream, inserted = table.stream(), table.inserted()
    table.sql("INSERT INTO {t} VALUES ('b', 2)", "ALTER TABLE {t} ADD COLUMN n INT")
    assert table.check(stream) == [insert(1, "b", 2, None)]
    table.sql("INSERT OVERWRITE {t} VALUES ('c', 3, 3)")
    assert table.check(stream) == [delete(0, "a", 1, None), insert(2, "c", 3, 3)]
    assert len(table.changes(inserted)) == 2


@pytest.mark.thorough
def test_change_set_of_identity_and_generated_columns_returns_them(make_table: MakeTable) -> None:
    table = make_table(
        "n BIGINT GENERATED ALWAYS AS IDENTITY, v STRING NOT NULL DEFAULT 'd',"
        " l INT GENERATED ALWAYS AS (length(v))",
        properties="'delta.feature.allowColumnDefaults' = 'supported'",
    )
    table.sql("ALTER TABLE {t} ADD CONSTRAINT short CHECK (length(v) < 9)")
    table.sql("INSERT INTO {t} (v) VALUES ('a'), (DEFAULT)")
    stream = table.stream()
    table.sql("INSERT INTO {t} (v) VALUES ('ccc')", "UPDATE {t} SET v = 'bb' WHERE v = 'a'")
    assert len(table.check(stream)) == 3


@pytest.mark.thorough
def test_change_set_of_char_columns_pads_them_as_the_table_does(make_table: MakeTable) -> None:
    table = make_table("id INT, c CHAR(4), s STRUCT<c: CHAR(3)>, w VARCHAR(4)")
    table.sql("INSERT INTO {t} (id, c, s, w) VALUES (1, 'x', named_struct('c', 'y'), 'z')")
    table.sql("INSERT INTO {t} (id, c) VALUES (2, 'xy')")
    stream, inserted = table.stream(), table.inserted()
    table.sql("UPDATE {t} SET c = c")
    assert table.check(stream) == []
    table.sql("INSERT INTO {t} (id, c) VALUES (3, 'q')", "DELETE FROM {t} WHERE id = 2")
    assert table.check(stream)[0].values == (2, "xy  ", None, None)
    table.sql("ALTER TABLE {t} ADD COLUMN n INT", "UPDATE {t} SET n = 1")
    assert len(table.check(stream)) == 4
    assert [change.values for change in table.changes(inserted)] == [(3, "q   ", None, None, None)]


@pytest.mark.parametrize(
    ("column", "style"),
    [
        ("METADATA$ACTION", ColumnStyle.SNOWFLAKE),
        ("metadata$row_id", ColumnStyle.SNOWFLAKE),
        ("change$is_update", ColumnStyle.DATABEND),
        ("_CDC_ROW_ID", ColumnStyle.SNOWFLAKE),
        ("_cdc_candidates", ColumnStyle.DATABEND),
    ],
)
def test_change_set_of_a_source_with_a_reserved_column_is_refused(
    make_table: MakeTable, column: str, style: ColumnStyle
) -> None:
    table = make_table(f"id INT, `{column}` STRING", folder=column.lower())
    stream = table.stream(style=style)
    table.sql("INSERT INTO {t} VALUES (1, 'a')")
    with pytest.raises(InvalidRequest, match=r"the source already has a column .*"):
        table.read(stream)


@pytest.mark.in_ci(
    "INT-1-named_struct('a', 1)-v was of type integer and is now of type struct-true"
)
@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize(
    ("kind", "value", "now", "cause"),
    [
        ("DOUBLE", "1.7D", "2", "v was of type double and is now of type integer"),
        ("STRING", "'abc'", "2", "v was of type string and is now of type integer"),
        ("INT", "1", "named_struct('a', 1)", "v was of type integer and is now of type struct"),
        ("STRUCT<a: INT>", "named_struct('a', 1)", "named_struct('a', true)", r"v\.a was of type"),
    ],
)
def test_change_set_across_a_type_that_does_not_hold_old_values_is_refused(
    make_table: MakeTable,
    own_settings: None,
    spark: SparkSession,
    ansi: str,
    kind: str,
    value: str,
    now: str,
    cause: str,
) -> None:
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    table = make_table(f"id INT, v {kind}", f"1, {value}")
    stream, inserted, surviving = table.stream(), table.inserted(), table.surviving()
    table.sql(f"INSERT INTO {{t}} VALUES (2, {value})")
    table.overwrite(f"3 AS id, {now} AS v")
    for refused in (stream, inserted):
        with pytest.raises(StreamUnusable, match=cause):
            table.read(refused)
    assert [change.values[0] for change in table.changes(surviving)] == [3]
    assert len(table.changes(stream, through=stream.offset.version + 1)) == 1
    anew = table.stream()
    table.sql("DELETE FROM {t}")
    assert len(table.check(anew)) == 1


def test_change_set_across_a_type_that_holds_old_values_casts_them(
    make_table: MakeTable,
) -> None:
    table = make_table(
        "id INT, v INT, d DATE",
        "1, 7, DATE '2024-02-29'",
        properties="'delta.feature.timestampNtz' = 'supported'",
    )
    stream = table.stream()
    table.overwrite("1L AS id, 'x' AS v, TIMESTAMP_NTZ '2024-02-29 01:00:00' AS d")
    found = sorted(table.changes(stream).elements())
    assert [change.values for change in found] == [
        (1, "7", datetime(2024, 2, 29)),
        (1, "x", datetime(2024, 2, 29, 1)),
    ]


@pytest.mark.thorough
def test_change_set_across_an_overwritten_schema_matches_columns_by_name(
    make_table: MakeTable,
) -> None:
    table = make_table("id INT, v STRING, w INT", "1, 'a', 1")
    stream, inserted = table.stream(), table.inserted()
    table.overwrite("1L AS id, 2 AS n")
    assert table.check(stream) == [delete(0, 1, None), insert(1, 1, 2)]
    assert list(table.changes(inserted)) == [insert(1, 1, 2)]


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["name", "id"])
def test_change_set_across_an_overwritten_mapped_schema_keeps_old_values(
    make_table: MakeTable, mode: str
) -> None:
    table = make_table(
        "id INT, s STRUCT<x: INT>, v STRING",
        "1, named_struct('x', 7), 'a'",
        properties=f"'delta.columnMapping.mode' = '{mode}'",
    )
    stream, inserted = table.stream(), table.inserted()
    table.sql(
        "INSERT INTO {t} VALUES (2, named_struct('x', 8), 'b')",
        "ALTER TABLE {t} RENAME COLUMN id TO key",
        "UPDATE {t} SET v = 'c' WHERE key = 1",
    )
    before = table.version

    table.overwrite("3L AS key, named_struct('x', 9, 'y', 1) AS s, 'd' AS v")
    found = sorted(table.changes(stream).elements(), key=lambda change: change.values[0])
    assert [(change.action, *change.values) for change in found] == [
        ("DELETE", 1, (7, None), "a"),
        ("INSERT", 3, (9, 1), "d"),
    ]
    assert sorted(change.values for change in table.changes(inserted)) == [
        (2, (8, None), "b"),
        (3, (9, 1), "d"),
    ]
    assert len(table.changes(stream, through=before)) == 3
    table.overwrite("4L AS key, named_struct('x', 9, 'y', 1) AS s, 5 AS v")
    for refused in (stream, inserted):
        with pytest.raises(StreamUnusable, match="v was of type string and is now of type integer"):
            table.read(refused)


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["name", "id"])
def test_change_set_across_a_restore_past_a_clone_matches_columns_by_name(
    make_table: MakeTable, mode: str
) -> None:
    mapped = f"'delta.columnMapping.mode' = '{mode}'"
    other = make_table("b STRING, a STRING", "'B', 'A'", properties=mapped, folder="other")
    table = make_table("a STRING, b STRING", "'a', 'b'", properties=mapped)
    with_rows = table.version
    # Column id 1 is another column in each table, but Delta takes the clone for the same table.
    table.sql("DELETE FROM {t}", f"CREATE OR REPLACE TABLE {{t}} SHALLOW CLONE {other.name}")
    stream = table.stream()

    table.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {with_rows}")
    found = sorted((change.action, *change.values) for change in table.changes(stream))
    assert found == [("DELETE", "A", "B"), ("INSERT", "a", "b")]
