"""Copies and histories of a database whose changes Debezium wrote."""

from __future__ import annotations

import json
import random
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from debezium_records import (
    UNTIL_SNAPSHOT,
    UNTIL_TRUNCATE,
    WITHOUT_SCHEMA,
    customer_messages,
    customers,
    shown,
)
from history_lab import HistoryLab
from pyspark.sql import Row, SparkSession

from airflow_provider_cdc.engine import InvalidRequest, Outcome
from airflow_provider_cdc.engine.core.debezium.envelope import (
    CHANGE,
    FAULT,
    POSITION,
    PayloadOptions,
)
from airflow_provider_cdc.engine.spark.debezium import messages as debezium_messages
from airflow_provider_cdc.engine.spark.debezium.decoding import decoded
from airflow_provider_cdc.engine.spark.tables.sql_types import declared_columns

OPTIONS: dict[str, Any] = {"payload": "debezium", "tombstone_horizon": None}


def message(op: str, lsn: int | None, **row: Any) -> str:
    """A message about a row, without a schema."""
    side = "before" if op == "d" else "after"
    source = {"connector": "postgresql", "lsn": lsn}
    return json.dumps({"op": op, side: row or None, "source": source, "ts_ms": 1})


class MessageLab(HistoryLab):
    """A table ``messages`` with JSON in ``value``, and a stream on its new rows."""

    def begin(self, columns: str = "value STRING") -> None:
        self.make("messages", columns)
        self.engine.create_stream("messages", on_table=self.path("messages"), mode="append_only")

    def write(self, *values: str | None) -> None:
        rows = self.spark.createDataFrame([Row(value=value) for value in values], "value STRING")
        rows.coalesce(1).write.format("delta").mode("append").save(self.path("messages"))

    def apply_to(self, target: str, **options: Any) -> Outcome | None:
        wanted: dict[str, Any] = {"keys": "id", "stream": "messages", **OPTIONS, **options}
        if "query" in options and "stream" not in options:
            del wanted["stream"]
        return self.engine.apply_changes(self.path(target), consumer="tests", **wanted)

    def held(self, target: str, condition: str = "true") -> dict[int, dict[str, Any]]:
        rows = self.spark.table(self.name(target)).where(condition).collect()
        found = [shown(row.asDict()) for row in rows]
        for row in found:
            for name in ("__START_AT", "__END_AT"):
                row.pop(name, None)
        assert len({row["id"] for row in found}) == len(found), "a key has several rows"
        return {row["id"]: row for row in found}


@pytest.fixture
def messages(lab: HistoryLab) -> MessageLab:
    found = MessageLab(lab.spark, lab.root)
    found.begin()
    return found


def test_copy_equals_the_table_at_every_moment(messages: MessageLab) -> None:
    values = customer_messages()
    for begin, end, moment in (
        (0, UNTIL_SNAPSHOT, "after_snapshot"),
        (UNTIL_SNAPSHOT, UNTIL_TRUNCATE, "before_truncate"),
        (UNTIL_TRUNCATE, None, "end"),
    ):
        messages.write(*values[begin:end])
        messages.apply_to("copy")
        assert messages.held("copy") == customers(moment)


@pytest.mark.thorough
def test_messages_without_schemas_are_read_as_declared(messages: MessageLab) -> None:
    values = customer_messages("postgres_decimal_string")
    messages.write(*values[:UNTIL_TRUNCATE])
    messages.apply_to("copy", payload_schema=WITHOUT_SCHEMA)
    assert messages.held("copy") == customers("before_truncate")
    messages.write(*values[UNTIL_TRUNCATE:])
    # The target says the columns now.
    messages.apply_to("copy")
    assert messages.held("copy") == customers("end")


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(1, 11))]
)
def test_order_of_arrival_makes_no_difference(messages: MessageLab, seed: int) -> None:
    scd_type = 1 + seed % 2
    values, dice = list(customer_messages()[:UNTIL_TRUNCATE]), random.Random(seed)
    # Kafka delivers at least once.
    values += dice.sample(values, 5)
    dice.shuffle(values)
    for begin in range(0, len(values), 9):
        messages.write(*values[begin : begin + 9])
        messages.apply_to("target", scd_type=scd_type)
    current = "__END_AT IS NULL" if scd_type == 2 else "true"
    assert messages.held("target", current) == customers("before_truncate")


