"""Reads the change set of a range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, StringType, StructField, StructType

from ...catalog.read_plans import ReadPlanner
from ...core.change_sets.crafted_log import BASE_ROW_ID_COLUMN, ListedFile, Side
from ...core.change_sets.net_files import NetFiles, inserted_files
from ...core.change_sets.read_plan import (
    PlannedRead,
    ReadPlan,
    Strategy,
    inserted_row_count,
    plan_inserts,
    plan_survivors,
    row_count,
)
from ...core.consumption.statement_log import without_undone
from ...core.delta.layout_history import layout_history
from ...core.delta.log_actions import DataFile
from ...core.delta.table_schema import Layout, matching_path
from ...core.model.sources import Offset
from ...core.model.stream import METADATA_COLUMNS, AppendSemantics, MetadataColumns
from ...core.model.stream import StreamMode as Mode
from ...storage.delta.range_files import RangeFiles
from ...storage.files.scratch import Scratch
from ...storage.files.stores import Files
from ...storage.sources.source_log import SourceRange
from ..session.session_settings import may_broadcast
from .change_files import CHANGE_FILE_COLUMNS, listed_changes, netted_changes
from .columns import spark_fields
from .file_difference import IDS_IN_A_MASK, netted, without_carried_over
from .listed_rows import ListedRows
from .metadata_columns import each_named, with_metadata_columns
from .netting import DELETE, INSERT
from .row_columns import ROW_ID, ROW_VERSION, Sides, in_end_layout, union
from .schema_checks import check_columns, check_files, check_row_ids, check_session, check_types

# With fewer rows, reading the row ids first costs more than it saves.
MANY_REWRITTEN_ROWS = 500_000
# Each mask takes about 24 bytes in the memory of every executor, and more in the driver's.
MOST_MASKS = 50_000_000


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """A change set, not yet read.

    ``rows`` holds the source's columns as they are at the end of the range, then action
    (``INSERT``, ``DELETE``), is-update and row id. An insert or a delete is one row, an update is
    two. ``scratch`` names the folders that must stay while ``rows`` is in use. ``row_count`` is the
    number of rows if the log shows it. Then files store the rows in the form in which they are
    read, and each row is an insert.
    """

    rows: DataFrame
    plan: ReadPlan
    scratch: tuple[str, ...]
    row_count: int | None = None


class ChangeSetReader:
    """Reads the change sets of ranges of sources.

    :param scratch: where crafted tables and file lists are written; Spark must be able to read it
    :param strategy: read net differences in this way if possible; by default in the way that reads
        the fewest bytes, including the cost of opening files
    """

    def __init__(
        self,
        spark: SparkSession,
        files: Files,
        scratch: Scratch,
        strategy: Strategy | None = None,
    ) -> None:
        self._spark = spark
        self._files = files
        self._scratch = scratch
        self.planner = ReadPlanner(files, strategy)

    def read(self, span: SourceRange) -> ChangeSet:
        """The change set of ``span``.

        Snowflake: the minimal set of changes from the offset to the end of the range. A row that
        was inserted and deleted does not appear. A row that was inserted and updated is one INSERT.
        An update is a DELETE and an INSERT with is-update true. An update and a later delete are
        one DELETE of the row as it was at the offset. Append-only streams return only inserts.

        :raises StreamStale: a file that must be read is missing
        :raises StreamUnusable: a column has a new type that does not hold its old values, or in
            this session quoted names of columns are patterns
        """
        check_session(span.stream, self._spark)
        check_columns(span.stream, Layout.of(span.end.metadata))
        if span.stream.mode is Mode.STANDARD:
            return self._difference(span)
        if span.stream.append_semantics is AppendSemantics.SURVIVING:
            return self._survivors(span)
        return self._inserts(span)

    def _difference(self, span: SourceRange) -> ChangeSet:
        source = self._source(span)
        reading = self.planner.of_difference(span, source)
        tables = self._listed_rows(source)
        if reading.plan.strategy is Strategy.FILE_DIFFERENCE:
            return self._by_files(span, reading, source, tables)
        if reading.plan.strategy is Strategy.CHANGE_FILES:
            rows = self._by_change_files(span, reading, source, tables)
            return ChangeSet(rows, reading.plan, tables.roots)
        return self._nothing(span, reading.plan)

    def _by_files(
        self, span: SourceRange, reading: PlannedRead, source: RangeFiles, tables: ListedRows
    ) -> ChangeSet:
        net = reading.net
        check_files(span.stream, source, [source.absolute(file) for file in net.files])
        listed = source.listed(net)
        if not listed:
            return self._nothing(span, reading.plan)
        style = span.stream.column_style
        sides = self._sides(span, listed, tables)
        count = None
        if sides.new is None and sides.old is not None:
            rows = each_named(sides.old, DELETE, style)
        elif sides.old is None and sides.new is not None:
            rows = each_named(sides.new, INSERT, style)
            # Of a file whose deletion vector changed, only some rows are new.
            count = None if net.revectored else row_count(net.added)
        else:
            if _reads_ids_first(net, span.end) and may_broadcast(self._spark):
                sides = without_carried_over(sides, f"{ROW_VERSION} > {span.start.version}")
            changed = netted(sides, listed, _row_type(Layout.of(span.end.metadata)))
            rows = with_metadata_columns(changed, None, style)
        return ChangeSet(rows, reading.plan, tables.roots, count)

    def _by_change_files(
        self, span: SourceRange, reading: PlannedRead, source: RangeFiles, tables: ListedRows
    ) -> DataFrame:
        listed = listed_changes(source, reading.by_commit)
        check_row_ids(span.stream, [item.file for item in listed])
        end_layout, protocol = Layout.of(span.end.metadata), span.end.protocol
        rows = tables.open(end_layout, protocol, listed, CHANGE_FILE_COLUMNS)
        changes = netted_changes(span.stream, rows, listed, _row_type(end_layout))
        return with_metadata_columns(changes, None, span.stream.column_style)

    def _survivors(self, span: SourceRange) -> ChangeSet:
        """Every row that was inserted since the offset and still exists, with its values now."""
        reading = plan_survivors(span.commits, span.layout)
        if reading.plan.strategy is Strategy.NOTHING:
            return self._nothing(span, reading.plan)
        source = self._source(span)
        listed = source.listed(reading.net)
        check_files(span.stream, source, [item.file for item in listed])
        end_layout = Layout.of(span.end.metadata)
        tables = self._listed_rows(source)
        rows = tables.open(end_layout, span.end.protocol, listed, (), can_be_pruned=True)
        born = rows.where(F.col(ROW_ID) > span.start.row_id_high_water_mark)
        rows = each_named(born, INSERT, span.stream.column_style)
        return ChangeSet(rows, reading.plan, tables.roots)

    def _inserts(self, span: SourceRange) -> ChangeSet:
        """Every row that a commit of the range inserted, with its inserted values."""
        plan = plan_inserts(span.commits)
        if plan.strategy is Strategy.NOTHING:
            return self._nothing(span, plan)
        source = self._source(span)
        groups = _files_by_layout(span)
        files = [source.absolute(file) for group in groups for file in group.files]
        check_files(span.stream, source, files)
        history = layout_history(span.start, span.commits)
        paths = [matching_path(history.steps(group.position)) for group in groups]
        for steps in paths:
            check_types(span.stream, steps)
        tables = self._listed_rows(source)
        parts = []
        for group, steps in zip(groups, paths, strict=True):
            listed = [ListedFile(Side.INSERTED, source.absolute(file)) for file in group.files]
            rows = tables.open(
                steps[0], group.protocol, listed, (BASE_ROW_ID_COLUMN,), can_be_pruned=True
            )
            if not group.is_first:
                rows = rows.where(F.col(ROW_ID) >= F.col(BASE_ROW_ID_COLUMN))
            parts.append(in_end_layout(rows.drop(BASE_ROW_ID_COLUMN), steps))
        rows = each_named(union(parts), INSERT, span.stream.column_style)
        return ChangeSet(rows, plan, tables.roots, inserted_row_count(span.commits))

    def _nothing(self, span: SourceRange, plan: ReadPlan) -> ChangeSet:
        layout = Layout.of(span.end.metadata)
        names = METADATA_COLUMNS[span.stream.column_style]
        schema = StructType([*spark_fields(layout.fields), *metadata_fields(names)])
        return ChangeSet(self._spark.createDataFrame([], schema), plan, (), row_count=0)

    def _source(self, span: SourceRange) -> RangeFiles:
        return RangeFiles(span.stream.source.location, self._files)

    def _listed_rows(self, source: RangeFiles) -> ListedRows:
        return ListedRows(self._spark, self._scratch, source)

    def _sides(self, span: SourceRange, listed: Sequence[ListedFile], tables: ListedRows) -> Sides:
        """Both sides of the range, each opened separately. If one table held both, with a filter to
        separate them, Delta would list its files again for every stage of a query.
        """
        path = matching_path(layout_history(span.start, span.commits).steps())
        start_layout, end_layout = path[0], path[-1]
        start_protocol = span.start.protocol
        if len(path) == 2 and end_layout.reads_files_of(start_layout):  # noqa: PLR2004 - the two ends
            path, start_protocol = (end_layout,), span.end.protocol

        # If there are rows of only one side, they are not netted.
        can_be_pruned = len({file.side for file in listed}) == 1

        def opened(
            side: Side, steps: Sequence[Layout], protocol: Mapping[str, Any]
        ) -> DataFrame | None:
            files = [file for file in listed if file.side is side]
            if not files:
                return None
            check_types(span.stream, steps)
            rows = tables.open(steps[0], protocol, files, (), can_be_pruned=can_be_pruned)
            return in_end_layout(rows, steps)

        old = opened(Side.OLD, path, start_protocol)
        new = opened(Side.NEW, (end_layout,), span.end.protocol)
        return Sides(old, new, path[0].fields != end_layout.fields)


def _reads_ids_first(net: NetFiles, end: Offset) -> bool:
    """Whether reading the row ids of rewritten files before the columns is correct and cheaper."""
    masks = min(net.rewritten_rows, end.row_id_high_water_mark // IDS_IN_A_MASK)
    is_large = net.rewritten_rows > MANY_REWRITTEN_ROWS and masks <= MOST_MASKS
    return is_large and not net.restores_files


def _row_type(layout: Layout) -> StructType:
    return StructType(spark_fields(layout.fields))


@dataclass(frozen=True, slots=True)
class _WrittenFiles:
    """Files with inserted rows that were written under one layout.

    ``position`` is the place of the layout in the history. If ``is_first`` is true, the files are
    in version 0, which carries no row over. In a clone, these files keep the row ids of the clone's
    source.
    """

    position: int
    layout: Layout
    protocol: Mapping[str, Any]
    files: list[DataFile]
    is_first: bool


def _files_by_layout(span: SourceRange) -> list[_WrittenFiles]:
    """The files with inserted rows, in groups of consecutive commits under one layout."""
    layout, protocol = Layout.of(span.start.metadata), span.start.protocol
    position, is_other = 0, False
    groups: list[_WrittenFiles] = []
    for commit in without_undone(span.commits):
        protocol = commit.protocol or protocol
        if commit.metadata is not None:
            # A layout that comes back later may have other columns under the same names.
            is_other = is_other or Layout.of(commit.metadata) != layout
            layout, position = Layout.of(commit.metadata), position + 1
        files = [file for _, file in inserted_files([commit])]
        if not files:
            continue
        if groups and not is_other and not groups[-1].is_first:
            groups[-1].files.extend(files)
        else:
            is_other = False
            groups.append(_WrittenFiles(position, layout, protocol, files, commit.version == 0))
    return groups


def metadata_fields(names: MetadataColumns) -> list[StructField]:
    """The columns that a change set adds to the columns of its source."""
    return [
        StructField(names.action, StringType(), False),
        StructField(names.is_update, BooleanType(), False),
        StructField(names.row_id, StringType(), True),
    ]
