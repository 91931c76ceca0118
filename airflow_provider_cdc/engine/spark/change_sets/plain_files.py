"""Reading few files as plain Parquet; what the log says of each is joined to its rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from ...core.crafted_log import (
    BASE_ROW_ID_COLUMN,
    CHANGE_TYPE_COLUMN,
    SIDE_COLUMN,
    VERSION_COLUMN,
    ListedFile,
)
from ...core.log_actions import ROW_ID_SETTING, ROW_VERSION_SETTING
from ...core.names import quote
from ...core.plain_files import file_name, path_key, reads_as_plain
from ...core.table_schema import Layout
from ...storage.files import plain_uri
from ...storage.range_files import RangeFiles
from .columns import spark_fields
from .rows import ROW, ROW_ID, ROW_VERSION, union

_ENTRIES = (
    "ARRAY<STRUCT<file: STRING, side: STRING, version: BIGINT, base_row_id: BIGINT,"
    " default_version: BIGINT, partition: ARRAY<STRING>, at: ARRAY<BIGINT>>>"
)
_POSITIONS = "ARRAY<STRUCT<file: STRING, at: ARRAY<BIGINT>>>"
_FILE, _AT, _OWN_ID, _OWN_VERSION = "file", "at", "own_row_id", "own_row_version"
_FILE_COLUMNS = {
    SIDE_COLUMN: "side",
    VERSION_COLUMN: "version",
    BASE_ROW_ID_COLUMN: "base_row_id",
    CHANGE_TYPE_COLUMN: CHANGE_TYPE_COLUMN,
}


def open_plain(
    spark: SparkSession,
    source: RangeFiles,
    layout: Layout,
    protocol: Mapping[str, Any],
    listed: Sequence[ListedFile],
    extra: Sequence[str],
) -> DataFrame | None:
    """The rows of the ``listed`` files as :meth:`CraftedTables.open` returns them; ``None`` where
    Spark alone would not read them right, or it would not pay.
    """
    if not reads_as_plain(layout, protocol, listed):
        return None
    parts = []
    for files in (
        [item for item in listed if item.kept is None],
        [item for item in listed if item.kept is not None],
    ):
        if files:
            scan = _scan(spark, layout, files, extra)
            if scan is None:
                return None
            parts.append(_joined(spark, source, scan, layout, files, extra))
    return union(parts)


def _scan(
    spark: SparkSession, layout: Layout, files: Sequence[ListedFile], extra: Sequence[str]
) -> DataFrame | None:
    """Every row of the files, with its place; ``None`` where Spark found other files than these."""
    data = [field for field in layout.fields if field["name"] not in layout.partition_columns]
    own_id = layout.configuration[ROW_ID_SETTING]
    own_version = layout.configuration[ROW_VERSION_SETTING]
    added = [StructField(own_id, LongType()), StructField(own_version, LongType())]
    if CHANGE_TYPE_COLUMN in extra:
        added.append(StructField(CHANGE_TYPE_COLUMN, StringType()))
    paths = sorted({plain_uri(item.file.path) for item in files})
    reader = spark.read.schema(StructType([*spark_fields(data), *added]))
    rows = reader.option("recursiveFileLookup", True).parquet(*paths)
    if {path_key(path) for path in rows.inputFiles()} != {path_key(path) for path in paths}:
        return None
    place = rows.metadataColumn("_metadata")
    return rows.select(
        place.getField("file_name").alias(_FILE),
        place.getField("row_index").alias(_AT),
        F.col(quote(own_id)).alias(_OWN_ID),
        F.col(quote(own_version)).alias(_OWN_VERSION),
        F.struct(*[F.col(quote(field["name"])) for field in data]).alias(ROW),
        *[F.col(name) for name in extra if name == CHANGE_TYPE_COLUMN],
    )


def _joined(
    spark: SparkSession,
    source: RangeFiles,
    scan: DataFrame,
    layout: Layout,
    files: Sequence[ListedFile],
    extra: Sequence[str],
) -> DataFrame:
    """The rows to read of ``scan``, with what the log says of their files."""
    entries = _local(spark, [_entry(item, layout) for item in files], _ENTRIES)
    if files[0].kept is not None:
        picked = entries.withColumn(_AT, F.explode(_AT))
        rows = scan.join(F.broadcast(picked), [_FILE, _AT])
    else:
        dropped = [
            {"file": file_name(item), "at": list(source.deleted(item.file))}
            for item in files
            if item.file.deletion_vector is not None
        ]
        if dropped:
            left_out = _local(spark, dropped, _POSITIONS).withColumn(_AT, F.explode(_AT))
            scan = scan.join(F.broadcast(left_out), [_FILE, _AT], "left_anti")
        rows = scan.join(F.broadcast(entries.drop(_AT)), [_FILE])
    return rows.select(
        *[F.col(_FILE_COLUMNS[name]).alias(name) for name in extra],
        F.coalesce(_OWN_ID, F.col("base_row_id") + F.col(_AT)).alias(ROW_ID),
        F.coalesce(_OWN_VERSION, "default_version").alias(ROW_VERSION),
        F.struct(*_columns(layout)).alias(ROW),
    )


def _columns(layout: Layout) -> list[Column]:
    columns = []
    for field in layout.fields:
        name = field["name"]
        value = F.col(ROW).getField(name)
        if name in layout.partition_columns:
            place = layout.partition_columns.index(name)
            value = F.get(F.col("partition"), F.lit(place)).cast(spark_fields([field])[0].dataType)
        columns.append(value.alias(name))
    return columns


def _entry(item: ListedFile, layout: Layout) -> dict[str, Any]:
    file = item.file
    return {
        "file": file_name(item),
        "side": item.side.value,
        "version": item.version,
        "base_row_id": file.base_row_id,
        "default_version": file.default_row_commit_version,
        # An empty value stands for NULL (Delta protocol, "Partition Value Serialization").
        "partition": [file.partition_values.get(name) or None for name in layout.partition_columns],
        "at": None if item.kept is None else list(item.kept),
    }


def _local(spark: SparkSession, rows: Sequence[Mapping[str, Any]], kind: str) -> DataFrame:
    """``rows`` as a frame that travels inside the plan, over Spark Connect too."""
    parsed = F.from_json(F.lit(json.dumps(rows)), kind, {"mode": "FAILFAST"})
    return spark.range(1).select(F.inline(parsed))
