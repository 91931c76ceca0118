"""Upsert tables that Debezium's messages fill."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from debezium_records import UNTIL_TRUNCATE, customer_messages, customers, shown
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from upsert_lab import UpsertLab

from airflow_provider_cdc.engine import InvalidRequest
from airflow_provider_cdc.engine.core.debezium.envelope import POSITION, PayloadOptions
from airflow_provider_cdc.engine.core.delta.columns import Column
from airflow_provider_cdc.engine.core.upserts.definition import CHANGE_SEQUENCE_NUMBER
from airflow_provider_cdc.engine.core.upserts.sequence_numbers import padded_sequence
from airflow_provider_cdc.engine.spark.debezium.decoding import decoded

CUSTOMERS = (
    "id INT, name STRING, city STRING, balance DECIMAL(12, 2), limit_big DECIMAL(30, 5), born DATE,"
    " seen TIMESTAMP_NTZ, seen_ms TIMESTAMP_NTZ, updated TIMESTAMP, active BOOLEAN, score DOUBLE,"
    " ratio FLOAT, small SMALLINT, big BIGINT, doc STRING, raw BINARY, tags ARRAY<STRING>,"
    " uid STRING, info STRING, t BIGINT, level INT"
)


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> UpsertLab:
    return UpsertLab(spark, tmp_path)


def frame(lab: UpsertLab, *values: str | None) -> DataFrame:
    return lab.spark.createDataFrame([Row(value=value) for value in values], "value STRING")


def held(lab: UpsertLab) -> dict[int, dict[str, Any]]:
    rows = [shown(row.asDict()) for row in lab.engine.read_upsert_table(lab.table()).collect()]
    return {row["id"]: row for row in rows}


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.thorough)])
def test_table_equals_its_source_whatever_the_order(lab: UpsertLab, seed: int) -> None:
    lab.engine.create_upsert_table(lab.table(), CUSTOMERS, "id", partial_changes=True)
    values = list(customer_messages()[:UNTIL_TRUNCATE])
    random.Random(seed).shuffle(values)
    for begin in range(0, len(values), 9):
        rows = frame(lab, *values[begin : begin + 9])
        lab.engine.write_changes(lab.table(), rows, payload="debezium")
        assert lab.engine.apply_upserts(lab.table()) is not None
    assert held(lab) == customers("before_truncate")


def test_sink_writes_messages_of_a_streaming_query(lab: UpsertLab) -> None:
    lab.engine.create_upsert_table(lab.table(), CUSTOMERS, "id", partial_changes=True)
    sink = lab.engine.change_sink(lab.table(), query="topic", payload="debezium")
    for _ in range(2):
        sink(frame(lab, *customer_messages()[:UNTIL_TRUNCATE]), 0)
    assert held(lab) == customers("before_truncate")


def test_batch_of_tombstones_writes_nothing(lab: UpsertLab) -> None:
    lab.engine.create_upsert_table(lab.table(), "id INT, v STRING", "id")
    lab.engine.write_changes(lab.table(), frame(lab, None), payload="debezium")
    assert held(lab) == {}


def test_values_that_were_left_out_need_partial_changes(lab: UpsertLab) -> None:
    lab.engine.create_upsert_table(lab.table(), CUSTOMERS, "id")
    with pytest.raises(InvalidRequest, match=r"it leaves doc.* unchanged, which needs"):
        lab.engine.write_changes(
            lab.table(), frame(lab, *customer_messages()[:UNTIL_TRUNCATE]), payload="debezium"
        )
    assert held(lab) == {}


def test_truncate_is_a_bad_row(lab: UpsertLab) -> None:
    lab.engine.create_upsert_table(lab.table(), CUSTOMERS, "id", partial_changes=True)
    rows = frame(lab, *customer_messages())
    with pytest.raises(InvalidRequest, match="it is a truncate"):
        lab.engine.write_changes(lab.table(), rows, payload="debezium")
    written = lab.engine.write_changes(
        lab.table(), rows, payload="debezium", on_bad_rows="quarantine"
    )
    assert written.bad == 1


POSITIONS: list[tuple[str, list[dict[str, Any]], list[str]]] = [
    (
        "mysql",
        [
            {"file": "binlog.999999", "pos": 4000, "row": 0},
            {"file": "binlog.1000000", "pos": 4, "row": 0},
            {"file": "binlog.1000000", "pos": 4, "row": 1},
        ],
        ["F423F/FA0/0", "F4240/4/0", "F4240/4/1"],
    ),
    (
        "oracle",
        [{"scn": "9"}, {"scn": "10", "ssn": 1}, {"scn": "10", "ssn": 2}],
        ["9/0", "A/1", "A/2"],
    ),
    (
        "sqlserver",
        [
            {"commit_lsn": "00000025:00000440:0003"},
            {
                "commit_lsn": "00000025:00000448:0003",
                "change_lsn": "00000025:00000441:0002",
                "event_serial_no": 1,
            },
            {
                "commit_lsn": "00000025:00000448:0003",
                "change_lsn": "00000025:00000441:0002",
                "event_serial_no": 2,
            },
        ],
        [
            "0000002500000440/000300000000/000000000000/0",
            "0000002500000448/000300000025/000004410002/1",
            "0000002500000448/000300000025/000004410002/2",
        ],
    ),
]


def test_positions_of_each_connector_have_the_order_of_its_log(spark: SparkSession) -> None:
    for connector, sources, numbers in POSITIONS:
        values = [
            json.dumps({"op": "c", "after": {"id": 1}, "source": {"connector": connector, **each}})
            for each in reversed(sources)
        ]
        rows = spark.createDataFrame([Row(value=value) for value in values], "value STRING")

        def changes(rows: DataFrame = rows, *, is_numbered: bool) -> DataFrame:
            return decoded(
                rows,
                PayloadOptions(),
                "a test",
                schema=lambda: [Column("id", "int")],
                is_numbered=is_numbered,
            )

        found = changes(is_numbered=True).withColumnRenamed(POSITION, CHANGE_SEQUENCE_NUMBER)
        in_order = found.orderBy(F.expr(padded_sequence())).collect()
        assert [row[CHANGE_SEQUENCE_NUMBER] for row in in_order] == numbers
        as_structs = changes(is_numbered=False).select(POSITION).orderBy(POSITION).collect()
        assert len({row[0] for row in as_structs}) == len(sources)


def test_sequence_number_of_the_caller_decides(lab: UpsertLab) -> None:
    lab.engine.create_upsert_table(lab.table(), "id INT, v STRING", "id")
    values = [
        json.dumps({"op": "c", "after": {"id": 1, "v": v}, "ts_ms": moment})
        for v, moment in (("new", 200), ("old", 100))
    ]
    with pytest.raises(InvalidRequest, match="pass sequence_by"):
        lab.engine.write_changes(lab.table(), frame(lab, *values), payload="debezium")
    lab.engine.write_changes(
        lab.table(), frame(lab, *values), payload="debezium", sequence_by="hex(ts_ms)"
    )
    rows = lab.engine.read_upsert_table(lab.table()).collect()
    assert [tuple(row) for row in rows] == [(1, "new")]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"payload": "maxwell"}, "payload"),
        ({"sequence_by": "ts_ms"}, "it is for payload='debezium'"),
        ({"unavailable_value": "?"}, "it is for payload='debezium'"),
        ({"payload": "debezium", "sequence_by": "1; DROP TABLE t"}, "sequence_by"),
    ],
)
def test_arguments_that_contradict_are_refused(
    lab: UpsertLab, arguments: dict[str, Any], why: str
) -> None:
    lab.engine.create_upsert_table(lab.table(), "id INT, v STRING", "id")
    with pytest.raises(InvalidRequest, match=why):
        lab.engine.write_changes(lab.table(), frame(lab, "{}"), **arguments)
