"""Reads change records: rows of the one type that a query of a change stream returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ...core.change_streams.definition import ChangeStream
from ...core.change_streams.layout import Child, Partition
from ...core.change_streams.read_request import PlannedRead
from ...core.change_streams.stamps import moment_of
from .data_records import DATA_CHANGE_RECORD, SEQUENCE, SEQUENCE_DIGITS, STAMP, DataRecords

_HEARTBEAT = "STRUCT<timestamp TIMESTAMP_LTZ>"
_CHILDREN = (
    "STRUCT<start_timestamp TIMESTAMP_LTZ, record_sequence STRING, child_partitions"
    " ARRAY<STRUCT<token STRING, parent_partition_tokens ARRAY<STRING>>>>"
)
CHANGE_RECORD = (
    f"ARRAY<STRUCT<data_change_record ARRAY<{DATA_CHANGE_RECORD}>,"
    f" heartbeat_record ARRAY<{_HEARTBEAT}>, child_partitions_record ARRAY<{_CHILDREN}>>>"
)
COLUMN = "ChangeRecord"
# A heartbeat and child partitions come after the data of their stamp.
_AFTER_DATA = "~"


@dataclass(frozen=True, slots=True)
class Records:
    """Reads the captured records of change streams."""

    spark: SparkSession
    data: DataRecords

    def first(self, stream: ChangeStream, start: int) -> DataFrame:
        """What the first query of a reader returns: the partitions that hold the moment ``start``.

        Spanner: their parents are ``[NULL]``.
        """
        children = [(each, [None]) for each in stream.layout.active_at(start)]
        return self._only([self._children(stream, start, children)])

    def partition(self, stream: ChangeStream, read: PlannedRead) -> DataFrame:
        """The records of one partition by stamp and sequence, then its children or a heartbeat."""
        last = (
            self._end(stream, read.partition) if read.is_finished else _heartbeat_row(read.through)
        )
        if read.through < read.begin:
            return self._only([last] if read.is_finished else [])
        data = self.data.between(stream, read.begin, read.through, read.partition)
        rows = data.select(
            STAMP,
            SEQUENCE,
            F.array(
                F.struct(
                    F.array("record").alias("data_change_record"),
                    F.lit(None).cast(f"ARRAY<{_HEARTBEAT}>").alias("heartbeat_record"),
                    F.lit(None).cast(f"ARRAY<{_CHILDREN}>").alias("child_partitions_record"),
                )
            ).alias(COLUMN),
        )
        ended = self.spark.createDataFrame([last], _row_type())
        return rows.unionByName(ended).orderBy(STAMP, SEQUENCE).select(COLUMN)

    def between(
        self, stream: ChangeStream, partition: Partition, begin: int, through: int
    ) -> DataFrame:
        """The data change records of one partition between two stamps, in no order."""
        return self.data.between(stream, begin, through, partition).select("record.*")

    def all(self, stream: ChangeStream, begin: int, through: int) -> DataFrame:
        """The data change records of all partitions, in the order of their transactions."""
        data = self.data.between(stream, begin, through, None)
        return data.orderBy(STAMP, SEQUENCE).select("record.*")

    def transactions(self, stream: ChangeStream, begin: int, through: int) -> DataFrame:
        """The same, a row for each transaction.

        Commits of a transaction share a stamp, so no bound cuts one.
        """
        data = self.data.between(stream, begin, through, None)
        transaction = F.col("record.server_transaction_id").alias("server_transaction_id")
        ordered = F.sort_array(F.collect_list(F.struct(SEQUENCE, "record")))
        found = data.groupBy(STAMP, transaction).agg(ordered.alias("ordered"))
        return found.orderBy(STAMP).select(
            F.timestamp_micros(STAMP).alias("commit_timestamp"),
            "server_transaction_id",
            F.col("ordered.record").alias("records"),
        )

    def _only(self, rows: Sequence[tuple[Any, ...]]) -> DataFrame:
        return self.spark.createDataFrame(list(rows), _row_type()).select(COLUMN)

    def _end(self, stream: ChangeStream, partition: Partition) -> tuple[Any, ...]:
        """The row with the children of a closed partition."""
        token = stream.token_key.token
        children: Sequence[Child] = stream.layout.children_of(partition)
        named = [(each.partition, [token(parent) for parent in each.parents]) for each in children]
        return self._children(stream, children[0].partition.start, named)

    def _children(
        self,
        stream: ChangeStream,
        start: int,
        children: Sequence[tuple[Partition, Sequence[str | None]]],
    ) -> tuple[Any, ...]:
        token = stream.token_key.token
        sequence = f"{1:0{SEQUENCE_DIGITS}d}"
        listed = [(token(partition), list(parents)) for partition, parents in children]
        record = (moment_of(start), sequence, listed)
        return (start, _AFTER_DATA, [(None, None, [record])])


def _heartbeat_row(stamp: int) -> tuple[Any, ...]:
    return (stamp, _AFTER_DATA, [(None, [(moment_of(stamp),)], None)])


def _row_type() -> StructType:
    text = f"{STAMP} BIGINT, {SEQUENCE} STRING, {COLUMN} {CHANGE_RECORD}"
    return cast(StructType, StructType.fromDDL(text))
