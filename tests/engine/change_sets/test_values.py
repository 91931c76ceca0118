"""Change sets of values of every type: which differences count as changes, and that all values come
back whole.
"""

from __future__ import annotations

import pytest
from oracle import MakeTable, insert, update
from pyspark.sql import SparkSession


@pytest.mark.thorough
def test_change_set_of_maps_ignores_their_order_and_nothing_else(make_table: MakeTable) -> None:
    table = make_table(
        "id INT, m MAP<STRING, MAP<INT, STRING>>, l ARRAY<MAP<INT, INT>>",
        "1, map('a', map(1, 'x'), 'b', NULL), array(map(1, 1), NULL)",
        "2, map(), array()",
        "3, NULL, NULL",
        "4, map('a', map()), array(map())",
        "5, map('a', map(1, 'x', 2, 'y')), NULL",
    )
    stream = table.stream()
    table.sql(
        """UPDATE {t} SET m = CASE id
            WHEN 1 THEN map('b', NULL, 'a', map(1, 'x'))
            WHEN 2 THEN NULL WHEN 3 THEN map() WHEN 4 THEN map('a', NULL)
            WHEN 5 THEN map('a', map(2, 'y', 1, 'x')) END"""
    )
    assert {change.row_id for change in table.check(stream)} == {1, 2, 3}
    table.sql("UPDATE {t} SET l = array(map(1, 2), NULL) WHERE id = 1")
    assert {change.row_id for change in table.check(stream)} == {0, 1, 2, 3}


@pytest.mark.thorough
def test_change_set_of_variants_distinguishes_values_of_different_types(
    make_table: MakeTable,
) -> None:
    was = [
        "parse_json('1')",
        "parse_json('null')",
        """parse_json('{"a": 1, "b": [1, null]}')""",
        "CAST(DATE '2020-01-01' AS VARIANT)",
        "parse_json('1')",
        "CAST(x'41' AS VARIANT)",
        "parse_json('[1, \"a\"]')",
        "to_variant_object(array(CAST(1 AS VARIANT), CAST(DATE '2020-01-01' AS VARIANT)))",
    ]
    now = [
        """parse_json('"1"')""",
        "NULL",
        """parse_json('{"b": [1, null], "a": 1}')""",
        """parse_json('"2020-01-01"')""",
        "parse_json('1')",
        """parse_json('"QQ=="')""",
        "parse_json('[1, \"b\"]')",
        """parse_json('[1, "2020-01-01"]')""",
    ]
    table = make_table(
        "id INT, v VARIANT, s STRUCT<v: VARIANT>",
        *[f"{i}, {value}, named_struct('v', {value})" for i, value in enumerate(was)],
    )
    stream = table.stream()
    cases = " ".join(f"WHEN {i} THEN {value}" for i, value in enumerate(now))
    table.sql(f"UPDATE {{t}} SET v = CASE id {cases} END")
    changed = {0, 1, 3, 5, 6, 7}
    assert {change.row_id for change in table.check(stream)} == changed
    table.sql(f"UPDATE {{t}} SET v = s.v, s = named_struct('v', CASE id {cases} END)")
    assert {change.row_id for change in table.check(stream)} == changed


@pytest.mark.thorough
def test_change_set_of_variants_counts_rewritten_mixed_arrays_as_changed(
    make_table: MakeTable,
) -> None:
    """No function of Spark distinguishes the types in such an array, so equal values count as
    changed.
    """
    mixed = """parse_json('{"a": [1, "a"]}')"""
    table = make_table("id INT, v VARIANT", *[f"{i}, {mixed}" for i in range(3)])
    stream = table.stream()
    table.sql(f"UPDATE {{t}} SET v = {mixed} WHERE id = 1")
    found = table.changes(stream)
    assert [(change.row_id, change.is_update) for change in found.elements()] == [(1, True)] * 2
    # Rows that were only carried over do not count as written.
    table.sql("OPTIMIZE {t}", "DELETE FROM {t} WHERE id = 0", "REORG TABLE {t} APPLY (PURGE)")
    assert {change.row_id for change in table.changes(stream)} == {0, 1}


@pytest.mark.thorough
def test_change_set_of_zeros_ignores_their_signs(make_table: MakeTable) -> None:
    table = make_table("id INT, d DOUBLE, l ARRAY<FLOAT>", "1, 0.0D, array(0.0F)")
    stream = table.stream()
    table.sql("UPDATE {t} SET d = -0.0D, l = array(-0.0F)")
    assert table.check(stream) == []


@pytest.mark.thorough
def test_change_set_of_collated_strings_compares_their_bytes(
    make_table: MakeTable, spark: SparkSession
) -> None:
    # Delta 4.4 writes collated columns only with its type check off.
    spark.conf.set("spark.databricks.delta.schema.typeCheck.enabled", "false")
    try:
        table = make_table(
            "id INT, c STRING COLLATE UTF8_LCASE, s STRUCT<c: STRING COLLATE UTF8_LCASE>,"
            " l ARRAY<STRING COLLATE UTF8_LCASE>, m MAP<STRING, STRING COLLATE UTF8_LCASE>",
            *[
                f"{i}, 'a', named_struct('c', 'a'), array('a', NULL), map('k', 'a')"
                for i in range(6)
            ],
        )
        stream = table.stream()
        table.sql(
            "UPDATE {t} SET c = 'A' WHERE id = 0",
            "UPDATE {t} SET s = named_struct('c', 'A') WHERE id = 1",
            "UPDATE {t} SET l = array('A', NULL) WHERE id = 2",
            "UPDATE {t} SET m = map('k', 'A') WHERE id = 3",
            "UPDATE {t} SET c = 'a' WHERE id = 4",
        )
        assert {change.row_id for change in table.check(stream)} == {0, 1, 2, 3}
    finally:
        spark.conf.unset("spark.databricks.delta.schema.typeCheck.enabled")


