"""Whatever is killed before whichever of its writes, each record is captured and processed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from change_stream_lab import ChangeStreamLab
from pyspark.sql import SparkSession
from pyspark.sql.readwriter import DataFrameWriter
from stream_lab import Crash

from airflow_provider_cdc.engine import Watch
from airflow_provider_cdc.engine.storage.files.stores import Files

BY_ID = {"src": Watch(keys=["id"])}
WRITES = ("INSERT", "UPDATE", "DELETE", "MERGE", "CREATE", "OPTIMIZE", "VACUUM")
INSERT = (
    "INSERT INTO {copy} SELECT server_transaction_id, record_sequence, mod_index, keys FROM mods"
)


@contextmanager
def killed_before(number: int) -> Iterator[None]:
    """Crash before the write of that number, of the state or of a table."""
    writes = count(1)

    def counted(write: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *arguments: Any, **given: Any) -> Any:
            is_write = write is not sql or str(arguments[0]).lstrip().upper().startswith(WRITES)
            if is_write and next(writes) == number:
                raise Crash
            return write(self, *arguments, **given)

        return call

    sql = SparkSession.sql
    with pytest.MonkeyPatch.context() as patched:
        for owner, name in (
            (Files, "claim"),
            (Files, "create"),
            (Files, "write"),
            (DataFrameWriter, "save"),
            (SparkSession, "sql"),
        ):
            patched.setattr(owner, name, counted(getattr(owner, name)))
        yield


def until_it_lives(work: Callable[[int], None]) -> int:
    """Kill ``work`` before its first write, then before its second one, until it ends, and return
    how often it was killed. Each one finds what those before it have left.
    """
    for number in count(1):
        try:
            work(number)
        except Crash:
            continue
        return number - 1
    raise AssertionError


def restarted(lab: ChangeStreamLab) -> None:
    lab.__post_init__()


def test_advance_killed_before_each_write_captures_each_change_once(lab: ChangeStreamLab) -> None:
    start = lab.create(BY_ID, partitions=2).created

    def advance(number: int) -> None:
        # The next one has more to seal than this one.
        lab.sql(f"INSERT INTO {{src}} SELECT CAST(id + {10 * number} AS INT), 'x', 0 FROM range(4)")
        restarted(lab)
        with killed_before(number):
            if number % 3 == 0:
                lab.engine.split_partition("cs", lab.tokens(lab.now())[0])
            lab.advance()

    kills = until_it_lives(advance)

    assert kills >= 5
    written = {
        f'{{"id":"{10 * number + place}"}}' for number in range(1, kills + 2) for place in range(4)
    }
    mods = Counter(mod["keys"] for row in lab.records() for mod in row.mods)
    assert mods == dict.fromkeys(written, 1)
    walked = lab.walk(start)
    assert sorted(row.record_sequence for row in walked) == sorted(
        row.record_sequence for row in lab.records()
    )
    found = Counter(row.server_transaction_id for row in walked)
    assert all(
        row.number_of_records_in_transaction == found[row.server_transaction_id] for row in walked
    )


def test_reader_killed_before_each_write_processes_each_record_once(lab: ChangeStreamLab) -> None:
    lab.make("copy", "t STRING, s STRING, i INT, k STRING")
    start = lab.create(BY_ID).created
    lab.sql("INSERT INTO {src} SELECT CAST(id AS INT), 'x', id FROM range(10, 20)")
    lab.engine.split_partition("cs", lab.tokens(start)[0])
    lab.sql("UPDATE {src} SET n = n + 1")
    lab.advance()

    def read(number: int) -> None:
        restarted(lab)
        with killed_before(number):
            # One that was killed has no answer, and a holder gets its own partitions again.
            while reads := lab.engine.list_partitions("cs", "c", holder="run"):
                for each in reads:
                    lab.engine.consume_partition("cs", "c", each.partition_token, lab.text(INSERT))
            lab.engine.settle_partitions("cs", "c", holder="run")

    kills = until_it_lives(read)

    assert kills >= 5
    assert Counter(lab.rows("copy")) == Counter(
        (row.server_transaction_id, row.record_sequence, index, mod["keys"])
        for row in lab.records()
        for index, mod in enumerate(row.mods)
    )
    assert lab.engine.settle_partitions("cs", "c").waiting == 0
