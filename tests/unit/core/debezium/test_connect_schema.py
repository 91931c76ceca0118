"""The schemas in Debezium's messages as columns."""

from __future__ import annotations

import json
from typing import Any

import pytest
from debezium_records import customer_messages

from airflow_provider_cdc.engine.core.debezium.connect_schema import columns_of_schemas
from airflow_provider_cdc.engine.core.errors import InvalidRequest

DECIMAL = "org.apache.kafka.connect.data.Decimal"


def schema(*fields: dict[str, Any]) -> str:
    row = {"type": "struct", "fields": list(fields)}
    sides = [{**row, "field": "before"}, {**row, "field": "after"}]
    return json.dumps({"type": "struct", "fields": [*sides, {"type": "string", "field": "op"}]})


def column(name: str, kind: str, logical: str | None = None, **more: Any) -> dict[str, Any]:
    return {"field": name, "type": kind, "optional": True, "name": logical, **more}


def decimal(digits: int, scale: int) -> dict[str, Any]:
    parameters = {"scale": str(scale), "connect.decimal.precision": str(digits)}
    return column("x", "bytes", DECIMAL, parameters=parameters)


def types(*schemas: str) -> dict[str, str]:
    return {each.name: each.type.type for each in columns_of_schemas("t", schemas)}


def test_columns_of_a_recorded_schema_have_the_types_of_the_table() -> None:
    value = customer_messages()[0]
    assert value is not None
    assert types(json.dumps(json.loads(value)["schema"])) == {
        "id": "INT",
        "name": "STRING",
        "city": "STRING",
        "balance": "DECIMAL(12, 2)",
        "limit_big": "DECIMAL(30, 5)",
        "born": "DATE",
        "seen": "TIMESTAMP_NTZ",
        "seen_ms": "TIMESTAMP_NTZ",
        "updated": "TIMESTAMP_LTZ",
        "active": "BOOLEAN",
        "score": "DOUBLE",
        "ratio": "FLOAT",
        "small": "SMALLINT",
        "big": "BIGINT",
        "doc": "STRING",
        "raw": "BINARY",
        "tags": "ARRAY<STRING>",
        "uid": "STRING",
        "info": "STRING",
        "t": "BIGINT",
    }


def test_types_within_types_are_converted() -> None:
    day = column("d", "int32", "io.debezium.time.Date")
    text = {"type": "string"}
    found = columns_of_schemas(
        "t",
        [
            schema(
                column("days", "array", items=day),
                column("by_name", "map", keys=text, values=day),
                column("s", "struct", fields=[day, column("n", "int64")]),
            )
        ],
    )
    assert [each.type.type for each in found] == [
        "ARRAY<DATE>",
        "MAP<STRING, DATE>",
        "STRUCT<`d`: DATE, `n`: BIGINT>",
    ]
    assert [each.type.wire for each in found] == [
        "ARRAY<INT>",
        "MAP<STRING, INT>",
        "STRUCT<`d`: INT, `n`: BIGINT>",
    ]
    assert found[0].type.of("v").startswith("transform(v, _cdc_each -> if(_cdc_each IS NULL, NULL,")


def test_columns_of_several_schemas_are_read_together() -> None:
    older = schema(column("id", "int32"), column("dropped", "string"), decimal(10, 2))
    newer = schema(column("added", "string"), column("id", "int64"), decimal(12, 2))
    assert types(older, newer) == {
        "added": "STRING",
        "id": "BIGINT",
        "x": "DECIMAL(12, 2)",
        "dropped": "STRING",
    }
    assert types(newer, older)["id"] == "BIGINT"


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        (column("x", "int32"), column("x", "string")),
        (decimal(10, 2), decimal(10, 3)),
        (
            column("x", "int64", "io.debezium.time.Timestamp"),
            column("x", "int64", "io.debezium.time.MicroTimestamp"),
        ),
        (column("x", "int32", "io.debezium.time.Date"), column("x", "int64")),
        (column("x", "bytes"), decimal(10, 2)),
    ],
)
def test_column_that_got_another_type_is_refused(
    older: dict[str, Any], newer: dict[str, Any]
) -> None:
    for first, second in ((older, newer), (newer, older)):
        with pytest.raises(InvalidRequest, match="the column x of Debezium messages with two"):
            columns_of_schemas("t", [schema(first), schema(second)])


def test_messages_of_several_tables_are_refused() -> None:
    texts = [
        json.dumps({**json.loads(schema(column("id", "int32"))), "name": f"shop.{name}.Envelope"})
        for name in ("customers", "orders")
    ]
    with pytest.raises(InvalidRequest, match=r"several tables.*shop\.customers\.Envelope"):
        columns_of_schemas("t", texts)


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "{}", '{"fields": []}', '{"fields": [{"field": "status", "type": "string"}]}'],
)
def test_schema_of_another_message_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="cannot read a Debezium message"):
        columns_of_schemas("t", [text])


@pytest.mark.parametrize(
    "field",
    [decimal(50, 2), column("x", "map", keys={"type": "int32"}, values={"type": "int32"})],
)
def test_column_that_spark_cannot_hold_is_refused_by_name(field: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="cannot read the column x"):
        columns_of_schemas("t", [schema(field)])