@pytest.mark.thorough
def test_change_set_of_nulls_distinguishes_them_from_everything_else(make_table: MakeTable) -> None:
    table = make_table(
        "a INT, b INT, s STRUCT<x: INT, y: STRUCT<z: INT>>, l ARRAY<INT>, d DOUBLE, k STRING",
        "NULL, 1, NULL, NULL, NULL, NULL",
        "NULL, NULL, named_struct('x', NULL, 'y', NULL), array(), DOUBLE('NaN'), ''",
        "NULL, NULL, NULL, array(NULL), NULL, 'same'",
    )
    stream = table.stream()
    table.sql("UPDATE {t} SET a = 1, b = NULL WHERE b = 1")
    assert sorted(table.check(stream), key=repr) == sorted(
        update(0, (None, 1, None, None, None, None), (1, None, None, None, None, None)), key=repr
    )
    table.sql("UPDATE {t} SET a = NULL, b = 1 WHERE a = 1")
    assert table.check(stream) == []
    table.sql("UPDATE {t} SET s = named_struct('x', NULL, 'y', named_struct('z', NULL))")
    assert len(table.changes(stream)) == 6
    table.sql("UPDATE {t} SET s = NULL, l = if(k = 'same', NULL, l), k = coalesce(k, '')")
    found = table.changes(stream)
    assert {change.row_id for change in found} == {0, 1, 2}
    stream = table.stream()
    table.sql("UPDATE {t} SET d = DOUBLE('NaN') WHERE isnan(d)")
    assert table.changes(stream).total() == 0
    table.sql("INSERT INTO {t} VALUES (NULL, NULL, NULL, NULL, NULL, NULL)")
    changes = list(table.changes(stream))
    assert changes == [insert(changes[0].row_id, None, None, None, None, None, None)]


@pytest.mark.thorough
def test_change_set_of_every_plain_type_returns_its_values(make_table: MakeTable) -> None:
    table = make_table(
        "a BOOLEAN, b BYTE, c SMALLINT, d BIGINT, e FLOAT, f DECIMAL(38, 18), g BINARY, h DATE,"
        " i TIMESTAMP, j TIMESTAMP_NTZ, k VARCHAR(5)",
        "true, 1, 2, 3, 0.1, 1.000000000000000001, x'00ff', DATE '0001-01-01',"
        " TIMESTAMP '2024-10-27 02:30:00.000001', TIMESTAMP_NTZ '1900-01-01 00:00:00', 'ü'",
    )
    stream = table.stream()
    table.sql("UPDATE {t} SET g = x'00fe', i = i + INTERVAL 1 MICROSECOND")
    assert len(table.check(stream)) == 2


ODD_VALUES = [
    "NULL",
    "''",
    "'a b'",
    "'ü/%20:?#=&'",
    "'__HIVE_DEFAULT_PARTITION__'",
    "'quote\\'s \"x\"'",
    "'a\\\\b'",
    "'{[*]}'",
]


@pytest.mark.thorough
def test_change_set_of_partitions_with_any_value_returns_it(make_table: MakeTable) -> None:
    table = make_table(
        "id INT, p STRING, q DATE",
        *[f"{i}, {value}, DATE '2024-01-0{i + 1}'" for i, value in enumerate(ODD_VALUES)],
        clause="PARTITIONED BY (p, q)",
    )
    stream = table.stream()
    table.sql("UPDATE {t} SET id = id + 100")
    assert len(table.check(stream)) == 2 * len(ODD_VALUES)
    table.sql("DELETE FROM {t} WHERE p = 'a b' OR p IS NULL")
    table.check(stream)
    inserted = table.inserted()
    table.sql("INSERT INTO {t} VALUES (1, '', NULL), (2, 'ü/%20:?#=&', NULL)")
    assert sorted(change.values[0] for change in table.changes(inserted)) == [1, 2]
    table.check(stream)


@pytest.mark.thorough
def test_change_set_of_an_update_that_moves_partitions_is_an_update(
    make_table: MakeTable,
) -> None:
    table = make_table(
        "id INT, `p.q r` STRING",
        "1, 'a'",
        "2, 'a'",
        clause="PARTITIONED BY (`p.q r`)",
        properties="'delta.columnMapping.mode' = 'name'",
    )
    stream = table.stream()
    table.sql("UPDATE {t} SET `p.q r` = 'b' WHERE id = 1")
    assert sorted(table.check(stream)) == sorted(update(0, (1, "a"), (1, "b")))
    table.sql("UPDATE {t} SET `p.q r` = 'a'")
    assert table.check(stream) == []
