"""Checks of what a source must have, made before its change set is read."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from pyspark.sql import SparkSession

from ...core.change_sets.crafted_log import (
    BASE_ROW_ID_COLUMN,
    DEFAULT_VERSION_COLUMN,
    SIDE_COLUMN,
    VERSION_COLUMN,
)
from ...core.delta.log_actions import DataFile
from ...core.delta.table_schema import Layout
from ...core.delta.type_changes import lossy_change
from ...core.errors import StreamStale, StreamUnusable
from ...core.model.stream import Stream
from ...core.views.view_settings import NAMES_AS_PATTERNS
from ...storage.delta.range_files import RangeFiles
from ..session.session_settings import SWITCH_OFF, is_on
from .metadata_columns import check_names
from .row_columns import OWN_COLUMNS


def check_session(stream: Stream, spark: SparkSession) -> None:
    """Refuse a session in which quoted names of columns are patterns, because these would match
    other columns, or no column.

    :raises StreamUnusable: names the setting
    """
    if is_on(spark, NAMES_AS_PATTERNS):
        raise StreamUnusable(
            f"stream {stream.name}",
            f"cannot read the changes of {stream.table_on}",
            cause=f"with {NAMES_AS_PATTERNS}, quoted names of columns are patterns",
            fix=SWITCH_OFF,
        )


def check_columns(stream: Stream, layout: Layout) -> None:
    """Refuse a source with a column whose name a change set needs.

    :raises InvalidRequest: names the column
    """
    crafted = (SIDE_COLUMN, VERSION_COLUMN, BASE_ROW_ID_COLUMN, DEFAULT_VERSION_COLUMN)
    check_names(stream, layout.column_names, (*crafted, *OWN_COLUMNS))


def check_types(stream: Stream, steps: Sequence[Layout]) -> None:
    """Refuse to read rows of the first layout of ``steps`` as rows of the last one if the new type
    of a column cannot hold all its old values.

    :raises StreamUnusable: names the column and both types
    """
    for then, today in pairwise(steps):
        found = lossy_change(today.fields, then.fields)
        if found is not None:
            raise StreamUnusable(
                f"stream {stream.name}",
                f"cannot read the old rows of {stream.source.name} with its current columns",
                cause=f"{found.column} was of type {found.before} and is now of type {found.now},"
                " which cannot hold every old value",
                fix="consume the earlier changes with max_commits, then advance the stream"
                " with AdvanceStream or engine.advance_stream(stream), or create it again; then"
                " load again what depends on it",
            )


def check_files(stream: Stream, source: RangeFiles, files: Sequence[DataFile]) -> None:
    """Refuse ``files``, whose paths are absolute, if one is missing or has no row ids.

    :raises StreamStale: names the first such file
    """
    missing = source.missing(files)
    if missing:
        raise StreamStale(
            f"stream {stream.name}",
            "is stale, files that it has to read were removed",
            cause=f"{len(missing)} of {len(files)} are missing, the first is {missing[0]}",
            fix="if the range was bounded, consume the stream without a bound, because that may"
            f" need other files; otherwise {stream.way_back}; consume it within the source's"
            " delta.deletedFileRetentionDuration",
        )
    check_row_ids(stream, files)


def check_row_ids(stream: Stream, files: Sequence[DataFile]) -> None:
    """Refuse ``files`` for which the log lacks the row ids, the commit version of their own rows,
    or the size. If the action that removed a file has no size, it has no partition values either.

    :raises StreamStale: names the first such file
    """
    incomplete = [
        file
        for file in files
        if None in (file.base_row_id, file.default_row_commit_version) or not file.size_bytes
    ]
    if incomplete:
        raise StreamStale(
            f"stream {stream.name}",
            "is stale, files that it has to read have no row ids",
            cause=f"{len(incomplete)} of {len(files)} actions of {stream.source.name}'s log lack"
            f" baseRowId, defaultRowCommitVersion or size, the first is of {incomplete[0].path}",
            fix=f"write the source with a writer that keeps row tracking, and {stream.way_back}",
        )
