"""Reads the partitions that were handed out to consumers of change streams."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ...consumption.statement_errors import refused
from ...core.change_streams.consumer import PartitionRead
from ...core.change_streams.stamps import stamp_of
from ...core.errors import InvalidStatement, StatementFailed
from ...core.sql.statements import Statement, analyse, bind
from ...storage.state.change_stream_consumers import ChangeStreamConsumers
from ...storage.state.change_streams import ChangeStreams
from ..session.failures import first_line, has_ended, reason
from ..session.idempotent_writes import idempotent_write
from ..tables.delta_tables import Tables
from .records import Records

RECORDS, MODS = "records", "mods"
"""The names under which statements read the data change records and the changed rows."""

_DIGEST_CHARACTERS = 32


@dataclass(frozen=True, slots=True)
class PartitionConsumption:
    """Applies statements or functions to partitions, and records what was processed."""

    spark: SparkSession
    streams: ChangeStreams
    consumers: ChangeStreamConsumers
    records: Records
    tables: Tables

    def consume(
        self, name: str, consumer: str, partition_token: str, texts: Sequence[str]
    ) -> PartitionRead:
        """Apply statements to a partition that was handed out, exactly once."""
        statements = [self._statement(text) for text in texts]
        with self._read(name, consumer, partition_token) as (identity, read, views):
            for number, statement in enumerate(statements):
                # Delta skips a range that was applied before, because its end is recorded.
                with idempotent_write(self.spark, f"{identity} {number}", _end_of(read)):
                    self._run(statement, bind(statement, views))
        return read

    def _run(self, statement: Statement, text: str) -> None:
        try:
            self.spark.sql(text)
        except AnalysisException as error:
            raise refused(statement, first_line(error), text) from None
        except Exception as error:  # pyspark has no classes for errors of the JVM
            if not has_ended(error):
                raise
            raise StatementFailed(
                f"statement on {statement.target.sql}",
                "failed, and the partition is not done",
                cause=reason(error),
                fix="correct the statement or its data, and read the partition again: a statement"
                " that was applied before is skipped",
            ) from error

    def process(
        self,
        name: str,
        consumer: str,
        partition_token: str,
        work: Callable[[DataFrame, PartitionRead], object],
    ) -> PartitionRead:
        """Call ``work`` with the records of a partition that was handed out."""
        with self._read(name, consumer, partition_token) as (_, read, views):
            work(self.spark.table(views[RECORDS]), read)
        return read

    @contextmanager
    def _read(
        self, name: str, consumer: str, partition_token: str
    ) -> Iterator[tuple[str, PartitionRead, Mapping[str, str]]]:
        """A read that was handed out, and the views of its records. Left without an error, it is
        done.
        """
        stream = self.streams.get(name)
        partition = stream.token_key.partition(partition_token)
        state = self.consumers.update(
            stream, consumer, lambda known: known.with_ledger(known.ledger.running(partition))
        )
        state.check_kept(stream)
        read = state.read_of(stream, state.ledger, partition)
        rows = self.records.between(stream, partition, _begin_of(read), _end_of(read))
        views = {each: f"cdc_{each}_{uuid.uuid4().hex}" for each in (RECORDS, MODS)}
        rows.createOrReplaceTempView(views[RECORDS])
        _mods(rows).createOrReplaceTempView(views[MODS])
        consumed = hashlib.sha256(f"{state.consumer}\n{partition_token}".encode()).hexdigest()
        try:
            yield f"change stream {consumed[:_DIGEST_CHARACTERS]}", read, views
        except Exception:
            # Its records may have been removed meanwhile. Then this says so, and not which file.
            state.check_kept(self.streams.get(name))
            raise
        finally:
            for view in views.values():
                self.spark.catalog.dropTempView(view)
        # Steps of the layout that came meanwhile are after what is captured.
        newest, through = self.streams.get(name), _end_of(read)
        self.consumers.update(
            stream, consumer, lambda known: known.done(newest, {partition: through})
        )

    def _statement(self, text: str) -> Statement:
        statement = analyse(text, [RECORDS, MODS])
        if statement.create is not None:
            raise InvalidStatement(
                f"statement on {statement.target.sql}",
                "cannot consume a partition",
                cause="it creates a table, and each partition has its own statement",
                fix="create the table first, and write INSERT or MERGE",
            )
        if not statement.streams:
            raise InvalidStatement(
                f"statement on {statement.target.sql}",
                "reads no records",
                cause=f"expected it to read {RECORDS} or {MODS}",
                fix=f"write SELECT ... FROM {MODS}",
            )
        self.tables.get(statement.target)
        return statement


def _mods(rows: DataFrame) -> DataFrame:
    """One row for each changed row of the records.

    Together, ``server_transaction_id``, ``record_sequence`` and ``mod_index`` are unique.
    """
    found = rows.select(
        "commit_timestamp",
        "server_transaction_id",
        "record_sequence",
        "table_name",
        "mod_type",
        F.posexplode("mods").alias("mod_index", "_mod"),
    )
    return found.select(*found.columns[:-1], "_mod.*")


def _begin_of(read: PartitionRead) -> int:
    return stamp_of(datetime.fromisoformat(read.start_timestamp))


def _end_of(read: PartitionRead) -> int:
    return stamp_of(datetime.fromisoformat(read.end_timestamp))
