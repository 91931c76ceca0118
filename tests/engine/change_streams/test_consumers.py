"""Consumers of change streams read partition by partition, each record once."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from change_stream_lab import ChangeStreamLab
from pyspark.sql import DataFrame
from stream_lab import Crash

from airflow_provider_cdc.engine import (
    InvalidRequest,
    InvalidStatement,
    StatementFailed,
    TableNotFound,
    Watch,
)
from airflow_provider_cdc.engine.core.change_streams.consumer import ConsumerState

BY_ID = {"src": Watch(keys=["id"])}
INSERT = (
    "INSERT INTO {copy} SELECT server_transaction_id, record_sequence, mod_index, mod_type, keys"
    " FROM mods"
)
MERGE_MANY = (
    "MERGE INTO {{src}} t USING (SELECT CAST(id AS INT) id FROM range(0, 40)) s ON t.id = s.id"
    " WHEN MATCHED AND t.id % 3 = {} THEN DELETE WHEN MATCHED THEN UPDATE SET n = t.n + 1"
    " WHEN NOT MATCHED THEN INSERT (id, v, n) VALUES (s.id, 'x', 0)"
)


@pytest.fixture
def copies(lab: ChangeStreamLab) -> ChangeStreamLab:
    lab.make("copy", "t STRING, s STRING, i INT, kind STRING, k STRING")
    return lab


def read_all(lab: ChangeStreamLab) -> None:
    """Read what is ready until nothing is."""
    while ready := lab.ready("run"):
        reads = lab.engine.list_partitions("cs", "c", holder="run")
        assert len(reads) == ready
        for read in reads:
            lab.engine.consume_partition("cs", "c", read.partition_token, lab.text(INSERT))
        lab.engine.settle_partitions("cs", "c", holder="run")
    assert lab.engine.list_partitions("cs", "c", holder="run") == []


def captured(lab: ChangeStreamLab) -> Counter[Any]:
    return Counter(
        (row.server_transaction_id, row.record_sequence, index, row.mod_type, mod["keys"])
        for row in lab.records()
        for index, mod in enumerate(row.mods)
    )


def test_consumer_reads_each_record_once_over_splits_and_merges(copies: ChangeStreamLab) -> None:
    lab, chance = copies, random.Random(3)
    lab.create(BY_ID, partitions=2)
    for step in range(3):
        lab.sql(MERGE_MANY.format(step))
        (stream,) = lab.engine.list_change_streams()
        token_of, found = stream.token_key.token, stream.layout.open
        if step == 1:
            lab.engine.merge_partitions("cs", [token_of(each) for each in found[:2]])
        else:
            lab.engine.split_partition("cs", token_of(chance.choice(found)))
        lab.advance()
        read_all(lab)

    assert Counter(lab.rows("copy")) == captured(lab)
    progress = lab.engine.settle_partitions("cs", "c", holder="run")
    (stream,) = lab.engine.list_change_streams()
    assert (progress.waiting, progress.partitions) == (0, len(stream.layout.open))


def test_read_that_crashed_after_its_statement_is_not_applied_twice(
    copies: ChangeStreamLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = copies
    lab.create(BY_ID)
    lab.sql("INSERT INTO {src} VALUES (3, 'c', 30)")
    lab.advance()
    (read,) = lab.engine.list_partitions("cs", "c", holder="run")

    def crash(*_: Any) -> None:
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(ConsumerState, "done", crash)
        with pytest.raises(Crash):
            lab.engine.consume_partition("cs", "c", read.partition_token, lab.text(INSERT))
    lab.sql("INSERT INTO {src} VALUES (4, 'd', 40)")
    lab.advance()
    # Its lease keeps it from other runs.
    assert (lab.ready("run"), lab.ready("other")) == (1, 0)
    assert lab.engine.list_partitions("cs", "c", holder="other") == []
    read_all(lab)

    assert [row[-1] for row in lab.rows("copy")] == ['{"id":"3"}', '{"id":"4"}']


def test_function_that_fails_gets_the_same_records_again(lab: ChangeStreamLab) -> None:
    lab.create(BY_ID)
    lab.sql("INSERT INTO {src} VALUES (3, 'c', 30)")
    lab.advance()
    (read,) = lab.engine.list_partitions("cs", "c")
    seen = []

    def work(records: DataFrame, given: Any) -> None:
        seen.append((records.count(), given))
        if len(seen) == 1:
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        lab.engine.process_partition("cs", "c", read.partition_token, work)
    lab.engine.process_partition("cs", "c", read.partition_token, work)

    assert seen == [(1, read), (1, read)]
    assert lab.engine.list_partitions("cs", "c") == []


def test_consumer_with_an_end_is_complete_there(copies: ChangeStreamLab) -> None:
    lab = copies
    lab.create(BY_ID)
    lab.sql("INSERT INTO {src} VALUES (3, 'c', 30)", "INSERT INTO {src} VALUES (4, 'd', 40)")
    lab.advance()
    end = lab.records()[0].commit_timestamp
    (read,) = lab.engine.list_partitions("cs", "c", end_timestamp=end)
    lab.engine.consume_partition("cs", "c", read.partition_token, lab.text(INSERT))

    assert lab.engine.settle_partitions("cs", "c").is_complete
    assert lab.engine.list_partitions("cs", "c") == []
    assert [row[-1] for row in lab.rows("copy")] == ['{"id":"3"}']


def test_reads_that_make_no_sense_are_refused(copies: ChangeStreamLab) -> None:
    lab = copies
    stream = lab.create(BY_ID)
    (token,) = lab.tokens(stream.created)
    for statement, kind, text in (
        ("SELECT * FROM mods", InvalidStatement, "SELECT"),
        ("INSERT INTO {copy} SELECT 1, 2, 3, 4, 5", InvalidStatement, "reads no records"),
        ("CREATE TABLE x AS SELECT * FROM mods", InvalidStatement, "creates a table"),
        ("INSERT INTO {missing} SELECT * FROM mods", TableNotFound, "missing"),
        (INSERT, InvalidRequest, "has not begun"),
    ):
        with pytest.raises(kind, match=text):
            lab.engine.consume_partition("cs", "c", token, lab.text(statement))
    lab.ready("run")
    with pytest.raises(InvalidRequest, match="has not begun"):
        lab.engine.settle_partitions("cs", "c")


def test_statement_that_fails_leaves_the_partition_to_the_next_reader(
    copies: ChangeStreamLab,
) -> None:
    lab = copies
    lab.create(BY_ID)
    lab.sql("INSERT INTO {src} VALUES (3, 'c', 30)")
    lab.advance()
    (read,) = lab.engine.list_partitions("cs", "c")
    for statement, kind, text in (
        (INSERT.replace("mod_type", "no_such_column"), InvalidStatement, "no_such_column"),
        (INSERT.replace("mod_type", "raise_error('not now')"), StatementFailed, "not now"),
    ):
        with pytest.raises(kind, match=text):
            lab.engine.consume_partition("cs", "c", read.partition_token, lab.text(statement))
    lab.engine.consume_partition("cs", "c", read.partition_token, lab.text(INSERT))

    assert [row[-1] for row in lab.rows("copy")] == ['{"id":"3"}']
