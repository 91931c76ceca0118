"""Reads the change set of a stream on any kind of source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.utils import is_remote

from ...core.change_feed.feed_options import FeedSource
from ...core.change_sets.read_plan import ReadPlan, Strategy, plan_initial_rows
from ...core.errors import CdcError
from ...core.model.stream import Stream, StreamMode
from ...storage.sources.source_log import SourceRange, StreamSpan
from ..change_feed.feed_reader import OF_STREAMS, FeedOptions, FeedReader
from ..change_sets.file_rows import FileRows
from ..change_sets.initial_rows import all_rows
from ..change_sets.metadata_columns import NUMBER_AS_TEXT, each_named, with_metadata_columns
from ..change_sets.netting import INSERT
from ..change_sets.row_columns import ROW, ROW_ID, in_one
from ..change_sets.table_changes_reader import ChangeSetReader
from ..views.view_changes import ViewChanges, ViewReader


@dataclass(frozen=True, slots=True)
class StreamChanges:
    """The change set of a stream, not yet read.

    ``rows`` holds the source's columns, then action (``INSERT``, ``DELETE``), is-update and row id.
    ``plans`` describe how each base table is read. ``reused`` are frames that ``rows`` reads more
    than once. ``scratch`` names the folders that must stay while ``rows`` is in use.

    ``rows`` must be read within :meth:`reading`. ``check`` raises if the rows that were read may be
    wrong, and ``fault`` explains a failure. If ``is_repeatable`` is false, a second read may return
    other rows, and each read needs all columns. If ``as_they_lie`` is true, files store the rows in
    the form in which they are read, and a second read costs no more than keeping them.
    ``row_count`` is the number of rows if the log shows it; then each row is an insert.
    """

    rows: DataFrame
    plans: tuple[ReadPlan, ...]
    reused: tuple[DataFrame, ...]
    scratch: tuple[str, ...]
    check: Callable[[], None] = lambda: None
    fault: Callable[[Exception], CdcError | None] = lambda _error: None
    is_repeatable: bool = True
    as_they_lie: bool = False
    row_count: int | None = None

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A block in which ``rows`` are read.

        :raises FilesChanged: a file was overwritten or removed during the read
        :raises FileUnreadable: a file cannot be read
        """
        try:
            yield
        except CdcError:
            raise
        except Exception as error:
            self.check()
            found = self.fault(error)
            if found is None:
                raise
            raise found from error
        self.check()

    def settled(self) -> DataFrame:
        """The rows in a form that the caller may keep. Others may overwrite files, so this call
        reads the rows of files now, and the executors keep them.

        :raises FilesChanged: a file was overwritten or removed during the read
        :raises FileUnreadable: a file cannot be read
        """
        if self.is_repeatable:
            return self.rows
        with self.reading():
            return self.rows.localCheckpoint(eager=True)

    def is_empty(self) -> bool:
        """Whether there are no rows; raises what :meth:`settled` raises."""
        if self.row_count is not None:
            return self.row_count == 0
        with self.reading():
            if self.is_repeatable:
                return self.rows.isEmpty()
            return self.rows.limit(1).localCheckpoint(eager=True).isEmpty()


class StreamReader:
    """Reads the change sets of streams."""

    def __init__(
        self,
        spark: SparkSession,
        tables: ChangeSetReader,
        views: ViewReader,
        files: FileRows,
        feeds: FeedReader,
        strategy: Strategy | None = None,
        feed_options: FeedOptions = OF_STREAMS,
    ) -> None:
        self._spark = spark
        self._tables = tables
        self._views = views
        self._files = files
        self._feeds = feeds
        self._feed_options = feed_options
        if strategy is Strategy.FILE_DIFFERENCE:
            self._feed_options = replace(feed_options, source=FeedSource.ROW_TRACKING)

    def read(self, span: StreamSpan) -> StreamChanges:
        """The change set of ``span``.

        Snowflake, SHOW_INITIAL_ROWS: until its initial rows are consumed, such a stream returns the
        rows at its offset, each as an insert, and no later change.

        :raises StreamUnusable: the change set can no longer be read
        """
        stream = span.stream
        if stream.view is not None:
            is_initial = stream.shows_initial_rows
            found = self._views.rows_at_offset(span) if is_initial else self._views.changes(span)
            return _of_view(stream, found)
        (table,) = span.tables
        if stream.folder is not None:
            of_files = self._files.read(table)
            return StreamChanges(
                of_files.rows,
                (of_files.plan,),
                (),
                (),
                of_files.check,
                of_files.fault,
                is_repeatable=False,
            )
        if stream.mode is StreamMode.FEED:
            return self._feed(table)
        if stream.shows_initial_rows:
            inserted = each_named(all_rows(self._spark, table), INSERT, stream.column_style)
            # Over Spark Connect each statement would look up the version of the rows again.
            as_they_lie = not is_remote()
            return StreamChanges(inserted, (plan_initial_rows(),), (), (), as_they_lie=as_they_lie)
        changes = self._tables.read(table)
        return StreamChanges(
            changes.rows,
            (changes.plan,),
            (),
            changes.scratch,
            as_they_lie=changes.row_count is not None,
            row_count=changes.row_count,
        )

    def _feed(self, table: SourceRange) -> StreamChanges:
        if table.stream.shows_initial_rows:
            rows = self._feeds.initial(table, self._feed_options)
            as_they_lie = not is_remote()
            return StreamChanges(rows, (plan_initial_rows(),), (), (), as_they_lie=as_they_lie)
        found = self._feeds.read(table, self._feed_options)
        return StreamChanges(
            found.rows,
            (found.plan,),
            (),
            found.scratch,
            as_they_lie=found.row_count is not None,
            row_count=found.row_count,
        )

    def all_rows(self, span: StreamSpan) -> DataFrame:
        """The rows of the stream's table or view at the end of ``span``: the row id as users see
        it, and the columns in one struct.

        :raises StreamStale: its view is a different one now, or cannot be read
        """
        if span.stream.view is not None:
            return self._views.rows_at_offset(span).rows.select(ROW_ID, ROW)
        (table,) = span.tables
        rows = all_rows(self._spark, table)
        columns = [name for name in rows.columns if name != ROW_ID]
        return rows.selectExpr(f"{NUMBER_AS_TEXT} AS {ROW_ID}", f"{in_one(columns)} AS {ROW}")

    def plan(self, span: StreamSpan) -> ReadPlan:
        """How :meth:`read` would read ``span``; reads only the logs."""
        return self._tables.planner.of_stream(span)


def _of_view(stream: Stream, found: ViewChanges) -> StreamChanges:
    rows = with_metadata_columns(found.rows, found.schema.names, stream.column_style, ROW_ID)
    return StreamChanges(rows, found.plans, found.reused, found.scratch)