def test_history_has_every_version_with_the_values_that_stayed(messages: MessageLab) -> None:
    messages.write(*customer_messages())
    messages.apply_to("history", scd_type=2)
    rows = messages.spark.table(messages.name("history")).orderBy("id", "__START_AT").collect()
    found: dict[int, list[Row]] = {}
    for row in rows:
        found.setdefault(row["id"], []).append(row)
    last = customers("before_truncate")
    assert {key: len(versions) for key, versions in found.items()} == {
        1: 3,
        2: 2,
        3: 3,
        4: 1,
        5: 1,
        6: 1,
        40: 4,
    }
    assert {row["doc"] for row in found[1]} == {last[1]["doc"]}
    assert [row["info"] for row in found[3]] == [last[3]["info"]] * 3
    assert [len(row["tags"]) for row in found[3]] == [70] * 3
    assert [row["name"] for row in found[40]] == ["Renée", "first", "second", "second"]
    truncated_at = found[1][-1]["__END_AT"]
    assert {key for key, versions in found.items() if versions[-1]["__END_AT"] is None} == {6}
    assert found[3][-1]["__END_AT"] == truncated_at


@pytest.mark.thorough
def test_placeholder_of_a_key_that_was_never_seen_becomes_null(messages: MessageLab) -> None:
    messages.write(message("u", 2, id=1, v="__debezium_unavailable_value"))
    messages.apply_to("copy", payload_schema="id INT, v STRING")
    assert messages.held("copy") == {1: {"id": 1, "v": None, "level": None}}
    messages.write(message("c", 1, id=1, v="long"))
    messages.apply_to("copy")
    assert messages.held("copy") == {1: {"id": 1, "v": "long", "level": None}}


ROW = "STRUCT<id INT, v STRING>"
SOURCE = "STRUCT<lsn: BIGINT>"
COLUMNS = f"before {ROW}, after {ROW}, op STRING, source {SOURCE}, ts_ms BIGINT"


@pytest.mark.in_ci("columns")
@pytest.mark.parametrize(
    ("columns", "prefix"),
    [
        # As text, the third position comes before the second.
        (COLUMNS.replace("BIGINT>", "STRING>"), ""),
        (f"topic STRING, value STRUCT<{COLUMNS.replace('before ', 'before: ', 1)}>", "value."),
    ],
    ids=["columns", "a struct"],
)
def test_messages_in_columns_are_applied(lab: HistoryLab, columns: str, prefix: str) -> None:
    messages = MessageLab(lab.spark, lab.root)
    messages.begin(columns)

    def row(op: str, lsn: int, before: str, after: str) -> str:
        values = f"{before}, {after}, '{op}', named_struct('lsn', {lsn}), 0L"
        if not prefix:
            return values
        names = ("before", "after", "op", "source", "ts_ms")
        parts = zip(
            names, (before, after, f"'{op}'", f"named_struct('lsn', {lsn})", "0L"), strict=True
        )
        return f"'t', named_struct({', '.join(f'{name!r}, {part}' for name, part in parts)})"

    one, two = "named_struct('id', 1, 'v', 'a')", "named_struct('id', 2, 'v', 'b')"
    nothing = f"CAST(NULL AS {ROW})"
    tombstone = ", ".join(["NULL"] * (2 if prefix else 5))
    for text in (row("c", 1, nothing, one), row("c", 2, nothing, two), tombstone):
        messages.sql(f"INSERT INTO {{messages}} SELECT {text}")
    messages.apply_to("copy")
    messages.sql(f"INSERT INTO {{messages}} SELECT {row('d', 3, one, nothing)}")
    # The table of messages keeps a week, for example. This changes nothing in the source.
    messages.sql("DELETE FROM {messages} WHERE " + f"{prefix}op = 'c'")
    messages.apply_to("copy")
    assert messages.rows("copy") == [(2, "b", 2)]


def test_files_of_messages_are_read_by_a_query(lab: HistoryLab) -> None:
    messages = MessageLab(lab.spark, lab.root)
    (messages.root / "topic").mkdir()
    lines = [value for value in customer_messages()[:UNTIL_TRUNCATE] if value is not None]
    (Path(messages.path("topic")) / "part-0.jsonl").write_text("\n".join(lines))
    query = f"SELECT value FROM text.`{messages.path('topic')}`"
    messages.apply_to("copy", query=query)
    assert messages.held("copy") == customers("before_truncate")


