"""Reads change records: rows of the one type that a query of a change stream returns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ...core.change_streams.definition import ChangeStream
from ...core.change_streams.layout import Child, Partition
from ...core.change_streams.read_request import PlannedRead
from .data_records import DATA_CHANGE_RECORD, SEQUENCE, SEQUENCE_DIGITS, STAMP, DataRecords
from .literal_rows import one_row

_HEARTBEAT = "STRUCT<timestamp TIMESTAMP_LTZ>"
_CHILD_PARTITIONS = "ARRAY<STRUCT<token STRING, parent_partition_tokens ARRAY<STRING>>>"
_CHILDREN = (
    "STRUCT<start_timestamp TIMESTAMP_LTZ, record_sequence STRING, child_partitions"
    f" {_CHILD_PARTITIONS}>"
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
        return self._only(self._children(stream, start, children))

    def partition(self, stream: ChangeStream, read: PlannedRead) -> DataFrame:
        """The records of one partition by stamp and sequence, then its children or a heartbeat."""
        last = self._end(stream, read.partition) if read.is_finished else _heartbeat(read.through)
        if read.through < read.begin:
            only = self._only(last)
            return only if read.is_finished else only.limit(0)
        data = self.data.between(stream, read.begin, read.through, read.partition)
        rows = data.rows.select(STAMP, SEQUENCE, _element(data=F.col("record")).alias(COLUMN))
        # A heartbeat and child partitions come after the data of their stamp.
        ended = one_row(self.spark).select(
            F.lit(read.through).alias(STAMP), F.lit(_AFTER_DATA).alias(SEQUENCE), _nullable(last)
        )
        found = data.as_few_tasks(rows.unionAll(ended))
        return found.orderBy(STAMP, SEQUENCE).select(COLUMN)

    def between(
        self, stream: ChangeStream, partition: Partition, begin: int, through: int
    ) -> DataFrame:
        """The data change records of one partition between two stamps, in no order."""
        return self.data.between(stream, begin, through, partition).rows.select("record.*")

    def all(self, stream: ChangeStream, begin: int, through: int) -> DataFrame:
        """The data change records of all partitions, in the order of their transactions."""
        data = self.data.between(stream, begin, through, None)
        return data.rows.orderBy(STAMP, SEQUENCE).select("record.*")

    def transactions(self, stream: ChangeStream, begin: int, through: int) -> DataFrame:
        """The same, a row for each transaction.

        Commits of a transaction share a stamp, so no bound cuts one.
        """
        data = self.data.between(stream, begin, through, None)
        transaction = F.col("record.server_transaction_id").alias("server_transaction_id")
        ordered = F.sort_array(F.collect_list(F.struct(SEQUENCE, "record")))
        found = data.rows.groupBy(STAMP, transaction).agg(ordered.alias("ordered"))
        return found.orderBy(STAMP).select(
            F.timestamp_micros(STAMP).alias("commit_timestamp"),
            "server_transaction_id",
            F.col("ordered.record").alias("records"),
        )

    def _only(self, row: Column) -> DataFrame:
        return one_row(self.spark).select(_nullable(row))

    def _end(self, stream: ChangeStream, partition: Partition) -> Column:
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
    ) -> Column:
        token = stream.token_key.token
        listed = [
            {"token": token(partition), "parent_partition_tokens": [*parents]}
            for partition, parents in children
        ]
        record = F.struct(
            F.timestamp_micros(F.lit(start)),
            F.lit(f"{1:0{SEQUENCE_DIGITS}d}"),
            F.from_json(F.lit(json.dumps(listed)), _CHILD_PARTITIONS),
        )
        return _element(children=record)


def _heartbeat(stamp: int) -> Column:
    return _element(heartbeat=F.struct(F.timestamp_micros(F.lit(stamp))))


def _element(
    *, data: Column | None = None, heartbeat: Column | None = None, children: Column | None = None
) -> Column:
    """The value of a row: an array of one struct, of whose fields one has an element."""
    kinds = (data, heartbeat, children)
    fields = (F.lit(None) if kind is None else F.array(kind) for kind in kinds)
    return F.array(F.struct(*fields)).cast(CHANGE_RECORD)


def _nullable(constant: Column) -> Column:
    """A constant as a column that could be NULL, as in the documented type."""
    first = F.col("id").cast("int")
    return F.get(F.array(constant), first).alias(COLUMN)
