"""Queries of change streams: partitions, tokens, heartbeats and bounds."""

from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from change_stream_lab import ChangeStreamLab, children, elements, moment, next_moment
from pyspark.sql import Row
from pyspark.sql.types import StructType

from airflow_provider_cdc.engine import InvalidPartitionToken, InvalidRange, InvalidRequest, Watch
from airflow_provider_cdc.engine.core.change_streams.stamps import moment_of
from airflow_provider_cdc.engine.spark.change_streams.records import CHANGE_RECORD

BY_ID = {"src": Watch(keys=["id"])}
MANY = "INSERT INTO {src} SELECT CAST(id AS INT), 'x', id FROM range(100, 140)"


def record_ids(rows: list[Row]) -> Counter[Any]:
    return Counter(
        (moment(row), row.server_transaction_id, row.record_sequence, tuple(row.mods))
        for row in rows
    )


def test_query_returns_rows_of_the_documented_type(lab: ChangeStreamLab) -> None:
    stream = lab.create(BY_ID)

    rows = lab.engine.read_change_stream("cs", stream.created)

    assert rows.schema == StructType.fromDDL(f"ChangeRecord {CHANGE_RECORD}")


def test_first_query_returns_the_partitions_without_parents(lab: ChangeStreamLab) -> None:
    stream = lab.create(BY_ID, partitions=3)
    start = stream.created

    (row,) = lab.read(start)

    (record,) = row.child_partitions_record
    assert record.start_timestamp.astimezone(start.tzinfo) == start
    assert record.record_sequence == "00000001"
    assert [child.parent_partition_tokens for child in record.child_partitions] == [[None]] * 3


def test_partitions_together_return_each_record_once(lab: ChangeStreamLab) -> None:
    stream = lab.create(BY_ID, partitions=4)
    lab.sql(MANY, "UPDATE {src} SET n = n + 1 WHERE id > 120")
    lab.advance()

    walked = [
        (token, row.data_change_record[0])
        for token in lab.tokens(stream.created)
        for row in lab.read(stream.created, partition_token=token)
        if row.data_change_record
    ]

    records = [row for _, row in walked]
    assert record_ids(records) == record_ids(lab.records())
    # Hashes of the table's location spread the keys: a partition may hold none of the second
    # transaction.
    partitions = {
        row.server_transaction_id: {
            token
            for token, other in walked
            if other.server_transaction_id == row.server_transaction_id
        }
        for row in records
    }
    assert len(partitions) == 2
    for row in records:
        found = len(partitions[row.server_transaction_id])
        assert row.number_of_partitions_in_transaction == found > 1
        assert row.number_of_records_in_transaction == found
        assert row.is_last_record_in_transaction_in_partition
    assert sum(len(row.mods) for row in records) == 40 + 19


def test_partition_that_stays_open_ends_with_a_heartbeat(lab: ChangeStreamLab) -> None:
    stream = lab.create(BY_ID)
    lab.sql(MANY)
    advanced = lab.advance()
    (token,) = lab.tokens(stream.created)

    data, heartbeat = lab.read(stream.created, partition_token=token)

    assert data.data_change_record is not None
    (beat,) = heartbeat.heartbeat_record
    assert beat.timestamp.astimezone(stream_zone()) == moment_of(advanced.captured)
    assert lab.read(next_moment(moment_of(advanced.captured)), partition_token=token) == []


def stream_zone() -> Any:
    return moment_of(0).tzinfo


def test_records_on_the_bounds_of_a_query_are_returned(lab: ChangeStreamLab) -> None:
    stream = lab.create(BY_ID)
    for key in (3, 4, 5):
        lab.sql(f"INSERT INTO {{src}} VALUES ({key}, 'x', 0)")
    lab.advance()
    (token,) = lab.tokens(stream.created)
    times = [moment(row) for row in lab.records()]

    def keys(start: Any, end: Any) -> list[str]:
        rows = lab.read(start, end, token)
        found = [row.data_change_record[0] for row in rows if row.data_change_record]
        return [each.mods[0]["keys"] for each in found]

    assert keys(times[0], times[2]) == ['{"id":"3"}', '{"id":"4"}', '{"id":"5"}']
    assert keys(times[1], times[1]) == ['{"id":"4"}']
    assert keys(next_moment(times[0]), times[2] - timedelta(microseconds=1)) == ['{"id":"4"}']


