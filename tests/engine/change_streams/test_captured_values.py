"""What records hold of changed rows, for each capture type and each choice of columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_provider_cdc.engine.core.change_streams.clock import SourceCommit, StampedCommit
from airflow_provider_cdc.engine.core.change_streams.definition import CaptureSettings, Int64As
from airflow_provider_cdc.engine.core.change_streams.key_ranges import bucket_of
from airflow_provider_cdc.engine.core.change_streams.layout import Layout as Partitions
from airflow_provider_cdc.engine.core.change_streams.value_capture import ModType, ValueCaptureType
from airflow_provider_cdc.engine.core.change_streams.watches import WatchedTable
from airflow_provider_cdc.engine.core.delta.table_schema import Layout
from airflow_provider_cdc.engine.core.model.sources import Source
from airflow_provider_cdc.engine.spark.change_streams.captured_rows import CapturedTable
from airflow_provider_cdc.engine.spark.change_streams.data_records import changed_rows

COLUMNS = "id INT, v STRING, n INT"
FEED = f"{COLUMNS}, _feed_change_type STRING, _feed_commit_version BIGINT, `METADATA$ROW_ID` STRING"
# The watched columns: only the key, some, all.
WATCHED: dict[str, tuple[str, ...] | None] = {"key": (), "some": ("n",), "all": None}
OLD, MODIFIED = {"v": "a", "n": 1}, {"v": "a", "n": 2}


def change(kind: str, key: int, values: dict[str, Any]) -> tuple[Any, ...]:
    return (key, values["v"], values["n"], kind, 1, str(key))


ROWS = [
    change("insert", 1, OLD),
    change("update_preimage", 2, OLD),
    change("update_postimage", 2, MODIFIED),
    change("delete", 3, OLD),
    # This row was written again as it was.
    change("update_preimage", 4, OLD),
    change("update_postimage", 4, OLD),
]


def of_table(
    watched: tuple[str, ...] | None, capture: ValueCaptureType, table: str
) -> CapturedTable:
    kinds = {"id": "integer", "v": "string", "n": "integer"}
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in kinds.items()
    ]
    layout = Layout.of({"schemaString": json.dumps({"type": "struct", "fields": fields})})
    found = WatchedTable(table, Source(table, f"/{table}", "t"), ("id",), watched, "s", 0, 0)
    return CapturedTable(
        found,
        layout,
        [StampedCommit(5, SourceCommit("t", 1, 5))],
        Partitions.created("change stream cs", 0, 1),
        CaptureSettings(capture, int64_as=Int64As.NUMBER),
    )


def captured(
    spark: SparkSession,
    rows: Sequence[tuple[Any, ...]],
    watched: tuple[str, ...] | None,
    capture: ValueCaptureType,
    table: str,
) -> DataFrame:
    found = of_table(watched, capture, table)
    stored = found.rows(spark.createDataFrame(rows, FEED), 1, range)
    return changed_rows(stored, found.source, tuple(ModType)).withColumn("table_name", F.lit(table))


def of_columns(names: Sequence[str] | None, values: dict[str, Any]) -> dict[str, Any]:
    return values if names is None else {name: values[name] for name in names}


def expected(
    watched: tuple[str, ...] | None, capture: ValueCaptureType
) -> set[tuple[str, int, str, str]]:
    """What Spanner's emulator gives for :data:`ROWS`."""
    keeps_old = capture.value in ("OLD_AND_NEW_VALUES", "NEW_ROW_AND_OLD_VALUES")
    shows_row = capture.value in ("NEW_ROW", "NEW_ROW_AND_OLD_VALUES")
    whole = of_columns(watched, OLD)
    found = {
        ("INSERT", 1, text(whole), "{}"),
        ("DELETE", 3, "{}", text(whole) if keeps_old else "{}"),
    }
    if watched != ():
        new = of_columns(watched, MODIFIED) if shows_row else {"n": 2}
        found.add(("UPDATE", 2, text(new), text({"n": 1}) if keeps_old else "{}"))
    return found


def text(values: dict[str, Any]) -> str:
    return json.dumps(values, separators=(",", ":"))


def test_record_has_the_values_that_its_capture_type_asks_for(spark: SparkSession) -> None:
    cases = [(each, name) for each in ValueCaptureType for name in WATCHED]
    parts = [
        captured(spark, ROWS, WATCHED[name], each, f"{each.value} {name}") for each, name in cases
    ]
    found: dict[str, set[tuple[str, int, str, str]]] = {}
    for row in reduce(DataFrame.unionByName, parts).collect():
        key = json.loads(row["keys"])["id"]
        change = (row.mod_type, key, row.new_values, row.old_values)
        found.setdefault(row.table_name, set()).add(change)

    for each, name in cases:
        assert found[f"{each.value} {name}"] == expected(WATCHED[name], each), (each, name)


def test_delete_and_insert_of_one_key_is_an_update(spark: SparkSession) -> None:
    rows = [change("delete", 1, OLD), change("insert", 1, MODIFIED)]

    (row,) = captured(spark, rows, None, ValueCaptureType.OLD_AND_NEW_VALUES, "t").collect()

    assert (row.mod_type, row.new_values, row.old_values) == ("UPDATE", '{"n":2}', '{"n":1}')
    # The key, and the only column that differs.
    assert row.column_set == "3"


def test_inserts_alone_give_the_same_rows_without_pairing(spark: SparkSession) -> None:
    rows = [change("insert", key, OLD) for key in range(20)]
    feed = spark.createDataFrame(rows, FEED)
    table = of_table(None, ValueCaptureType.OLD_AND_NEW_VALUES, "t")

    inserts = table.inserts(feed)

    assert inserts is not None
    paired = table.rows(feed, 1, range)
    assert sorted(map(tuple, inserts.collect())) == sorted(map(tuple, paired.collect()))
    again = spark.createDataFrame([*rows, change("insert", 3, MODIFIED)], FEED)
    assert table.inserts(again) is None


def test_bucket_of_a_captured_row_is_that_of_the_hash_of_its_key(spark: SparkSession) -> None:
    rows = [change("insert", key, OLD) for key in range(50)]
    found = captured(spark, rows, None, ValueCaptureType.OLD_AND_NEW_VALUES, "t")

    hashed = found.selectExpr(
        "bucket", "xxhash64('t', CAST(get_json_object(keys, '$.id') AS BIGINT)) AS hash"
    ).collect()

    assert len({row.bucket for row in hashed}) > 40
    assert all(row.bucket == bucket_of(row.hash) for row in hashed)