BAD = {
    "{": "it is not a Debezium envelope in JSON",
    '{"op": "c", "after": {"id": "x"}}': "it is not a Debezium envelope in JSON",
    '{"status": "BEGIN"}': "its op is NULL",
    message("x", 1, id=1): "its op is x",
    message("u", 1): "its after is NULL",
    message("d", 1): "its before is NULL",
    message("c", None, id=1): "its sequence is NULL",
    message("c", 1, v="a"): "its key column id is NULL",
    message("c", 1, id=1, more=2): "it has a column more, which payload_schema lacks",
}


def test_bad_messages_are_refused_or_quarantined(messages: MessageLab) -> None:
    given = {"payload_schema": "id INT, v STRING", "sequence_by": "source.lsn"}
    messages.write(*BAD, message("c", 2, id=2, v="b"))
    with pytest.raises(InvalidRequest, match="cannot take an event, nothing was written"):
        messages.apply_to("copy", **given)
    assert messages.rows("copy") == []
    found = messages.apply_to("copy", on_null="quarantine", **given)
    assert found is not None
    assert found.statements[-1].metrics["eventsQuarantined"] == len(BAD)
    assert messages.rows("copy") == [(2, "b", 2)]
    memory = messages.spark.table(messages.name("copy/_cdc/memory"))
    assert sorted(row["_cdc_reason"] for row in memory.collect()) == sorted(BAD.values())


WRONG = {
    "d DATE": 1709210096123,
    "at TIMESTAMP": 1709210096123456,
    "at TIMESTAMP_NTZ": "2024-01-01T12:00:00+02:00",
    "n DECIMAL(5, 2)": "1.999",
    "n DECIMAL(4, 1)": 1234567,
    "i TINYINT": 200,
}


def read(spark: SparkSession, columns: str, value: str) -> Row:
    """The change in one message without a schema."""
    rows = spark.createDataFrame([Row(value=value)], "value STRING")
    known = declared_columns(spark, "a test", columns)
    found = decoded(rows, PayloadOptions(), "a test", schema=lambda: known).first()
    assert found is not None
    return found


def test_values_that_a_declared_type_does_not_have_are_bad(spark: SparkSession) -> None:
    for column, value in WRONG.items():
        name = column.split()[0]
        found = read(spark, f"id INT, {column}", message("c", 1, id=1, **{name: value}))
        assert found[name] is None
        assert found[FAULT].startswith(f"its {name} is wrong: expected a value of")
        assert str(value) in found[FAULT]


def test_declared_values_are_read_exactly(spark: SparkSession) -> None:
    columns = (
        "id INT, n DECIMAL(30, 5), text DECIMAL(30, 5), days DATE, day DATE, at TIMESTAMP_NTZ,"
        " tags ARRAY<STRING>, i SMALLINT"
    )
    values = (
        '"n": 1234567890123456789012345.12345, "text": "-0.5", "days": 19782, "day": "2024-02-29",'
        ' "at": "2024-02-29T12:34:56.123456Z", "tags": ["a", null], "i": -7'
    )
    value = message("c", 1, id=1).replace('"id": 1', f'"id": 1, {values}')
    row = read(spark, columns, value).asDict()
    leap_day = date(2024, 2, 29)
    assert row == {
        "id": 1,
        "n": Decimal("1234567890123456789012345.12345"),
        "text": Decimal("-0.50000"),
        "days": leap_day,
        "day": leap_day,
        "at": datetime(2024, 2, 29, 12, 34, 56, 123456),
        "tags": ["a", None],
        "i": -7,
        CHANGE: "c",
        POSITION: 1,
        FAULT: None,
    }


@pytest.mark.thorough
def test_batch_of_tombstones_changes_nothing(messages: MessageLab) -> None:
    messages.write(None)
    with pytest.raises(InvalidRequest, match="cannot be created yet"):
        messages.apply_to("copy", payload_schema="id INT, v STRING")
    messages.write(message("c", 1, id=1, v="a"))
    messages.apply_to("copy", payload_schema="id INT, v STRING")
    messages.write(None)
    assert messages.apply_to("copy") is not None
    assert messages.rows("copy") == [(1, "a", 1)]


