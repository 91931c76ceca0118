"""Makes data change records of captured rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import cast

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ...core.change_streams.captures import (
    MODS_PER_RECORD,
    Capture,
    CapturedColumn,
    CapturedSource,
    RecordGroup,
    record_groups,
)
from ...core.change_streams.definition import ChangeStream
from ...core.change_streams.layout import Partition
from ...core.change_streams.value_capture import ModType, Shown, captured_values
from ...core.names import quote
from .capture_files import CaptureFiles, column_set
from .captured_rows import KEYS, NEW, OLD, part
from .json_values import object_json, some_fields_json

_TYPES = "ARRAY<STRUCT<name STRING, type STRING, is_primary_key BOOLEAN, ordinal_position BIGINT>>"
_MODS = "ARRAY<STRUCT<keys STRING, new_values STRING, old_values STRING>>"
DATA_CHANGE_RECORD = (
    "STRUCT<commit_timestamp TIMESTAMP_LTZ, record_sequence STRING, server_transaction_id STRING,"
    " is_last_record_in_transaction_in_partition BOOLEAN, table_name STRING,"
    f" value_capture_type STRING, column_types {_TYPES}, mods {_MODS}, mod_type STRING,"
    " number_of_records_in_transaction BIGINT, number_of_partitions_in_transaction BIGINT>"
)
SEQUENCE_DIGITS = 8
STAMP, SEQUENCE = "_stamp", "_sequence"
_FRAME = f"{STAMP} BIGINT, {SEQUENCE} STRING, record {DATA_CHANGE_RECORD}"
_GROUP = ("stamp", "version", "mod_type", "column_set", "first_bucket")
_GROUPS = (
    "stamp BIGINT, version BIGINT, mod_type STRING, column_set STRING, first_bucket INT,"
    " transaction_id STRING, records BIGINT, first_record BIGINT, records_in_transaction BIGINT,"
    " partitions_in_transaction BIGINT, has_last_record BOOLEAN"
)
# One task reads as many rows in about a second; to spread them over tasks takes longer.
_ROWS_OF_A_TASK = 100_000


@dataclass(frozen=True, slots=True)
class _SourceRead:
    """What is read of a source: groups of its rows, and the captures that have them."""

    source: CapturedSource
    captures: dict[int, Capture] = field(default_factory=dict)
    groups: list[RecordGroup] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DataRecords:
    """Reads the data change records of change streams."""

    spark: SparkSession
    files: CaptureFiles

    def between(
        self, stream: ChangeStream, begin: int, through: int, partition: Partition | None
    ) -> DataFrame:
        """The data change records from one stamp to another, both inclusive, in no order: the
        columns ``record`` and, to order by, :data:`STAMP` and :data:`SEQUENCE`.

        :param partition: the one to read; ``None``: all
        """
        reads: dict[str, _SourceRead] = {}
        for capture in self.files.captures.between(stream, begin, through):
            for found in record_groups(capture):
                group, source = found.group, found.source
                is_read = partition is None or group.first_bucket == partition.keys.low
                if is_read and begin <= group.stamp <= through:
                    read = reads.setdefault(source.source_id, _SourceRead(source))
                    read.captures[capture.begin] = capture
                    read.groups.append(found)
        if not reads:
            return self.spark.createDataFrame([], cast(StructType, StructType.fromDDL(_FRAME)))
        frames = [self._of_source(stream, read, partition) for read in reads.values()]
        rows = reduce(DataFrame.unionAll, frames)
        count = sum(found.group.rows for read in reads.values() for found in read.groups)
        return rows.coalesce(1) if count <= _ROWS_OF_A_TASK else rows

    def _of_source(
        self, stream: ChangeStream, read: _SourceRead, partition: Partition | None
    ) -> DataFrame:
        source = read.source
        rows = self.files.rows(stream, read.captures.values(), source)
        rows = rows.where(F.col("stamp").between(*_bounds(read.groups)))
        if partition is not None:
            rows = rows.where(F.col("bucket").between(partition.keys.low, partition.keys.high - 1))
        if sum(found.group.rows for found in read.groups) <= _ROWS_OF_A_TASK:
            rows = rows.coalesce(1)
        shown = changed_rows(rows, source)
        # A group of rows that has several records is cut into them in the order of its rows.
        place = F.lit(0)
        if any(found.records > 1 for found in read.groups):
            order = Window.partitionBy(*_GROUP).orderBy("bucket", "keys")
            place = F.row_number().over(order) - 1
        shown = shown.withColumn("place", place)
        shown = shown.withColumn("part", F.expr(f"place DIV {MODS_PER_RECORD}"))
        mod = F.struct("place", "bucket", "keys", "new_values", "old_values")
        found = shown.groupBy(*_GROUP, "part").agg(F.sort_array(F.collect_list(mod)).alias("mods"))
        groups = F.broadcast(self.spark.createDataFrame(_rows(read.groups), _GROUPS))
        return found.join(groups, [*_GROUP]).select(*_record(source))


def changed_rows(rows: DataFrame, source: CapturedSource) -> DataFrame:
    """The rows of a source among stored ``rows``, with their keys and values as JSON."""
    found = rows.where(F.col("source_id") == source.source_id)
    found = found.withColumn("column_set", column_set(source))
    return found.select(
        *_GROUP, "bucket", *(each.alias(name) for name, each in _mod(source).items())
    )


def _bounds(groups: Sequence[RecordGroup]) -> tuple[int, int]:
    stamps = [found.group.stamp for found in groups]
    return min(stamps), max(stamps)


def _rows(groups: Sequence[RecordGroup]) -> list[tuple[object, ...]]:
    return [
        (
            found.group.stamp,
            found.group.version,
            found.group.mod_type,
            found.group.column_set,
            found.group.first_bucket,
            found.transaction_id,
            found.records,
            found.first_record,
            found.records_in_transaction,
            found.partitions_in_transaction,
            found.has_last_record,
        )
        for found in groups
    ]


def _record(source: CapturedSource) -> tuple[Column, Column, Column]:
    number = F.col("first_record") + F.col("part")
    sequence = F.format_string(f"%0{SEQUENCE_DIGITS}d", number)
    is_last = F.col("has_last_record") & (F.col("part") == F.col("records") - 1)
    mods = F.transform("mods", lambda each: F.struct(each.keys, each.new_values, each.old_values))
    record = F.struct(
        F.timestamp_micros("stamp").alias("commit_timestamp"),
        sequence.alias("record_sequence"),
        F.col("transaction_id").alias("server_transaction_id"),
        is_last.alias("is_last_record_in_transaction_in_partition"),
        F.lit(source.table_name).alias("table_name"),
        F.lit(source.value_capture_type.value).alias("value_capture_type"),
        _types(source).alias("column_types"),
        mods.alias("mods"),
        "mod_type",
        F.col("records_in_transaction").alias("number_of_records_in_transaction"),
        F.col("partitions_in_transaction").alias("number_of_partitions_in_transaction"),
    ).cast(DATA_CHANGE_RECORD)
    return F.col("stamp").alias(STAMP), sequence.alias(SEQUENCE), record.alias("record")


def _types(source: CapturedSource) -> Column:
    """The columns of the key, and those that the record has beside it."""
    described = [
        {
            "name": column.name,
            "type": column.type,
            "is_primary_key": column.is_key,
            "ordinal_position": column.ordinal,
        }
        for column in source.columns
    ]
    every = F.from_json(F.lit(json.dumps(described)), _TYPES)
    named = F.split("column_set", ",")
    return F.filter(
        every,
        lambda each: (
            (F.col("column_set") == "*")
            | each.is_primary_key
            | F.array_contains(named, each.ordinal_position.cast("string"))
        ),
    )


def _mod(source: CapturedSource) -> dict[str, Column]:
    """The changed row of a stored row, as JSON."""
    row = F.col(quote(source.source_id))
    keys = [(key, row.getField(KEYS).getField(part(key))) for key in source.keys]
    return {
        "keys": object_json(keys, source.int64_as),
        "new_values": _values(source, NEW),
        "old_values": _values(source, OLD),
    }


def _values(source: CapturedSource, side: str) -> Column:
    """``new_values`` or ``old_values`` of each kind of change."""
    row = F.col(quote(source.source_id)).getField(side)
    given = [(column, row.getField(part(column))) for column in source.values]

    def shown(mod: ModType) -> Column:
        captured = captured_values(source.value_capture_type, mod)
        match captured.new if side == NEW else captured.old:
            case Shown.NONE:
                return F.lit("{}")
            case Shown.ALL:
                return object_json(given, source.int64_as)
            case Shown.MODIFIED:
                return some_fields_json(
                    ((column, value, _is_modified(column)) for column, value in given),
                    source.int64_as,
                )

    kind = F.col("mod_type")
    return (
        F.when(kind == ModType.INSERT.value, shown(ModType.INSERT))
        .when(kind == ModType.UPDATE.value, shown(ModType.UPDATE))
        .otherwise(shown(ModType.DELETE))
    )


def _is_modified(column: CapturedColumn) -> Column:
    return F.array_contains(F.split("modified", ","), str(column.ordinal))
