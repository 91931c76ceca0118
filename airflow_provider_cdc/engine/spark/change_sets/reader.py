"""The change set of a range: what a stream returns, minimal and exact."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, StringType, StructField, StructType

from ..core.crafted_log import (
    BASE_ROW_ID_COLUMN,
    SIDE_COLUMN,
    ListedFile,
    Side,
    crafted_log,
)
from ..core.errors import InvalidRequest, StreamStale
from ..core.log_actions import DataFile
from ..core.model import METADATA_COLUMNS, AppendSemantics, ColumnStyle, MetadataColumns, Stream
from ..core.model import StreamMode as Mode
from ..core.names import quote
from ..core.net_files import inserted_files
from ..core.table_schema import Layout, matching_path
from ..storage.files import Files
from ..storage.range_files import RangeFiles
from ..storage.scratch import Scratch, new_table_id
from ..storage.source_log import SourceRange
from .columns import as_read_today, comparable

ROW_ID_DIGITS = 16
_ROW = "row"
_ROW_ID = "row_id"
_ROW_VERSION = "row_version"


class Strategy(StrEnum):
    """The ways to read a change set, as outcomes tell them."""

    NOTHING = "nothing"
    FILE_DIFFERENCE = "file_difference"
    INSERTED_FILES = "inserted_files"


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """A change set, not yet read.

    ``rows`` holds the source's columns as they are at the end of the range, then action
    (``INSERT``, ``DELETE``), is-update and row id; one row for an insert or a delete, two for an
    update. ``scratch`` names the crafted tables that must stay while ``rows`` is in use.
    """

    rows: DataFrame
    strategy: Strategy
    file_count: int
    size_bytes: int
    scratch: tuple[str, ...]


class ChangeSetReader:
    """Makes change sets of ranges of sources.

    :param scratch: where crafted tables go; Spark must be able to read it
    """

    def __init__(self, spark: SparkSession, files: Files, scratch: Scratch) -> None:
        self._spark = spark
        self._files = files
        self._scratch = scratch

    def read(self, span: SourceRange) -> ChangeSet:
        """The change set of ``span``.

        Seed 000: the minimal set of changes from the offset to the end of the range: a row that was
        inserted and deleted is nothing, one that was inserted and updated is one INSERT, an update
        is a DELETE and an INSERT with is-update true, an update followed by a delete is a DELETE of
        the row as it was at the offset. Append-only streams return inserts alone.

        :raises StreamStale: a file that has to be read is gone
        """
        check_columns(span.stream, Layout.of(json.loads(span.end.metadata)))
        stream = span.stream
        if stream.mode is Mode.APPEND_ONLY and stream.append_semantics is AppendSemantics.INSERTED:
            return self._inserted(span)
        return self._difference(span)

    def _difference(self, span: SourceRange) -> ChangeSet:
        net = span.net_files()
        source = RangeFiles(span.stream.source.location, self._files)
        if net.is_empty:
            return self._nothing(span)
        whole = [source.absolute(file) for file in (*net.removed, *net.added)]
        whole += [source.absolute(file) for pair in net.revectored for file in (pair.old, pair.new)]
        self._check_files(span.stream, source, whole)
        listed = source.listed(net)
        if not listed:
            return self._nothing(span)
        sides, scratch = self._sides(span, listed)
        changes = _netted(sides, listed)
        if span.stream.mode is Mode.APPEND_ONLY:
            changes = changes.where((F.col("action") == "INSERT") & ~F.col("is_update"))
        return ChangeSet(
            _named(changes, _layout(span.end.metadata), span.stream.column_style),
            Strategy.FILE_DIFFERENCE,
            net.file_count,
            net.size_bytes,
            scratch,
        )

    def _inserted(self, span: SourceRange) -> ChangeSet:
        """Every row that a commit of the range inserted, as it was inserted."""
        source = RangeFiles(span.stream.source.location, self._files)
        groups = _files_by_layout(span)
        files = [source.absolute(file) for group in groups for file in group.files]
        if not files:
            return self._nothing(span)
        self._check_files(span.stream, source, files)
        history = _history(span)
        parts, scratch = [], []
        for group in groups:
            steps = matching_path(history[group.position :])
            listed = [ListedFile(Side.NEW, source.absolute(file)) for file in group.files]
            root = self._craft(steps[0], group.protocol, listed)
            scratch.append(root)
            own = F.col(_ROW_ID) >= F.col(BASE_ROW_ID_COLUMN)
            rows = self._open(root, steps[0], extra=(BASE_ROW_ID_COLUMN,)).where(own)
            parts.append(_today(rows, steps))
        rows = parts[0]
        for part in parts[1:]:
            rows = rows.unionByName(part)
        return ChangeSet(
            _named(_all(rows, "INSERT"), history[-1], span.stream.column_style),
            Strategy.INSERTED_FILES,
            len(files),
            sum(file.size_bytes for file in files),
            tuple(scratch),
        )

    def _nothing(self, span: SourceRange) -> ChangeSet:
        layout = _layout(span.end.metadata)
        names = METADATA_COLUMNS[span.stream.column_style]
        fields = StructType.fromJson({"type": "struct", "fields": list(layout.fields)}).fields
        schema = StructType([*fields, *_metadata_fields(names)])
        return ChangeSet(self._spark.createDataFrame([], schema), Strategy.NOTHING, 0, 0, ())

    def _check_files(self, stream: Stream, source: RangeFiles, files: Sequence[DataFile]) -> None:
        missing = source.missing(files)
        if missing:
            raise StreamStale(
                f"stream {stream.name}",
                "is stale, files that it has to read were removed",
                cause=f"{len(missing)} of {len(files)} are gone, the first is {missing[0]}",
                fix="create the stream again, and consume it within the source's"
                " delta.deletedFileRetentionDuration",
            )

    def _sides(
        self, span: SourceRange, listed: Sequence[ListedFile]
    ) -> tuple[DataFrame, tuple[str, ...]]:
        """Both sides of the range in one frame, through one crafted table where that is right."""
        path = matching_path(_history(span))
        then, today = path[0], path[-1]
        protocol = json.loads(span.end.protocol)
        if len(path) == 2 and today.reads_files_of(then):  # noqa: PLR2004 - the two ends
            root = self._craft(today, protocol, listed)
            return self._open(root, today, extra=(SIDE_COLUMN,)), (root,)
        frames, roots = [], []
        for side, steps, rules in (
            (Side.OLD, path, json.loads(span.start.protocol)),
            (Side.NEW, (today,), protocol),
        ):
            root = self._craft(steps[0], rules, [file for file in listed if file.side is side])
            roots.append(root)
            frame = self._open(root, steps[0], extra=(SIDE_COLUMN,))
            frames.append(_today(frame, steps, SIDE_COLUMN))
        return frames[0].unionByName(frames[1]), tuple(roots)

    def _craft(
        self, layout: Layout, protocol: Mapping[str, Any], listed: Sequence[ListedFile]
    ) -> str:
        table_id = new_table_id()
        return self._scratch.write_table(table_id, crafted_log(layout, protocol, listed, table_id))

    def _open(self, root: str, layout: Layout, extra: Sequence[str]) -> DataFrame:
        table = self._spark.read.format("delta").load(root)
        tracked = table.metadataColumn("_metadata")
        columns = [F.col(quote(name)) for name in layout.column_names]
        return table.select(
            *[F.col(name) for name in extra],
            tracked.getField("row_id").alias(_ROW_ID),
            tracked.getField("row_commit_version").alias(_ROW_VERSION),
            F.struct(*columns).alias(_ROW),
        )


def check_columns(stream: Stream, layout: Layout) -> None:
    """Refuse a source with a column that a change set needs the name of.

    :raises InvalidRequest: naming the column
    """
    names = METADATA_COLUMNS[stream.column_style]
    reserved = {names.action, names.is_update, names.row_id, SIDE_COLUMN, BASE_ROW_ID_COLUMN}
    taken = {name.casefold() for name in reserved}
    for column in layout.column_names:
        if column.casefold() in taken:
            raise InvalidRequest(
                f"stream {stream.name}",
                f"cannot add its columns to those of {stream.source.name}",
                cause=f"the source has a column {column} of its own",
                fix="rename that column, or create the stream with the other column style",
            )


def _layout(metadata: str) -> Layout:
    return Layout.of(json.loads(metadata))


def _history(span: SourceRange) -> list[Layout]:
    """The layouts that were in force one after the other, the one at the offset first."""
    changes = [commit.metadata for commit in span.commits if commit.metadata is not None]
    return [_layout(span.start.metadata), *map(Layout.of, changes)]


@dataclass(frozen=True, slots=True)
class _WrittenFiles:
    """Files with inserted rows that were written under one layout, by its place in the history."""

    position: int
    layout: Layout
    protocol: Mapping[str, Any]
    files: list[DataFile]


def _files_by_layout(span: SourceRange) -> list[_WrittenFiles]:
    """The files with inserted rows, in runs that were written under one layout."""
    layout, protocol = _layout(span.start.metadata), json.loads(span.start.protocol)
    position = 0
    groups: list[_WrittenFiles] = []
    for commit in span.commits:
        protocol = commit.protocol or protocol
        if commit.metadata is not None:
            layout, position = Layout.of(commit.metadata), position + 1
        files = [file for _, file in inserted_files([commit])]
        if not files:
            continue
        if groups and groups[-1].layout == layout:
            groups[-1].files.extend(files)
        else:
            groups.append(_WrittenFiles(position, layout, protocol, files))
    return groups


def _today(rows: DataFrame, steps: Sequence[Layout], *extra: str) -> DataFrame:
    """``rows`` of the first layout of ``steps`` with the columns of the last one."""
    for then, today in pairwise(steps):
        if today.fields != then.fields:
            row = F.struct(*as_read_today(F.col(_ROW), today.fields, then.fields)).alias(_ROW)
            rows = rows.select(*extra, _ROW_ID, _ROW_VERSION, row)
    return rows.select(*extra, _ROW_ID, _ROW_VERSION, _ROW)


def _netted(sides: DataFrame, listed: Sequence[ListedFile]) -> DataFrame:
    """Changes of action, is_update, row_id and row, from the rows of both sides."""
    present = {file.side for file in listed}
    if present == {Side.NEW}:
        return _all(sides, "INSERT")
    if present == {Side.OLD}:
        return _all(sides, "DELETE")
    kind = sides.schema[_ROW].dataType

    def of(side: Side, column: str) -> Column:
        return F.first(F.when(F.col(SIDE_COLUMN) == side.value, F.col(column)), ignorenulls=True)

    pairs = sides.groupBy(_ROW_ID).agg(
        of(Side.OLD, _ROW).alias("old"),
        of(Side.NEW, _ROW).alias("new"),
        of(Side.OLD, _ROW_VERSION).alias("old_version"),
        of(Side.NEW, _ROW_VERSION).alias("new_version"),
    )
    # A row that was only carried over keeps its commit version; RESTORE brings old versions back,
    # so they are compared for equality and not with the offset.
    same = (F.col("old_version") == F.col("new_version")) | comparable(
        F.col("old"), kind
    ).eqNullSafe(comparable(F.col("new"), kind))
    old_only, new_only = F.col("new_version").isNull(), F.col("old_version").isNull()
    changed = pairs.where(old_only | new_only | ~same)
    records = (
        F.when(new_only, F.array(_record("INSERT", False, "new")))
        .when(old_only, F.array(_record("DELETE", False, "old")))
        .otherwise(F.array(_record("DELETE", True, "old"), _record("INSERT", True, "new")))
    )
    return changed.select(_ROW_ID, F.explode(records).alias("change")).select("change.*", _ROW_ID)


def _all(rows: DataFrame, action: str) -> DataFrame:
    """Each of ``rows`` as one change that is no update."""
    return rows.select(
        F.lit(action).alias("action"), F.lit(False).alias("is_update"), _ROW, _ROW_ID
    )


def _record(action: str, is_update: bool, side: str) -> Column:
    return F.struct(
        F.lit(action).alias("action"),
        F.lit(is_update).alias("is_update"),
        F.col(side).alias(_ROW),
    )


def _named(changes: DataFrame, layout: Layout, style: ColumnStyle) -> DataFrame:
    names = METADATA_COLUMNS[style]
    return changes.select(
        *[F.col(_ROW).getField(name).alias(name) for name in layout.column_names],
        F.col("action").alias(names.action),
        F.col("is_update").alias(names.is_update),
        F.lpad(F.lower(F.hex(F.col(_ROW_ID))), ROW_ID_DIGITS, "0").alias(names.row_id),
    )


def _metadata_fields(names: MetadataColumns) -> list[StructField]:
    return [
        StructField(names.action, StringType(), False),
        StructField(names.is_update, BooleanType(), False),
        StructField(names.row_id, StringType(), True),
    ]