def with_schema(columns: dict[str, Any], lsn: int, row: dict[str, Any], name: str = "t") -> str:
    """A message with the schema of a table ``name``."""
    fields = [{"field": each, **kind} for each, kind in columns.items()]
    sides = [{"type": "struct", "field": side, "fields": fields} for side in ("before", "after")]
    payload = json.loads(message("c", lsn, **row))
    schema = {"type": "struct", "name": f"{name}.Envelope", "fields": sides}
    return json.dumps({"schema": schema, "payload": payload})


DECIMAL = "org.apache.kafka.connect.data.Decimal"


def decimal(scale: int) -> dict[str, Any]:
    parameters = {"scale": str(scale), "connect.decimal.precision": "10"}
    return {"type": "bytes", "name": DECIMAL, "parameters": parameters}


INTEGER = {"type": "int32"}


def test_column_without_a_schema_among_messages_with_one_is_bad(messages: MessageLab) -> None:
    marker = '{"schema": {"type": "struct", "fields": [{"field": "op", "type": "string"}]},'
    marker += ' "payload": {"op": "m", "ts_ms": 1}}'
    messages.write(
        marker, with_schema({"id": INTEGER}, 1, {"id": 1}), message("c", 2, id=2, extra="x")
    )
    with pytest.raises(InvalidRequest, match="it has a column extra"):
        messages.apply_to("copy")


def test_scale_that_grew_is_not_rounded(messages: MessageLab) -> None:
    for scale, number in ((2, 1), (4, 2)):
        columns = {"id": INTEGER, "n": decimal(scale)}
        messages.write(with_schema(columns, number, {"id": number, "n": "ANI="}))
        if scale == 2:
            messages.apply_to("copy")
    with pytest.raises(InvalidRequest, match=r"n has room for fewer digits than 0\.0210"):
        messages.apply_to("copy")
    assert [(row[0], str(row[1])) for row in messages.rows("copy")] == [(1, "2.10")]


def test_message_that_arrives_during_a_query_waits_for_the_next(
    messages: MessageLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, others = debezium_messages._found_in, iter([True])

    def look_then_write(rows: Any) -> Any:
        found = look(rows)
        if next(others, False):
            columns = {"id": INTEGER, "n": decimal(4), "v": {"type": "string"}}
            messages.write(with_schema(columns, 2, {"id": 2, "n": "MDk=", "v": "late"}))
        return found

    monkeypatch.setattr(debezium_messages, "_found_in", look_then_write)
    query = f"SELECT value FROM {messages.name('messages')}"
    messages.write(with_schema({"id": INTEGER}, 1, {"id": 1}))
    messages.apply_to("copy", query=query)
    messages.apply_to("copy", query=query)
    found = {row["id"]: (row["n"], row["v"]) for row in messages.held("copy").values()}
    assert found == {1: (None, None), 2: (Decimal("1.2345"), "late")}


def test_sources_without_messages_are_refused(messages: MessageLab) -> None:
    messages.write(message("c", 1, id=1))
    with pytest.raises(InvalidRequest, match="pass payload_schema"):
        messages.apply_to("copy")
    with pytest.raises(InvalidRequest, match="has a source without Debezium messages"):
        messages.apply_to("copy", query="SELECT 1 AS id, 'a' AS v")
    other = message("c", 1, id=1).replace("postgresql", "mongodb")
    with pytest.raises(InvalidRequest, match="pass sequence_by"):
        messages.apply_to("copy", query=f"SELECT '{other}' AS value", payload_schema="id INT")
    with pytest.raises(InvalidRequest, match="cannot use this sequence_by"):
        messages.apply_to("copy", payload_schema="id INT", sequence_by="after.nothing")


def test_truncate_is_refused_if_deletes_are_rows(messages: MessageLab) -> None:
    messages.write(message("c", 1, id=1), message("t", 2))
    with pytest.raises(InvalidRequest, match=r"which deleted='row' cannot show\. Fix"):
        messages.apply_to("history", scd_type=2, deleted="row", payload_schema="id INT, v STRING")
