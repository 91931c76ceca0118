"""What a change stream does without Spark: seal new commits, and hand out its partitions."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import reduce
from itertools import count
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_provider_cdc.engine import Engine, Watch
from airflow_provider_cdc.engine.catalog.change_stream_catalog import ChangeStreamCatalog
from airflow_provider_cdc.engine.clock import utc_now
from airflow_provider_cdc.engine.core.change_streams.consumer import ConsumerState
from airflow_provider_cdc.engine.core.change_streams.definition import ChangeStream
from airflow_provider_cdc.engine.core.change_streams.layout import Partition
from airflow_provider_cdc.engine.core.change_streams.stamps import stamp_of
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.registry.registry import Registry
from airflow_provider_cdc.engine.storage.sources.commit_clock import CommitClock
from airflow_provider_cdc.engine.storage.state.change_stream_consumers import (
    ChangeStreamConsumers,
)
from airflow_provider_cdc.engine.storage.state.change_streams import ChangeStreams

from .results import Row
from .tables import ROW_TRACKING, Workshop, create_table
from .timing import Patience, timed_without_spark

TABLES = 20
PARTITIONS = 1_024
# So many that each partition has some, with the hash of their keys.
ROWS = 20_000
ROUNDS = 9
SMALL_ROUNDS = 2
TICK_OF = f"change stream on {TABLES} tables, one new commit each"
TICK = "seal the commits"
LIST_OF = f"{PARTITIONS:,} open partitions, each with new records"
LIST_NEW = "list_partitions, new consumer"
LIST_KNOWN = "list_partitions, known consumer"
_NAME = "cs"


def ticks(spark: SparkSession, workshop: Workshop, patience: Patience) -> Iterator[Row]:
    """Seal one new commit of each of several tables."""
    root = workshop.new_folder()
    names = [
        create_table(spark, root / f"t{number}", "id BIGINT, n BIGINT", {ROW_TRACKING: True})
        for number in range(TABLES)
    ]
    watches = {str(root / f"t{number}"): Watch(["id"]) for number in range(TABLES)}
    state = str(root / "state")
    Engine(spark, state).create_change_stream(_NAME, watches)
    streams, commits = ChangeStreams(state, Files()), CommitClock(Files(), Registry(state))

    def commit() -> None:
        # As after a capture, which would take longer than all ticks.
        streams.update(_NAME, lambda known: known.after_capture(known.through))
        for name in names:
            spark.sql(f"INSERT INTO {name} VALUES (1, 1)")

    def tick() -> None:
        now = stamp_of(utc_now())
        found = streams.update(_NAME, lambda known: known.ticked(commits.new_commits(known), now))
        if len(found.pending) != TABLES:
            raise AssertionError(f"{len(found.pending)} sealed commits, not {TABLES}")

    yield Row(TICK_OF, TICK, timed_without_spark(tick, _rounds(patience), prepare=commit))
    shutil.rmtree(root)


def lists(spark: SparkSession, workshop: Workshop, patience: Patience) -> Iterator[Row]:
    """Hand out many partitions: to a consumer that is new, and to one that has read all before."""
    root = workshop.new_folder()
    table = create_table(spark, root / "t", "id BIGINT, n BIGINT", {ROW_TRACKING: True})
    engine = Engine(spark, str(root / "state"))
    engine.create_change_stream(_NAME, {str(root / "t"): Watch(["id"])}, partitions=PARTITIONS)
    catalog, rounds = ChangeStreamCatalog(str(root / "state")), _rounds(patience)

    def capture() -> None:
        spark.sql(f"INSERT INTO {table} SELECT id, id FROM range(0, {ROWS}, 1, 1)")
        engine.advance_change_stream(_NAME)

    def handed_out(consumer: str) -> None:
        found = catalog.list_partitions(_NAME, consumer)
        if len(found) != PARTITIONS:
            raise AssertionError(f"{len(found)} partitions for {consumer}, not {PARTITIONS}")

    def read() -> None:
        _read_all(root, "known")
        capture()

    capture()
    (filled,) = (
        row[0]
        for row in engine.change_records(_NAME)
        .select("number_of_partitions_in_transaction")
        .distinct()
        .collect()
    )
    if filled != PARTITIONS:
        raise AssertionError(f"{filled} partitions have records, not {PARTITIONS}")
    numbers = count()
    new = timed_without_spark(lambda: handed_out(f"new {next(numbers)}"), rounds)
    yield Row(LIST_OF, LIST_NEW, new)
    handed_out("known")
    yield Row(
        LIST_OF, LIST_KNOWN, timed_without_spark(lambda: handed_out("known"), rounds, prepare=read)
    )
    shutil.rmtree(root)


def _read_all(root: Path, consumer: str) -> None:
    """Record that a consumer has read everything that it was handed out: at once, because so many
    reads would take minutes.
    """
    streams = ChangeStreams(str(root / "state"), Files())
    stream = streams.get(_NAME)

    def read(known: ConsumerState) -> ConsumerState:
        return reduce(lambda state, partition: _done(state, stream, partition), _open(known), known)

    ChangeStreamConsumers(streams, Files()).update(stream, consumer, read)


def _open(known: ConsumerState) -> list[Partition]:
    return [partition for partition, _ in known.entries]


def _done(state: ConsumerState, stream: ChangeStream, partition: Partition) -> ConsumerState:
    through = state.ledger.entries[partition].through
    assert through is not None
    return state.done(stream, {partition: through})


def _rounds(patience: Patience) -> int:
    return ROUNDS if patience.is_thorough else SMALL_ROUNDS
