"""The part of the engine that reads changes and moves nothing."""

from __future__ import annotations

from pyspark.sql import DataFrame

from ..catalog import StreamCatalog
from ..core.access import Right
from ..core.arguments import validated
from ..core.choices import Information, member
from ..core.errors import InvalidRequest
from ..core.model import ColumnStyle, StreamMode
from ..core.names import table_name
from ..core.points import Point, bound_of
from ..core.read_plan import ReadPlan, TablePlan, plan_view
from ..storage.scratch import Scratch
from ..storage.source_log import SourceLog, StreamSpan
from .changes import TableChanges
from .stream_reader import StreamReader


@validated
class StreamReading:
    """Streams and the changes of tables, as DataFrames."""

    def __init__(
        self,
        catalog: StreamCatalog,
        sources: SourceLog,
        reader: StreamReader,
        scratch: Scratch,
        changes: TableChanges,
    ) -> None:
        self._streams = catalog
        self._sources = sources
        self._reader = reader
        self._scratch = scratch
        self._changes = changes

    def has_data(self, name: str, *, exact: bool = True) -> bool:
        """Whether a stream has a change that is not consumed.

        :param exact: read the change set where the log alone cannot tell; otherwise the answer may
            be true without a change, never false with one
        :raises StreamNotFound: there is no such stream
        :raises StreamAccessDenied: the principal may not
        :raises StreamUnusable: its change set can no longer be read
        :raises FilesChanged: a file was overwritten or removed while it was read
        :raises FileUnreadable: a file cannot be read as the stream says
        """
        if not self._streams.look(name).may_have_data:
            return False
        if not exact:
            return True
        span = self._span(name)
        change_set = self._reader.read(span)
        try:
            is_empty = change_set.is_empty()
        finally:
            for root in change_set.scratch:
                self._scratch.remove(root)
        is_over = span.stream.view is None or span.stream.mode is StreamMode.STANDARD
        if is_empty and is_over and not span.may_be_refilled:
            self._streams.skip_range(span)
        return not is_empty

    def read_stream(self, name: str) -> DataFrame:
        """The change set of a stream from its offset to now; never consumes.

        The source's columns as they are now, then action, is-update and row id: one row for an
        insert or a delete, two for an update, in no order. Seed 000: a query alone moves no offset.

        Files are read by this call, and their rows kept by Spark's executors as long as the frame:
        what is overwritten later changes nothing.

        :raises StreamNotFound: there is no such stream
        :raises StreamAccessDenied: the principal may not
        :raises StreamUnusable: its change set can no longer be read
        :raises FilesChanged: a file was overwritten or removed while it was read
        :raises FileUnreadable: a file cannot be read as the stream says
        """
        return self._reader.read(self._span(name)).settled()

    def changes(
        self,
        name: str,
        *,
        at: Point | None = None,
        before: Point | None = None,
        end: Point | None = None,
        information: str = "default",
        column_style: ColumnStyle | str = ColumnStyle.SNOWFLAKE,
    ) -> DataFrame:
        """What changed in a table or a view between two points of its history.

        The rows are those of a stream. Seed 000, CHANGES: read-only, no stream is needed and none
        moves. Seed 003: they may begin with version 0. In front of it a table has no rows, so each
        row at the end is an INSERT; its log has to be whole, and row tracking on, from there on.

        :param name: a catalog name of a table or a view, or the path of a Delta table
        :param at: the point behind which the changes begin, exclusive; or else
        :param before: the point that they begin with, inclusive; ``Version(0)`` and times before
            it too
        :param end: the last point, inclusive; now by default
        :param information: ``default``: the net difference; ``append_only``: every row that was
            inserted, as it was inserted
        :param column_style: as of a stream
        :raises InvalidRequest: neither ``at`` nor ``before`` is given, or both
        :raises InvalidRange: the history does not hold a point, or they are in the wrong order
        :raises StreamAccessDenied: the principal may not read the stream of an ``OffsetOf``
        :raises StreamUnusable: the change set cannot be told
        """
        subject = f"changes of {name}"
        start, last = bound_of(subject, at, before), bound_of(subject, end, None)
        if start is None:
            raise InvalidRequest(
                subject,
                "have no beginning",
                cause="expected at or before, found neither",
                fix='say where they begin, such as at=Version(3) or at=OffsetOf("a_stream")',
            )
        mode = member(subject, "information", Information, information).mode
        style = member(subject, "column_style", ColumnStyle, column_style)
        return self._changes.read(table_name(name), start, last, mode, style)

    def explain(self, name: str) -> ReadPlan:
        """How the change set of a stream would be read now; looks at the log alone.

        Of a stream on a view it is a sum, and ``tables`` has the plan of each table. The rows of
        the other tables, which changes of a table are joined with, are scanned beside that.

        :raises StreamNotFound: there is no such stream
        :raises StreamAccessDenied: the principal may not
        :raises StreamUnusable: its change set can no longer be read
        """
        span = self._span(name)
        plans = self._reader.plans(span)
        if span.stream.view is None:
            return plans[0]
        names = (table.stream.source.name for table in span.tables)
        return plan_view([TablePlan(*each) for each in zip(names, plans, strict=True)])

    def _span(self, name: str) -> StreamSpan:
        """What a stream that the principal may read has not consumed."""
        return self._sources.span(self._streams.permitted(name, Right.READ))
