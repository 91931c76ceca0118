"""Records whose time runs out while they are read, and commits whose times go back."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from change_stream_lab import ChangeStreamLab, moment, next_moment
from pyspark.sql import DataFrame, Row

from airflow_provider_cdc.engine import InvalidRange, PartitionRead, StreamStale, Watch

BY_ID = {"src": Watch(keys=["id"])}
DAY = timedelta(days=1)


def keys(rows: list[Row]) -> list[str]:
    """The keys of the data change records that a query returned."""
    data = [row.data_change_record[0] for row in rows if row.data_change_record]
    return [mod["keys"] for row in data for mod in row.mods]


def written(lab: ChangeStreamLab, key: int, at: datetime) -> None:
    """Write a row by a commit of that time, and advance."""
    lab.sql(f"INSERT INTO {{src}} VALUES ({key}, 'x', 0)")
    committed_at(lab, "src", at)
    lab.advance()


def committed_at(lab: ChangeStreamLab, table: str, at: datetime) -> None:
    """Let the newest commit of a table have a time, as a clock of its writer would show it."""
    log = Path(lab.path(table), "_delta_log", f"{lab.version(table):020d}.json")
    os.utime(log, (at.timestamp(), at.timestamp()))


@pytest.fixture
def half_old(lab: ChangeStreamLab) -> ChangeStreamLab:
    """Two records: one is removed when the clock goes on by an hour, and the other one stays."""
    lab.stopped = datetime(2030, 1, 1, tzinfo=UTC)
    lab.create(BY_ID)
    lab.stopped += timedelta(hours=1)
    written(lab, 3, lab.stopped)
    lab.stopped += timedelta(hours=20)
    written(lab, 4, lab.stopped)
    lab.stopped += timedelta(hours=3, minutes=59)
    return lab


def let_the_first_expire(lab: ChangeStreamLab) -> None:
    assert lab.stopped is not None
    lab.stopped += timedelta(hours=4)
    lab.advance()


def test_function_whose_records_expire_meanwhile_is_not_done(half_old: ChangeStreamLab) -> None:
    lab = half_old
    (read,) = lab.engine.list_partitions("cs", "c")
    seen: list[int] = []

    def work(records: DataFrame, _: PartitionRead) -> None:
        let_the_first_expire(lab)
        seen.append(records.count())

    try:
        lab.engine.process_partition("cs", "c", read.partition_token, work)
    except StreamStale:
        pass
    else:
        # It got all of its records, or an error.
        assert seen == [2]


def test_query_whose_records_expire_meanwhile_returns_all_or_fails(
    half_old: ChangeStreamLab,
) -> None:
    lab = half_old
    start = lab.records()[0].commit_timestamp
    (token,) = lab.tokens(start)
    rows = lab.engine.read_change_stream("cs", start, None, token)
    let_the_first_expire(lab)

    try:
        found = len(rows.collect())
    except Exception:  # Spark reports removed files by a class of its own
        found = 3
    # Two records and a heartbeat.
    assert found == 3


def test_reader_that_goes_on_after_its_records_expired_is_refused(
    half_old: ChangeStreamLab,
) -> None:
    lab = half_old
    start = lab.records()[0].commit_timestamp
    (token,) = lab.tokens(start)
    (read,) = lab.engine.list_partitions("cs", "c", end_timestamp=start)
    read_before = lab.read(start, partition_token=token)
    let_the_first_expire(lab)

    assert keys(read_before) == ['{"id":"3"}', '{"id":"4"}']
    for again in (lambda: lab.read(start, partition_token=token), lambda: lab.records(start)):
        with pytest.raises(InvalidRange, match="no longer kept"):
            again()
    for call in (
        lambda: lab.engine.process_partition("cs", "c", read.partition_token, lambda *_: None),
        lambda: lab.engine.list_partitions("cs", "c"),
    ):
        with pytest.raises(StreamStale, match="did not read records of cs in time"):
            call()
    # What is kept can be read on, and a new consumer begins there.
    assert keys(lab.read(lab.records()[0].commit_timestamp, partition_token=token)) == [
        '{"id":"4"}'
    ]
    (fresh,) = lab.engine.list_partitions("cs", "another")
    assert fresh.partition_token == token


def test_two_readers_with_one_token_get_the_same_rows(lab: ChangeStreamLab) -> None:
    start = lab.create(BY_ID).created
    lab.sql("INSERT INTO {src} SELECT CAST(id AS INT), 'x', id FROM range(10, 20)")
    lab.sql("UPDATE {src} SET n = n + 1 WHERE id > 15", "DELETE FROM {src} WHERE id = 12")
    (token,) = lab.tokens(start)
    lab.engine.split_partition("cs", token)
    lab.advance()
    one = lab.read(start, partition_token=token)
    lab.sql("DELETE FROM {src} WHERE id = 13")
    lab.advance()

    # A partition that ended does not change, and neither does what was captured of an open one.
    assert lab.read(start, partition_token=token) == one
    found: list[Any] = []
    (read, *_) = lab.engine.list_partitions("cs", "c", holder="one")
    assert lab.engine.list_partitions("cs", "c", holder="two") == []
    for _ in range(2):
        with pytest.raises(ValueError, match="again"):
            lab.engine.process_partition("cs", "c", read.partition_token, failing(found))
    assert found[0] == found[1] != []
    assert {name for name, _ in found[0]} == {
        row.data_change_record[0].server_transaction_id for row in one if row.data_change_record
    }


def failing(found: list[Any]) -> Any:
    def work(records: DataFrame, _: PartitionRead) -> None:
        rows = records.select("server_transaction_id", "record_sequence").collect()
        found.append(sorted(map(tuple, rows)))
        raise ValueError("again")

    return work


def test_commits_with_equal_and_backward_times_are_read_once(lab: ChangeStreamLab) -> None:
    lab.make("other", "id INT, v STRING", properties="'delta.enableRowTracking' = 'true'")
    lab.stopped = datetime(2030, 1, 1, 12, tzinfo=UTC)
    stream = lab.create({"src": Watch(["id"]), "other": Watch(["id"])})
    (token,) = lab.tokens(stream.created)
    start, read = stream.created, []
    noon = lab.stopped
    # The times of the writers of both tables, and the time at which the change stream is advanced.
    for number, (here, there, now) in enumerate(
        (
            (noon + DAY / 4, noon + DAY / 4, noon + DAY / 4),
            # Both after what was promised, in time before it.
            (noon - DAY, noon + timedelta(microseconds=1), noon + DAY / 4),
            # A clock that is fast, and then one that is right again.
            (noon + DAY / 2, noon + DAY / 3, noon + DAY / 3),
            (noon + DAY / 3, noon + DAY / 3, noon + DAY / 3),
        ),
        start=10,
    ):
        lab.sql(f"INSERT INTO {{src}} VALUES ({number}, 'x', 0)")
        lab.sql(f"INSERT INTO {{other}} VALUES ({number}, 'y')")
        committed_at(lab, "src", here)
        committed_at(lab, "other", there)
        lab.stopped = now
        lab.advance()
        lab.stopped = max(now, start)
        *data, beat = lab.read(start, partition_token=token)
        rows = [row.data_change_record[0] for row in data]
        last = beat.heartbeat_record[0].timestamp.astimezone(UTC)
        assert all(start <= moment(row) <= last for row in rows)
        assert [(row.table_name, json_key(row)) for row in rows] in orders(lab, number)
        read += rows
        start = next_moment(last)

    moments = [moment(row) for row in read]
    assert moments == sorted(set(moments))
    assert len(read) == 8
    lab.stopped += DAY / 2
    assert lab.records() == read


def json_key(row: Row) -> str:
    ((keys, _, _),) = row.mods
    return str(keys)


def orders(lab: ChangeStreamLab, number: int) -> list[list[tuple[str, str]]]:
    """A commit to each of both tables, in both orders."""
    key = f'{{"id":"{number}"}}'
    both = [(lab.path("src"), key), (lab.path("other"), key)]
    return [both, both[::-1]]


def test_reader_goes_on_after_the_heartbeat_of_a_fast_clock(lab: ChangeStreamLab) -> None:
    lab.stopped = datetime(2030, 1, 1, 12, tzinfo=UTC)
    start = lab.create(BY_ID).created
    (token,) = lab.tokens(start)
    # The clock of the writer is a minute ahead.
    written(lab, 3, lab.stopped + timedelta(minutes=1))
    lab.engine.split_partition("cs", token)
    written(lab, 4, lab.stopped)

    assert keys(lab.read(start, partition_token=token)) == ['{"id":"3"}']
    # All of it is captured, so a reader that follows the heartbeats and children gets it.
    found = lab.walk(start)
    assert [json_key(row) for row in found] == ['{"id":"3"}', '{"id":"4"}']
    assert lab.read(next_moment(moment(found[0])), partition_token=token)
