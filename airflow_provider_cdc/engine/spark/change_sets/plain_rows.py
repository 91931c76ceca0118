"""Reads files as plain Parquet, with what the log records of each file, found by its number."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from posixpath import normpath
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from ...core.change_sets.crafted_log import (
    BASE_ROW_ID_COLUMN,
    CHANGE_TYPE_COLUMN,
    REMOVAL_COLUMN,
    ROW_PLACE_COLUMN,
    SIDE_COLUMN,
    VERSION_COLUMN,
    ListedFile,
    batches_by_path,
    own_columns,
)
from ...core.change_sets.plain_files import BITS_IN_A_WORD, bitmap_words, reads_as_plain
from ...core.delta.file_paths import path_key
from ...core.delta.table_schema import Layout
from ...core.names import quote
from ...storage.delta.range_files import RangeFiles
from ...storage.files.scratch import Scratch
from .columns import spark_fields
from .file_lists import FileLists
from .row_columns import NO_ROW_ID, PLACE, ROW_ID, ROW_VERSION, union

# What the log records of a file, and its type in SQL.
_FileValue = tuple[Callable[[ListedFile], Any], str]
_AT = f"{PLACE}.row_index"
# The list stores the number of a file as the file's modification time.
_NUMBER = f"CAST(unix_millis({PLACE}.file_modification_time) AS INT)"
# A list holds each file once. With more lists, one crafted log costs less, because it may hold a
# file once with each deletion vector.
_MOST_BATCHES = 4
_WORD_SHIFT = BITS_IN_A_WORD.bit_length() - 1
_BASE_ROW_ID: _FileValue = (lambda item: item.file.base_row_id, "BIGINT")
_DEFAULT_VERSION: _FileValue = (lambda item: item.file.default_row_commit_version, "BIGINT")
_IS_PICKED: _FileValue = (lambda item: item.kept is not None, "BOOLEAN")
_FILE_COLUMNS: Mapping[str, _FileValue] = {
    SIDE_COLUMN: (lambda item: item.side.value, "STRING"),
    VERSION_COLUMN: (lambda item: item.version, "BIGINT"),
    REMOVAL_COLUMN: (lambda item: item.removal, "BIGINT"),
    BASE_ROW_ID_COLUMN: _BASE_ROW_ID,
}


class PlainFiles:
    """Opens the plain files of one change set.

    ``roots`` names the written lists; they must stay while the change set is in use.
    """

    def __init__(self, spark: SparkSession, scratch: Scratch, source: RangeFiles) -> None:
        self._lists = FileLists(spark, scratch)
        self._source = source
        self.roots = self._lists.roots

    def open(
        self,
        layout: Layout,
        protocol: Mapping[str, Any],
        listed: Sequence[ListedFile],
        extra: Sequence[str],
        *,
        can_be_pruned: bool = False,
    ) -> DataFrame | None:
        """The rows of the ``listed`` files as :meth:`CraftedTables.open` returns them; ``None`` if
        Spark without Delta would not read them correctly, or would cost more.

        :param can_be_pruned: whether a filter on the rows may reach the files
        """
        if not reads_as_plain(layout, protocol, listed, can_be_pruned=can_be_pruned):
            return None
        batches = batches_by_path(listed, lambda item: normpath(path_key(item.file.path)))
        if len(batches) > _MOST_BATCHES:
            return None
        parts = []
        for files in batches:
            scan = self._scan(layout, files, extra)
            if scan is None:
                return None
            parts.append(_with_extras(self._source, scan, layout, files, extra))
        return union(parts)

    def _scan(
        self, layout: Layout, files: Sequence[ListedFile], extra: Sequence[str]
    ) -> DataFrame | None:
        """Every row of the files, with its position; ``None``: the session reads no lists."""
        data = [field for field in layout.fields if field["name"] not in layout.partition_columns]
        own = own_columns(layout)
        assert own is not None
        added = [StructField(name, LongType()) for name in own]
        if CHANGE_TYPE_COLUMN in extra:
            added.append(StructField(CHANGE_TYPE_COLUMN, StringType()))
        sizes = [(item.file.path, self._source.size_of(item.file)) for item in files]
        rows = self._lists.open(sizes, StructType([*spark_fields(data), *added]))
        if rows is None:
            return None
        return rows.select("*", rows.metadataColumn("_metadata").alias(PLACE))


def _with_extras(
    source: RangeFiles,
    scan: DataFrame,
    layout: Layout,
    files: Sequence[ListedFile],
    extra: Sequence[str],
) -> DataFrame:
    """The rows to read of ``scan``, with what the log records of their files."""

    def of_file(value_of: Callable[[ListedFile], Any], kind: str) -> str:
        values = [value_of(item) for item in files]
        if all(value == values[0] for value in values):
            return f"get({_array(values[:1], kind)}, 0)"
        return f"get({_array(values, kind)}, {_NUMBER})"

    source.fetch_vectors(item.file for item in files if item.kept is None)
    marked = [
        bitmap_words(source.deleted(item.file) if item.kept is None else item.kept)
        for item in files
    ]
    if any(marked):
        index = f"CAST(shiftright({_AT}, {_WORD_SHIFT}) AS INT)"
        word = f"get(get({_array(marked, 'ARRAY<BIGINT>')}, {_NUMBER}), {index})"
        bit = f"getbit({word}, CAST({_AT} & {BITS_IN_A_WORD - 1} AS INT))"
        # If a position has no word, its bit is not set.
        scan = scan.where(f"(coalesce({bit}, 0) = 1) = {of_file(*_IS_PICKED)}")

    def column(field: Mapping[str, Any]) -> str:
        name = field["name"]
        if name not in layout.partition_columns:
            return quote(name)
        # An empty value means NULL (Delta protocol, "Partition Value Serialization").
        value = of_file(lambda item: item.file.partition_values.get(name) or None, "STRING")
        kind = spark_fields([field])[0].dataType.simpleString()
        return f"CAST({value} AS {kind}) AS {quote(name)}"

    own = own_columns(layout)
    assert own is not None
    # Each expression costs a call to the driver's JVM.
    columns = [column(field) for field in layout.fields] if layout.partition_columns else ["*"]
    extras = [
        f"{of_file(*_FILE_COLUMNS[name])} AS {name}" for name in extra if name in _FILE_COLUMNS
    ]
    row_place = f"{of_file(*_BASE_ROW_ID)} + {_AT}"
    if ROW_PLACE_COLUMN in extra:
        extras.append(f"{row_place} AS {ROW_PLACE_COLUMN}")
    if layout.partition_columns and CHANGE_TYPE_COLUMN in extra:
        extras.append(CHANGE_TYPE_COLUMN)
    rows = scan.selectExpr(
        *columns,
        *extras,
        f"coalesce({quote(own[0])}, {row_place}, {NO_ROW_ID}L) AS {ROW_ID}",
        f"coalesce({quote(own[1])}, {of_file(*_DEFAULT_VERSION)}) AS {ROW_VERSION}",
    )
    return rows if layout.partition_columns else rows.drop(PLACE, *own)


def _array(values: Sequence[Any], kind: str) -> str:
    """A literal array; its values may contain any character."""
    text = base64.b64encode(json.dumps(values).encode()).decode()
    parsed = f"CAST(unbase64('{text}') AS STRING), 'ARRAY<{kind}>', map('mode', 'FAILFAST')"
    return f"from_json({parsed})"
