"""Append-only streams: rows as inserted (as in Snowflake), and surviving rows (as in Databend)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from oracle import MakeTable, SourceTable

from airflow_provider_cdc.engine.core.change_sets.read_plan import Strategy
from airflow_provider_cdc.engine.core.model.stream import Stream

MAPPED = "'delta.columnMapping.mode' = 'name'"


def values(table: SourceTable, stream: Stream) -> list[tuple[Any, ...]]:
    """The values of a change set in which every row is a plain insert with a row id of its own."""
    changes = table.changes(stream)
    assert {(change.action, change.is_update) for change in changes} <= {("INSERT", False)}
    row_ids = Counter(change.row_id for change in changes.elements())
    assert set(row_ids.values()) <= {1}
    assert all(row_id > stream.offset.row_id_high_water_mark for row_id in row_ids)
    return sorted((change.values for change in changes.elements()), key=repr)


@pytest.mark.thorough
@pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "no vectors"])
def test_append_only_streams_return_inserts_by_their_semantics(
    make_table: MakeTable, vectors: bool
) -> None:
    table = make_table("id INT, v STRING", "1, 'a'", "2, 'b'", "3, 'c'", vectors=vectors)
    inserted, surviving = table.inserted(), table.surviving()
    assert table.plan(inserted).strategy is Strategy.NOTHING
    table.sql("UPDATE {t} SET v = 'x' WHERE id = 1", "DELETE FROM {t} WHERE id = 2")
    assert not table.may_have_data(table.inserted())
    assert values(table, inserted) == []
    assert values(table, surviving) == []
    table.sql(
        """MERGE INTO {t} t
        USING (SELECT * FROM VALUES (1, 'merged'), (9, 'nine') AS s(id, v)) s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *""",
        "INSERT INTO {t} VALUES (10, 'ten'), (11, 'eleven')",
        "UPDATE {t} SET v = 'later' WHERE id IN (10, 3)",
        "DELETE FROM {t} WHERE id = 11",
    )
    assert table.plan(inserted).strategy is Strategy.INSERTED_FILES
    assert values(table, inserted) == [(10, "ten"), (11, "eleven"), (9, "nine")]
    assert values(table, surviving) == [(10, "later"), (9, "nine")]
    table.sql("OPTIMIZE {t}", "UPDATE {t} SET v = 'last' WHERE id IN (9, 1)")
    assert values(table, inserted) == [(10, "ten"), (11, "eleven"), (9, "nine")]
    assert values(table, surviving) == [(10, "later"), (9, "last")]
    table.sql("INSERT OVERWRITE {t} VALUES (1, 'anew')")
    assert values(table, inserted) == [(1, "anew"), (10, "ten"), (11, "eleven"), (9, "nine")]
    assert values(table, surviving) == [(1, "anew")]


@pytest.mark.thorough
@pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "no vectors"])
def test_append_only_streams_across_restore_return_no_row_twice(
    make_table: MakeTable, vectors: bool
) -> None:
    table = make_table("id INT, v STRING", "1, 'a'", "2, 'b'", vectors=vectors)
    inserted, surviving = table.inserted(), table.surviving()
    table.sql("INSERT INTO {t} VALUES (3, 'c'), (4, 'd')")
    wanted = table.version
    table.sql("DELETE FROM {t} WHERE id IN (1, 3)", "UPDATE {t} SET v = 'x' WHERE id = 4")
    table.sql("INSERT INTO {t} VALUES (5, 'undone')")
    later = table.stream()
    table.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {wanted}")
    table.sql("INSERT INTO {t} VALUES (6, 'f')")
    assert values(table, inserted) == [(3, "c"), (4, "d"), (5, "undone"), (6, "f")]
    assert values(table, surviving) == [(3, "c"), (4, "d"), (6, "f")]
    table.check(later)


@pytest.mark.thorough
@pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "no vectors"])
def test_append_only_streams_do_not_return_older_restored_rows(
    make_table: MakeTable, vectors: bool
) -> None:
    table = make_table("id INT, v STRING", "1, 'a'", "2, 'b'", vectors=vectors)
    whole = table.version
    table.sql("DELETE FROM {t} WHERE id = 1")
    standard, inserted, surviving = table.stream(), table.inserted(), table.surviving()
    table.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {whole}", "INSERT INTO {t} VALUES (3, 'c')")
    assert values(table, inserted) == values(table, surviving) == [(3, "c")]
    assert [change.values for change in table.check(standard)] == [(1, "a"), (3, "c")]


def test_append_only_streams_return_rows_with_restarted_row_ids(
    make_table: MakeTable,
) -> None:
    table = make_table("id INT, v STRING", "1, 'a'", "2, 'b'", "3, 'c'")
    table.sql(
        "DELETE FROM {t}",
        "ALTER TABLE {t} DROP FEATURE rowTracking",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
    )
    inserted, surviving = table.inserted(), table.surviving()
    table.sql("INSERT INTO {t} VALUES (4, 'd')")
    assert values(table, surviving) == values(table, inserted) == [(4, "d")]


@pytest.mark.thorough
@pytest.mark.parametrize("mapping", ["none", "name"])
def test_append_only_streams_read_each_file_by_the_schema_of_its_write(
    make_table: MakeTable, mapping: str
) -> None:
    table = make_table(
        "id INT, v STRING, w INT",
        "1, 'a', 1",
        properties=f"'delta.columnMapping.mode' = '{mapping}'",
    )
    inserted, surviving = table.inserted(), table.surviving()
    table.sql(
        "INSERT INTO {t} VALUES (2, 'b', 2)",
        "ALTER TABLE {t} ADD COLUMN n STRUCT<x: INT>",
        "INSERT INTO {t} VALUES (3, 'c', 3, named_struct('x', 3))",
        "ALTER TABLE {t} ADD COLUMN n.y STRING",
        "INSERT INTO {t} VALUES (4, 'd', 4, named_struct('x', 4, 'y', 'four'))",
    )
    expected: list[tuple[Any, ...]] = [
        (2, "b", 2, None),
        (3, "c", 3, (3, None)),
        (4, "d", 4, (4, "four")),
    ]
    assert values(table, inserted) == values(table, surviving) == expected
    if mapping == "none":
        return
    table.sql(
        "ALTER TABLE {t} RENAME COLUMN v TO w2",
        "ALTER TABLE {t} DROP COLUMN w",
        "ALTER TABLE {t} RENAME COLUMN w2 TO w",
        "INSERT INTO {t} VALUES (5, 'e', named_struct('x', 5, 'y', 'five'))",
    )
    expected = [(a, b, n) for a, b, _, n in expected]
    expected.append((5, "e", (5, "five")))
    assert values(table, inserted) == values(table, surviving) == expected
    table.sql(
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'none')",
        "INSERT INTO {t} VALUES (6, 'f', NULL)",
    )
    expected.append((6, "f", None))
    assert values(table, inserted) == values(table, surviving) == expected
