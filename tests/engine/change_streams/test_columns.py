"""Columns that change between a partition and its children, and keys that keep their partition."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest
from change_stream_lab import ChangeStreamLab, moment
from pyspark.sql import Row

from airflow_provider_cdc.engine import Watch

PROPERTIES = (
    "'delta.enableRowTracking' = 'true', 'delta.columnMapping.mode' = 'name',"
    " 'delta.enableTypeWidening' = 'true'"
)
ROWS = "INSERT INTO {t} SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a', 1.5, 7), (2, 'b', 2.5, 8)"


@pytest.fixture
def mapped(lab: ChangeStreamLab) -> ChangeStreamLab:
    """A table whose columns can be renamed, dropped and widened."""
    lab.make("mapped", "id INT, v STRING, f FLOAT, d INT", ROWS, properties=PROPERTIES)
    return lab


def types_of(record: Row) -> dict[str, tuple[str, int]]:
    return {
        each.name: (json.loads(each.type)["code"], each.ordinal_position)
        for each in record.column_types
    }


def data_of(rows: list[Row]) -> list[Row]:
    return [row.data_change_record[0] for row in rows if row.data_change_record]


def test_parent_has_the_old_columns_and_its_children_the_new_ones(mapped: ChangeStreamLab) -> None:
    lab = mapped
    start = lab.create(
        {"mapped": Watch(keys=["id"])}, value_capture_type="NEW_ROW_AND_OLD_VALUES"
    ).created
    (parent,) = lab.tokens(start)
    lab.sql("UPDATE {mapped} SET f = f + 1")
    lab.engine.split_partition("cs", parent)
    lab.sql(
        "ALTER TABLE {mapped} DROP COLUMN d",
        "ALTER TABLE {mapped} RENAME COLUMN v TO word",
        "ALTER TABLE {mapped} ADD COLUMN w DATE",
        "ALTER TABLE {mapped} ALTER COLUMN f TYPE DOUBLE",
        "UPDATE {mapped} SET word = concat(word, word), w = DATE'2026-01-02'",
        "DELETE FROM {mapped}",
    )
    lab.advance()

    of_parent = data_of(lab.read(start, partition_token=parent))

    old = {"id": ("INT64", 1), "v": ("STRING", 2), "f": ("FLOAT32", 3), "d": ("INT64", 4)}
    new = {"id": ("INT64", 1), "word": ("STRING", 2), "f": ("FLOAT64", 3), "w": ("DATE", 4)}
    assert [types_of(row) for row in of_parent] == [old]
    walked = lab.walk(start)
    of_children = walked[len(of_parent) :]
    assert walked[: len(of_parent)] == of_parent
    assert [types_of(row) for row in of_children] == [new] * len(of_children)
    by_key: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for row in sorted(walked, key=moment):
        for mod in row.mods:
            values = (json.loads(text) for text in (mod.new_values, mod.old_values))
            by_key[mod["keys"]].append((row.mod_type, *values))
    day = "2026-01-02"
    assert by_key == {
        f'{{"id":"{number}"}}': [
            ("UPDATE", {"v": word, "f": f + 1, "d": d}, {"f": f}),
            (
                "UPDATE",
                {"word": word * 2, "f": f + 1, "w": day},
                {"word": word, "w": None},
            ),
            ("DELETE", {}, {"word": word * 2, "f": f + 1, "w": day}),
        ]
        for number, word, f, d in ((1, "a", 1.5, "7"), (2, "b", 2.5, "8"))
    }


def test_dropped_column_is_watched_until_then(mapped: ChangeStreamLab) -> None:
    lab = mapped
    lab.create({"mapped": Watch(keys=["id"], columns=["d"])})
    lab.sql(
        "UPDATE {mapped} SET d = 9 WHERE id = 1",
        "ALTER TABLE {mapped} DROP COLUMN d",
        "UPDATE {mapped} SET v = 'z'",
        # A new column of that name is another column.
        "ALTER TABLE {mapped} ADD COLUMN d INT",
        "UPDATE {mapped} SET d = 5 WHERE id = 2",
        "DELETE FROM {mapped} WHERE id = 1",
    )
    lab.advance()

    assert lab.mods() == [
        ("UPDATE", {"id": "1"}, {"d": "9"}, {"d": "7"}),
        ("DELETE", {"id": "1"}, {}, {}),
    ]
    assert [list(types_of(row)) for row in lab.records()] == [["id", "d"], ["id"]]


@pytest.mark.in_ci("widened")
@pytest.mark.parametrize(
    ("change", "name"),
    [
        pytest.param("ALTER TABLE {mapped} ALTER COLUMN id TYPE BIGINT", "id", id="widened"),
        pytest.param("ALTER TABLE {mapped} RENAME COLUMN id TO number", "number", id="renamed"),
        pytest.param(None, "id", id="shown_as_number"),
    ],
)
def test_key_stays_in_its_partition_when_its_column_changes(
    mapped: ChangeStreamLab, change: str | None, name: str
) -> None:
    """Spanner: for a given time, the records of a key are in one partition."""
    lab = mapped
    start = lab.create({"mapped": Watch(keys=["id"])}, partitions=4).created
    lab.sql("INSERT INTO {mapped} SELECT CAST(id AS INT), 'x', 0, 0 FROM range(10, 20)")
    if change is None:
        lab.engine.alter_change_stream("cs", int64_as="number")
    else:
        lab.sql(change)
    lab.sql("UPDATE {mapped} SET v = 'y' WHERE v = 'x'")
    lab.advance()

    partition_of: dict[str, dict[str, str]] = {"INSERT": {}, "UPDATE": {}}
    names: dict[str, set[str]] = {"INSERT": set(), "UPDATE": set()}
    for token in lab.tokens(start):
        for row in data_of(lab.read(start, partition_token=token)):
            for mod in row.mods:
                ((column, value),) = json.loads(mod["keys"]).items()
                names[row.mod_type].add(column)
                partition_of[row.mod_type][str(value)] = token
    assert len(partition_of["INSERT"]) == 10
    assert names == {"INSERT": {"id"}, "UPDATE": {name}}
    assert partition_of["UPDATE"] == partition_of["INSERT"]


def test_decimal_key_keeps_its_text_when_its_column_is_widened(lab: ChangeStreamLab) -> None:
    lab.make("dec", "k DECIMAL(6, 2), v STRING", properties=PROPERTIES)
    lab.create({"dec": Watch(keys=["k"])})
    lab.sql(
        "INSERT INTO {dec} VALUES (1.50, 'a')",
        "ALTER TABLE {dec} ALTER COLUMN k TYPE DECIMAL(12, 4)",
        "UPDATE {dec} SET v = 'b'",
    )
    lab.advance()

    one, other = (mod["keys"] for row in lab.records() for mod in row.mods)
    assert one == other


def test_transaction_that_adds_a_column_is_captured_whole(lab: ChangeStreamLab) -> None:
    lab.make("copy", "id INT, v STRING", properties=PROPERTIES)
    lab.engine.create_stream("s", on_table=lab.path("src"))
    lab.create({"copy": Watch(keys=["id"])})
    lab.sql("INSERT INTO {src} VALUES (3, 'c', 30)")
    lab.consume(
        "INSERT INTO {copy} SELECT id, v FROM s",
        "MERGE WITH SCHEMA EVOLUTION INTO {copy} t USING (SELECT id, v, n FROM s) s"
        " ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    )
    lab.advance()

    assert lab.mods() == [
        ("INSERT", {"id": "3"}, {"v": "c"}, {}),
        ("UPDATE", {"id": "3"}, {"n": "30"}, {"n": None}),
    ]
    one, other = lab.records()
    assert one.server_transaction_id == other.server_transaction_id
    assert one.number_of_records_in_transaction == other.number_of_records_in_transaction == 2
    assert [list(types_of(row)) for row in (one, other)] == [["id", "v"], ["id", "n"]]
