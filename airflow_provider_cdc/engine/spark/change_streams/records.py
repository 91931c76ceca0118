"""Reads change records: rows of the one type that a query of a change stream returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ...core.change_streams.definition import ChangeStream
from ...core.change_streams.layout import Child, Partition
from ...core.change_streams.read_request import PlannedRead
from ...core.change_streams.stamps import moment_of
from .capture_tables import GROUP, MODS_PER_RECORD, CaptureTables

_TYPES = "ARRAY<STRUCT<name STRING, type STRING, is_primary_key BOOLEAN, ordinal_position BIGINT>>"
_MODS = "ARRAY<STRUCT<keys STRING, new_values STRING, old_values STRING>>"
DATA_CHANGE_RECORD = (
    "STRUCT<commit_timestamp TIMESTAMP_LTZ, record_sequence STRING, server_transaction_id STRING,"
    " is_last_record_in_transaction_in_partition BOOLEAN, table_name STRING,"
    f" value_capture_type STRING, column_types {_TYPES}, mods {_MODS}, mod_type STRING,"
    " number_of_records_in_transaction BIGINT, number_of_partitions_in_transaction BIGINT>"
)
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
_SEQUENCE_DIGITS = 8
_STAMP, _SEQUENCE = "_stamp", "_sequence"
# A heartbeat and child partitions come after the data of their stamp.
_AFTER_DATA = "~"


@dataclass(frozen=True, slots=True)
class Records:
    """Reads the captured records of change streams."""

    spark: SparkSession
    tables: CaptureTables

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
        data = self._of_partition(stream, read.partition, read.begin, read.through)
        rows = data.select(
            _STAMP,
            _SEQUENCE,
            F.array(
                F.struct(
                    F.array("record").alias("data_change_record"),
                    F.lit(None).cast(f"ARRAY<{_HEARTBEAT}>").alias("heartbeat_record"),
                    F.lit(None).cast(f"ARRAY<{_CHILDREN}>").alias("child_partitions_record"),
                )
            ).alias(COLUMN),
        )
        ended = self.spark.createDataFrame([last], _row_type())
        return rows.unionByName(ended).orderBy(_STAMP, _SEQUENCE).select(COLUMN)

    def between(
        self, stream: ChangeStream, partition: Partition, begin: int, through: int
    ) -> DataFrame:
        """The data change records of one partition between two stamps, in no order."""
        return self._of_partition(stream, partition, begin, through).select("record.*")

    def all(self, stream: ChangeStream, begin: int, through: int) -> DataFrame:
        """The data change records of all partitions, in the order of their transactions."""
        data = self._data(stream, begin, through, changes=F.lit(True), records=F.lit(True))
        return data.orderBy(_STAMP, _SEQUENCE).select("record.*")

    def _of_partition(
        self, stream: ChangeStream, partition: Partition, begin: int, through: int
    ) -> DataFrame:
        keys = partition.keys
        return self._data(
            stream,
            begin,
            through,
            changes=F.col("bucket").between(keys.low, keys.high - 1),
            records=F.col("first_bucket") == keys.low,
        )

    def _data(
        self, stream: ChangeStream, begin: int, through: int, *, changes: Column, records: Column
    ) -> DataFrame:
        """The data change records from ``begin`` to ``through``.

        :param changes: which captured changes are read
        :param records: the groups of records that they are in
        """
        is_read = F.col("stamp").between(begin, through)
        groups = self.tables.records(stream).where(is_read & records)
        rows = self.tables.changes(stream).where(is_read & changes)
        rows = rows.select(*GROUP, "bucket", "keys", "new_values", "old_values")
        order = Window.partitionBy(*GROUP).orderBy("bucket", "keys")
        rows = rows.withColumn("place", F.row_number().over(order) - 1)
        rows = rows.withColumn("part", F.expr(f"place DIV {MODS_PER_RECORD}"))
        mod = F.struct("place", "keys", "new_values", "old_values")
        found = rows.groupBy(*GROUP, "part").agg(F.sort_array(F.collect_list(mod)).alias("mods"))
        joined = found.join(groups, [*GROUP])
        number = F.col("first_record") + F.col("part")
        sequence = F.lpad(number.cast("string"), _SEQUENCE_DIGITS, "0")
        is_last = F.col("has_last_record") & (F.col("part") == F.col("records") - 1)
        mods = F.transform(
            "mods", lambda each: F.struct(each.keys, each.new_values, each.old_values)
        )
        record = F.struct(
            F.timestamp_micros("stamp").alias("commit_timestamp"),
            sequence.alias("record_sequence"),
            F.col("transaction_id").alias("server_transaction_id"),
            is_last.alias("is_last_record_in_transaction_in_partition"),
            "table_name",
            "value_capture_type",
            _types().alias("column_types"),
            mods.alias("mods"),
            "mod_type",
            F.col("records_in_transaction").alias("number_of_records_in_transaction"),
            F.col("partitions_in_transaction").alias("number_of_partitions_in_transaction"),
        ).cast(DATA_CHANGE_RECORD)
        return joined.select(
            F.col("stamp").alias(_STAMP), sequence.alias(_SEQUENCE), record.alias("record")
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
        sequence = f"{1:0{_SEQUENCE_DIGITS}d}"
        listed = [(token(partition), list(parents)) for partition, parents in children]
        record = (moment_of(start), sequence, listed)
        return (start, _AFTER_DATA, [(None, None, [record])])


def _heartbeat_row(stamp: int) -> tuple[Any, ...]:
    return (stamp, _AFTER_DATA, [(None, [(moment_of(stamp),)], None)])


def _types() -> Column:
    """The columns of the key, and those that the record has beside it."""
    every = F.from_json("column_types", _TYPES)
    named = F.split("column_set", ",")
    return F.filter(
        every,
        lambda each: (
            (F.col("column_set") == "*")
            | each.is_primary_key
            | F.array_contains(named, each.ordinal_position.cast("string"))
        ),
    )


def _row_type() -> StructType:
    text = f"{_STAMP} BIGINT, {_SEQUENCE} STRING, {COLUMN} {CHANGE_RECORD}"
    return cast(StructType, StructType.fromDDL(text))
