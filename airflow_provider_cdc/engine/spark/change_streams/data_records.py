"""Makes data change records of captured rows."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ...core.change_streams.captures import (
    Capture,
    CapturedColumn,
    CapturedGroup,
    CapturedSource,
    RecordGroup,
    record_groups,
)
from ...core.change_streams.definition import ChangeStream
from ...core.change_streams.key_ranges import BUCKETS
from ...core.change_streams.layout import Partition
from ...core.change_streams.value_capture import ModType, Shown, captured_values
from ...core.names import quote, text_value
from .capture_files import CaptureFiles, column_set
from .captured_rows import KEYS, NEW, OLD, part
from .literal_rows import literal_rows
from .stored_json import object_json, some_fields_json

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
    "stamp BIGINT, version BIGINT, mod_type STRING, column_set STRING,"
    " first_bucket INT, lengths ARRAY<INT>, transaction_id STRING,"
    " records BIGINT, first_record BIGINT, records_in_transaction BIGINT,"
    " partitions_in_transaction BIGINT, has_last_record BOOLEAN"
)
# Of each bucket from the first one on, the place in the group of the record that has its rows.
_PARTS = "flatten(transform(lengths, (length, part) -> array_repeat(part, length)))"
# One task reads as many rows in about a second; to spread them over tasks takes longer.
_ROWS_OF_A_TASK = 100_000


@dataclass(frozen=True, slots=True)
class _SourceRead:
    """What is read of a source: groups of its rows, and the captures that have them."""

    source: CapturedSource
    captures: dict[int, Capture] = field(default_factory=dict)
    groups: list[RecordGroup] = field(default_factory=list)

    @property
    def row_count(self) -> int:
        return sum(found.group.rows for found in self.groups)


@dataclass(frozen=True, slots=True)
class FoundRecords:
    """Data change records: ``rows`` has the columns ``record`` and, to order by, :data:`STAMP` and
    :data:`SEQUENCE`. They are made of ``row_count`` changed rows.
    """

    rows: DataFrame
    row_count: int

    def as_few_tasks(self, rows: DataFrame) -> DataFrame:
        """``rows``, which were made of these, in one task if they are few."""
        return rows.coalesce(1) if self.row_count <= _ROWS_OF_A_TASK else rows


@dataclass(frozen=True, slots=True)
class DataRecords:
    """Reads the data change records of change streams."""

    spark: SparkSession
    files: CaptureFiles

    def between(
        self, stream: ChangeStream, begin: int, through: int, partition: Partition | None
    ) -> FoundRecords:
        """The data change records from one stamp to another, both inclusive, in no order.

        :param partition: the one to read; ``None``: all
        """
        reads: dict[str, _SourceRead] = {}
        for capture in self.files.captures.between(stream, begin, through):
            names = [source.source_id for source in capture.sources]
            for found in record_groups(capture):
                group = found.group
                is_read = partition is None or group.first_bucket == partition.keys.low
                if is_read and begin <= group.stamp <= through:
                    read = reads.setdefault(names[group.source], _SourceRead(found.source))
                    read.captures[capture.begin] = capture
                    read.groups.append(found)
        frames = [self._of_source(stream, read, partition) for read in reads.values()]
        count = sum(read.row_count for read in reads.values())
        if not frames:
            return FoundRecords(literal_rows(self.spark, [], _FRAME), count)
        together = FoundRecords(reduce(DataFrame.unionAll, frames), count)
        return replace(together, rows=together.as_few_tasks(together.rows))

    def _of_source(
        self, stream: ChangeStream, read: _SourceRead, partition: Partition | None
    ) -> DataFrame:
        source = read.source
        rows = self.files.rows(stream, read.captures.values(), source)
        rows = rows.where(F.col("stamp").between(*_bounds(read.groups)))
        if partition is not None:
            rows = rows.where(F.col("bucket").between(partition.keys.low, partition.keys.high - 1))
        rows = FoundRecords(rows, read.row_count).as_few_tasks(rows)
        groups = F.broadcast(literal_rows(self.spark, _group_rows(read.groups), _GROUPS))
        kinds = {ModType(found.group.mod_type) for found in read.groups}
        changed = changed_rows(rows, source, kinds)
        part = "0"
        if any(found.group.cuts for found in read.groups):
            # The records of a group follow each other in the order of buckets.
            changed = changed.join(groups.selectExpr(*_GROUP, f"{_PARTS} AS parts"), [*_GROUP])
            part = "coalesce(get(parts, bucket - first_bucket), 0)"
        mod = "named_struct('b', bucket, 'k', keys, 'n', new_values, 'o', old_values) AS mod"
        found = changed.selectExpr(*_GROUP, f"{part} AS part", mod)
        found = found.groupBy(*_GROUP, "part").agg(F.expr("sort_array(collect_list(mod)) AS mods"))
        return found.join(groups, [*_GROUP]).selectExpr(*_record(source))


def changed_rows(rows: DataFrame, source: CapturedSource, mods: Collection[ModType]) -> DataFrame:
    """The rows of a source among stored ``rows``, with their keys and values as JSON.

    :param mods: the kinds of changes among them. Code for others would take time, even unused: Java
        compiles no long method
    """
    found = rows.where(F.col("source_id") == source.source_id)
    found = found.withColumn("column_set", column_set(source))
    return found.selectExpr(*_GROUP, "bucket", *_mod(source, mods))


def _bounds(groups: Sequence[RecordGroup]) -> tuple[int, int]:
    stamps = [found.group.stamp for found in groups]
    return min(stamps), max(stamps)


def _group_rows(groups: Sequence[RecordGroup]) -> list[tuple[object, ...]]:
    return [
        (
            found.group.stamp,
            found.group.version,
            found.group.mod_type,
            found.group.column_set,
            found.group.first_bucket,
            _lengths(found.group),
            found.transaction_id,
            found.records,
            found.first_record,
            found.records_in_transaction,
            found.partitions_in_transaction,
            found.has_last_record,
        )
        for found in groups
    ]


def _lengths(group: CapturedGroup) -> list[int] | None:
    """How many buckets each record of a group has; ``None``: one record has all rows."""
    if not group.cuts:
        return None
    bounds = [group.first_bucket, *group.cuts, BUCKETS]
    return [high - low for low, high in pairwise(bounds)]


def _record(source: CapturedSource) -> list[str]:
    """The columns of a frame of records, in SQL."""
    sequence = f"format_string('%0{SEQUENCE_DIGITS}d', first_record + part)"
    fields = {
        "commit_timestamp": "timestamp_micros(stamp)",
        "record_sequence": sequence,
        "server_transaction_id": "transaction_id",
        "is_last_record_in_transaction_in_partition": "has_last_record AND part = records - 1",
        "table_name": text_value(source.table_name),
        "value_capture_type": text_value(source.value_capture_type.value),
        "column_types": _types(source),
        "mods": "transform(mods, each -> named_struct('k', each.k, 'n', each.n, 'o', each.o))",
        "mod_type": "mod_type",
        "number_of_records_in_transaction": "records_in_transaction",
        "number_of_partitions_in_transaction": "partitions_in_transaction",
    }
    named = ", ".join(f"'{name}', {value}" for name, value in fields.items())
    record = f"CAST(named_struct({named}) AS {DATA_CHANGE_RECORD})"
    return [f"stamp AS {STAMP}", f"{sequence} AS {SEQUENCE}", f"{record} AS record"]


def _types(source: CapturedSource) -> str:
    """The columns of the key, and those that the record has beside it, in SQL."""
    described = [
        {
            "name": column.name,
            "type": column.type,
            "is_primary_key": column.is_key,
            "ordinal_position": column.ordinal,
        }
        for column in source.columns
    ]
    every = f"from_json({text_value(json.dumps(described))}, '{_TYPES}')"
    is_named = "array_contains(split(column_set, ','), CAST(each.ordinal_position AS STRING))"
    return f"filter({every}, each -> column_set = '*' OR each.is_primary_key OR {is_named})"


def _mod(source: CapturedSource, mods: Collection[ModType]) -> list[str]:
    """The changed row of a stored row as JSON, in SQL."""
    keys = [(key, f"{quote(source.source_id)}.{KEYS}.{part(key)}") for key in source.keys]
    return [
        f"{object_json(keys, source.int64_as)} AS keys",
        f"{_values(source, NEW, mods)} AS new_values",
        f"{_values(source, OLD, mods)} AS old_values",
    ]


def _values(source: CapturedSource, side: str, mods: Collection[ModType]) -> str:
    """``new_values`` or ``old_values`` of each kind of change, in SQL."""
    row = f"{quote(source.source_id)}.{side}"
    given = [(column, f"{row}.{part(column)}") for column in source.values]

    def shown(mod: ModType) -> str:
        captured = captured_values(source.value_capture_type, mod)
        match captured.new if side == NEW else captured.old:
            case Shown.NONE:
                return "'{}'"
            case Shown.ALL:
                return object_json(given, source.int64_as)
            case Shown.MODIFIED:
                return some_fields_json(
                    ((column, value, _is_modified(column)) for column, value in given),
                    source.int64_as,
                )

    cases = (f"WHEN mod_type = '{mod.value}' THEN {shown(mod)}" for mod in sorted(mods))
    return f"CASE {' '.join(cases)} END"


def _is_modified(column: CapturedColumn) -> str:
    return f"array_contains(split(modified, ','), '{column.ordinal}')"
