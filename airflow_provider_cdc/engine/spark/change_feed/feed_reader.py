"""Reads the change feed of a range: every change of every commit, in one frame."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from ...core.change_feed.feed_options import ChangeType, FeedColumns, FeedSchema, FeedSource
from ...core.change_feed.feed_plan import FeedPlan, plan_feed
from ...core.change_sets.crafted_log import (
    BASE_ROW_ID_COLUMN,
    CHANGE_TYPE_COLUMN,
    SIDE_COLUMN,
    VERSION_COLUMN,
    Side,
)
from ...core.change_sets.read_plan import ReadPlan
from ...core.delta.log_actions import DataFile
from ...core.delta.table_schema import Layout
from ...core.errors import StreamStale, StreamUnusable
from ...core.model.stream import METADATA_COLUMNS, Stream, StreamMode
from ...core.names import quote, spark_literal
from ...storage.delta.commit_times import CommitTimes
from ...storage.delta.delta_log import DeltaLog
from ...storage.delta.range_files import RangeFiles
from ...storage.files.scratch import Scratch
from ...storage.files.stores import Files
from ...storage.files.uris import plain_uri
from ...storage.sources.source_log import SourceRange
from ..change_sets.columns import spark_fields
from ..change_sets.initial_rows import all_rows
from ..change_sets.listed_rows import ListedRows
from ..change_sets.metadata_columns import NUMBER_AS_TEXT, check_free
from ..change_sets.row_columns import ROW_ID, ROW_VERSION, union
from ..change_sets.schema_checks import check_columns, check_session
from . import marking
from .feed_files import CHANGE_TYPE, RESERVED, FeedFiles, FeedRows, feed_files
from .pairing import paired

_DATA_FILES = (SIDE_COLUMN, VERSION_COLUMN, BASE_ROW_ID_COLUMN)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class FeedOptions:
    """How a feed is read, and which columns it has.

    ``loses_values``: a column whose new type does not hold its old values is NULL in older rows.
    Otherwise such a feed is refused.
    """

    source: FeedSource
    schema: FeedSchema
    columns: FeedColumns
    row_ids: bool
    loses_values: bool = False


@dataclass(frozen=True, slots=True)
class FeedRead:
    """A feed, not yet read. ``scratch`` names the folders that must stay while ``rows`` is in
    use. ``row_count`` is the number of rows if the log shows it; then each row is an insert.
    """

    rows: DataFrame
    plan: ReadPlan
    scratch: tuple[str, ...] = ()
    row_count: int | None = None


# How a stream with the mode ``FEED`` reads its source.
OF_STREAMS = FeedOptions(FeedSource.AUTO, FeedSchema.END, FeedColumns(), row_ids=True)
# An archive holds the old values already, where a commit wrote them.
OF_ARCHIVES = replace(OF_STREAMS, loses_values=True)


class FeedReader:
    """Reads the change feeds of ranges of tables.

    :param scratch: where crafted tables and file lists are written; Spark must be able to read it
    """

    def __init__(self, spark: SparkSession, files: Files, scratch: Scratch) -> None:
        self._spark = spark
        self._files = files
        self._scratch = scratch

    def read(self, span: SourceRange, options: FeedOptions) -> FeedRead:
        """The feed of ``span``: the columns of its table, and those of the feed.

        Delta change data feed: an insert or a delete is one row, an update is two, before and
        after. A row that a commit only moved into another file is no change.

        :raises InvalidRequest: the table has a column with the name of one of the feed's columns
        :raises StreamUnusable: a commit has its changes recorded nowhere, or a file is missing
        """
        stream = span.stream
        check_session(stream, self._spark)
        source = RangeFiles(stream.source.location, self._files)
        plan, files = self._existing(stream, self._plan(span, options), source)
        tables = ListedRows(self._spark, self._scratch, source)
        rows = FeedRows(
            self._spark,
            stream,
            plan,
            tables,
            options.schema,
            loses_values=options.loses_values,
        )
        check_columns(stream, rows.layout)
        check_feed_columns(stream, rows.layout, options)
        parts = [
            part
            for part in (
                _of_change_files(stream, rows, files, options),
                _of_whole_files(rows, files),
                paired(self._spark, rows, files, span.end.row_id_high_water_mark),
            )
            if part is not None
        ]
        read_plan = plan.read_plan(len(span.commits))
        if not parts:
            return FeedRead(self._nothing(stream, rows.layout, options), read_plan, row_count=0)
        log = DeltaLog(stream.source.location, self._files)
        times = CommitTimes(log).times(span.commits, span.end.properties)
        shown = _shown(stream, union(parts), _time_of(times), options)
        return FeedRead(shown, read_plan, tables.roots, files.insert_count)

    def initial(self, span: SourceRange, options: FeedOptions) -> DataFrame:
        """All rows at the start of ``span`` as inserts of that version.

        Delta change data feed: a streaming read begins with the rows of the table as inserts.

        :raises StreamStale: that version can no longer be read
        """
        check_feed_columns(span.stream, Layout.of(span.start.metadata), options)
        rows = all_rows(self._spark, span).selectExpr(
            "*",
            f"'{ChangeType.INSERT}' AS {CHANGE_TYPE}",
            f"{span.start.version}L AS {VERSION_COLUMN}",
        )
        log = DeltaLog(span.stream.source.location, self._files)
        micros = (CommitTimes(log).of_offset(span.start) - _EPOCH) // timedelta(microseconds=1)
        return _shown(span.stream, rows, f"timestamp_micros({micros})", options)

    def _plan(self, span: SourceRange, options: FeedOptions) -> FeedPlan:
        return plan_feed(
            _subject(span.stream),
            span.start,
            span.commits,
            options.source,
            row_ids=options.row_ids,
        )

    def _existing(
        self, stream: Stream, plan: FeedPlan, source: RangeFiles
    ) -> tuple[FeedPlan, FeedFiles]:
        """The plan and its files. If files are missing, their commits are read in the other way."""
        lost = _lost(plan, source)
        if lost:
            plan = plan.instead(lost)
            lost = _lost(plan, source)
        if lost:
            version = min(lost)
            fix = (
                f"begin with version {max(lost) + 1}; read changes within the table's"
                " delta.deletedFileRetentionDuration"
            )
            raise StreamStale(
                _subject(stream),
                f"cannot include version {version}",
                cause=f"{len(lost[version])} of its files were removed, the first is"
                f" {lost[version][0]}",
                fix=stream.way_back if stream.mode is StreamMode.FEED else fix,
            )
        return plan, feed_files(source, plan)

    def _nothing(self, stream: Stream, layout: Layout, options: FeedOptions) -> DataFrame:
        change_type, version, timestamp = options.columns.names
        fields = [
            *spark_fields(layout.fields),
            StructField(change_type, StringType(), False),
            StructField(version, LongType(), False),
            StructField(timestamp, TimestampType(), False),
        ]
        if options.row_ids:
            fields.append(StructField(_row_id_name(stream), StringType(), False))
        return self._spark.createDataFrame([], StructType(fields))


def check_feed_columns(stream: Stream, layout: Layout, options: FeedOptions) -> None:
    """Refuse a table with a column that has the name of one of the feed's columns.

    :raises InvalidRequest: names the column
    """
    reserved = [*options.columns.names]
    if options.row_ids:
        reserved.append(_row_id_name(stream))
    check_free(stream, layout.column_names, (*RESERVED, *marking.RESERVED))
    fix = "rename that column"
    if stream.mode is not StreamMode.FEED:
        fix = "rename that column, or pass a column_prefix for the columns of the feed"
    check_free(stream, layout.column_names, reserved, fix=fix)


def _subject(stream: Stream) -> str:
    return f"stream {stream.name}"


def _row_id_name(stream: Stream) -> str:
    return METADATA_COLUMNS[stream.column_style].row_id


def _lost(plan: FeedPlan, source: RangeFiles) -> dict[int, list[str]]:
    """The missing files of each commit of ``plan`` that misses some."""
    files = {
        commit.version: [source.absolute(file) for file in commit.files] for commit in plan.commits
    }
    missing = set(source.missing(file for each in files.values() for file in each))
    found = {version: sorted(missing & _paths(each)) for version, each in files.items()}
    return {version: paths for version, paths in found.items() if paths}


def _paths(files: Sequence[DataFile]) -> set[str]:
    """The paths of ``files`` and of their deletion vectors, as a store names them."""
    vectors = [file.deletion_vector for file in files]
    return {plain_uri(file.path) for file in files} | {
        plain_uri(vector.path_or_inline)
        for vector in vectors
        if vector is not None and vector.storage_type == "p"
    }


def _of_change_files(
    stream: Stream, rows: FeedRows, files: FeedFiles, options: FeedOptions
) -> DataFrame | None:
    found = rows.open(files.changes, (VERSION_COLUMN, CHANGE_TYPE_COLUMN))
    if found is None:
        return None
    if options.row_ids:
        # Change files hold no row ids of inserted rows. These rows are read from data files.
        found = found.where(f"{CHANGE_TYPE} <> '{ChangeType.INSERT}'")
        stop = f"raise_error({spark_literal(str(_without_row_ids(stream)))})"
        found = found.withColumn(ROW_ID, F.expr(f"if({ROW_ID} < 0, {stop}, {ROW_ID})"))
    return found.drop(ROW_VERSION)


def _of_whole_files(rows: FeedRows, files: FeedFiles) -> DataFrame | None:
    found = rows.open(files.whole, _DATA_FILES)
    if found is None:
        return None
    own = f"{SIDE_COLUMN} <> '{Side.INSERTED}' OR {ROW_ID} >= {BASE_ROW_ID_COLUMN}"
    if any(file.listed.side is Side.INSERTED for file in files.whole):
        found = found.where(own)
    change_type = f"if({SIDE_COLUMN} = '{Side.OLD}', '{ChangeType.DELETE}', '{ChangeType.INSERT}')"
    found = found.withColumn(CHANGE_TYPE, F.expr(change_type))
    return found.drop(SIDE_COLUMN, BASE_ROW_ID_COLUMN, ROW_VERSION)


def _shown(stream: Stream, rows: DataFrame, time: str, options: FeedOptions) -> DataFrame:
    """``rows`` with the columns of the feed as users see them, after those of the table.

    :param time: the expression of the time of a row's commit
    """
    change_type, version, timestamp = map(quote, options.columns.names)
    shown = [
        f"{CHANGE_TYPE} AS {change_type}",
        f"{VERSION_COLUMN} AS {version}",
        f"{time} AS {timestamp}",
    ]
    if options.row_ids:
        shown.append(f"{NUMBER_AS_TEXT} AS {quote(_row_id_name(stream))}")
    return rows.selectExpr("*", *shown).drop(CHANGE_TYPE, VERSION_COLUMN, ROW_ID)


def _time_of(times: Mapping[int, datetime]) -> str:
    """The expression of the time of a row's commit. The versions of ``times`` are consecutive."""
    first = min(times)
    micros = [(times[version] - _EPOCH) // timedelta(microseconds=1) for version in sorted(times)]
    values = f"from_json('{json.dumps(micros)}', 'ARRAY<BIGINT>')"
    return f"timestamp_micros(get({values}, CAST({VERSION_COLUMN} - {first} AS INT)))"


def _without_row_ids(stream: Stream) -> StreamUnusable:
    return StreamUnusable(
        _subject(stream),
        "cannot return row ids",
        cause="rows in change files have no row id, because their writer wrote none",
        fix="read or consume it in a notebook or a script, with an engine that has"
        ' strategy="file_difference"'
        if stream.mode is StreamMode.FEED
        else 'pass source="row_tracking", which does not read change files',
    )