def test_both_parents_of_a_merge_return_the_same_child(lab: ChangeStreamLab) -> None:
    stream = lab.create(BY_ID, partitions=2)
    start = stream.created
    one, other = lab.tokens(start)
    lab.sql(MANY)
    lab.engine.merge_partitions("cs", [other, one])
    lab.sql("DELETE FROM {src} WHERE id >= 100")
    lab.advance()

    ends = [lab.read(start, partition_token=token)[-1] for token in (one, other)]

    assert ends[0] == ends[1]
    (child,) = children(ends[0])
    assert child.parent_partition_tokens == [one, other]
    (record,) = ends[0].child_partitions_record
    (begun, *_) = lab.read(record.start_timestamp, partition_token=child.token)
    assert begun.data_change_record[0].mod_type == "DELETE"
    # Its first moment is not in its parents.
    assert record_ids(lab.walk(start)) == record_ids(lab.records())


def test_walk_over_splits_and_merges_returns_each_record_once(lab: ChangeStreamLab) -> None:
    chance = random.Random(5)
    stream = lab.create(BY_ID, partitions=2)
    start = stream.created
    for _ in range(4):
        lab.sql(
            f"MERGE INTO {{src}} t USING (SELECT CAST(id AS INT) id FROM range(0, 60)) s"
            f" ON t.id = s.id WHEN MATCHED AND t.id % 3 = {chance.randrange(3)} THEN DELETE"
            " WHEN MATCHED THEN UPDATE SET n = t.n + 1"
            " WHEN NOT MATCHED THEN INSERT (id, v, n) VALUES (s.id, 'x', 0)"
        )
        token_of = lab.engine.list_change_streams()[0].token_key.token
        found = lab.engine.list_change_streams()[0].layout.open
        if chance.random() < 0.5:
            lab.engine.split_partition("cs", token_of(chance.choice(found)))
        else:
            place = chance.randrange(len(found) - 1)
            lab.engine.merge_partitions("cs", [token_of(each) for each in found[place : place + 2]])
    lab.advance()

    walked = lab.walk(start)

    assert record_ids(walked) == record_ids(lab.records())
    by_key: dict[str, list[Any]] = {}
    for row in walked:
        for mod in row.mods:
            by_key.setdefault(mod["keys"], []).append(moment(row))
    assert all(times == sorted(times) for times in by_key.values())


def test_query_out_of_bounds_is_refused(lab: ChangeStreamLab) -> None:
    stream = lab.create(BY_ID)
    start = stream.created
    (token,) = lab.tokens(start)
    before, tomorrow = start - timedelta(microseconds=1), start + timedelta(days=1)

    for arguments, kind, text in (
        ((before,), InvalidRange, "before the change stream was created"),
        ((tomorrow,), InvalidRange, "in the future"),
        ((start, before), InvalidRange, "end before its start"),
        ((start, None, None, 999), InvalidRequest, "expected 1000 to 300000"),
        ((start, None, None, 300_001), InvalidRequest, "expected 1000 to 300000"),
        ((start, None, "abc"), InvalidPartitionToken, "not a partition token"),
        (
            (start, None, token[:8] + "xx" + token[10:]),
            InvalidPartitionToken,
            "another change stream",
        ),
        (("2026-01-01 00:00:00",), InvalidRange, "offset"),
    ):
        with pytest.raises(kind, match=text):
            lab.read(*arguments)


def test_long_transaction_has_records_of_a_thousand_rows(lab: ChangeStreamLab) -> None:
    lab.create(BY_ID, partitions=2)
    lab.sql("INSERT INTO {src} SELECT CAST(id AS INT), 'x', id FROM range(10, 5010)")
    lab.advance()

    rows = lab.records()

    assert len(rows) == 6
    assert all(900 < len(row.mods) <= 1000 for row in (*rows[:2], *rows[3:5]))
    assert [int(row.record_sequence) for row in rows] == list(range(6))
    assert {row.number_of_records_in_transaction for row in rows} == {6}
    assert {row.number_of_partitions_in_transaction for row in rows} == {2}
    lasts = [row.is_last_record_in_transaction_in_partition for row in rows]
    assert lasts == [False, False, True] * 2
    keys = {mod["keys"] for row in rows for mod in row.mods}
    assert len(keys) == 5000


def test_query_in_sql_returns_what_the_call_returns(lab: ChangeStreamLab) -> None:
    stream = lab.create(BY_ID)
    lab.sql(MANY)
    lab.advance()
    (token,) = lab.tokens(stream.created)
    query = (
        "SELECT ChangeRecord FROM READ_cs(start_timestamp => @start, partition_token => @token,"
        " heartbeat_milliseconds => 10000)"
    )

    given = {"start": stream.created, "token": token}

    found = elements(lab.engine.query_change_stream(query, given))
    assert found == lab.read(stream.created, partition_token=token)
