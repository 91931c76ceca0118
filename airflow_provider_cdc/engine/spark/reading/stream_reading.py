"""The part of the engine that reads changes and moves no stream."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import DataFrame

from ...catalog.stream_catalog import StreamCatalog
from ...core.arguments.choices import parse_enum
from ...core.arguments.points import Point, bound_of
from ...core.arguments.validation import validated
from ...core.change_feed.feed_options import FeedColumns, FeedSchema, FeedSource, OutOfRange
from ...core.change_feed.feed_request import FeedEdge, checked_prefix
from ...core.change_sets.read_plan import ReadPlan
from ...core.errors import InvalidRequest
from ...core.model.access import Right
from ...core.model.stream import ColumnStyle, Information, StreamMode
from ...core.names import table_name
from ...storage.files.scratch import Scratch
from ...storage.sources.source_log import SourceLog, StreamSpan
from ..change_feed.feed_reader import FeedOptions
from .change_feeds import ChangeFeeds, FeedRequest
from .stream_reader import StreamReader
from .table_changes import TableChanges


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
        feeds: ChangeFeeds,
    ) -> None:
        self._streams = catalog
        self._sources = sources
        self._reader = reader
        self._scratch = scratch
        self._changes = changes
        self._feeds = feeds

    def stream_has_data(self, name: str, *, exact: bool = True) -> bool:
        """Whether a stream has a change that is not consumed.

        :param exact: read the change set if the log does not show the answer. If ``exact`` is
            false, the answer may be true without a change, but it is never false with a change
        :raises StreamNotFound: there is no such stream
        :raises StreamAccessDenied: the principal may not read it
        :raises StreamUnusable: its change set can no longer be read
        :raises FilesChanged: a file was overwritten or removed during the read
        :raises FileUnreadable: a file cannot be read in the stream's format
        """
        stream = self._streams.get_stream(name)
        if not self._streams.probe_of(stream).may_have_data:
            return False
        if not exact:
            return True
        span = self._sources.span(stream)
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
        """The change set of a stream from its offset to now; the call consumes nothing.

        The rows have the source's columns as they are now, then action, is-update and row id. An
        insert or a delete is one row, an update is two. The rows have no order. Snowflake: a query
        by itself moves no offset.

        For a stream on files, this call reads the files. Spark's executors keep the rows as long as
        the frame exists, so the rows stay the same if a file is overwritten later.

        :raises StreamNotFound: there is no such stream
        :raises StreamAccessDenied: the principal may not read it
        :raises StreamUnusable: its change set can no longer be read
        :raises FilesChanged: a file was overwritten or removed during the read
        :raises FileUnreadable: a file cannot be read in the stream's format
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

        The rows are those of a stream. Snowflake, CHANGES: a read-only query that needs no stream
        and moves no stream. Delta change data feed: the changes may begin with version 0. Before
        version 0 a table has no rows, so each row at the end is an INSERT. Then the log must be
        complete and row tracking must be on, both from version 0 on.

        Give one of ``at`` and ``before``.

        :param name: a catalog name of a table or a view, or the path of a Delta table
        :param at: the changes begin after this point (exclusive)
        :param before: the changes begin with this point (inclusive); ``Version(0)`` and earlier
            times are allowed
        :param end: the last point, inclusive; now by default
        :param information: ``default``: the net difference; ``append_only``: every row that was
            inserted, with its inserted values
        :param column_style: as for a stream
        :raises InvalidRequest: neither ``at`` nor ``before`` is given, or both
        :raises InvalidRange: the history does not hold a point, or they are in the wrong order
        :raises StreamAccessDenied: the principal may not read the stream of an ``OffsetOf``
        :raises StreamUnusable: the change set cannot be read
        """
        subject = f"changes of {name}"
        start, last = bound_of(subject, at, before), bound_of(subject, end, None)
        if start is None:
            raise InvalidRequest(
                subject,
                "have no beginning",
                cause="expected at or before, found neither",
                fix='pass their start, such as at=Version(3) or at=OffsetOf("a_stream")',
            )
        mode = parse_enum(subject, "information", Information, information).mode
        style = parse_enum(subject, "column_style", ColumnStyle, column_style)
        return self._changes.read(table_name(name), start, last, mode, style)

    def change_feed(
        self,
        name: str,
        *,
        from_version: int | None = None,
        from_timestamp: str | datetime | None = None,
        to_version: int | None = None,
        to_timestamp: str | datetime | None = None,
        source: FeedSource | str = FeedSource.AUTO,
        schema: FeedSchema | str = FeedSchema.END,
        out_of_range: OutOfRange | str = OutOfRange.ERROR,
        row_ids: bool = False,
        column_prefix: str = "",
        where: str | None = None,
        archive: str | None = None,
        exclude_regex: str | None = None,
    ) -> DataFrame:
        """Every change of each commit of a table between two bounds, both inclusive.

        The rows have the columns of the table, by default those at the end of the range, then
        ``_change_type`` (``insert``, ``delete``, ``update_preimage``, ``update_postimage``),
        ``_commit_version`` and ``_commit_timestamp``. The rows have no order.

        Delta change data feed: the same rows as ``table_changes``, but the feed of the table may
        have been off if row tracking was on. A row that a commit only moved into another file is no
        change. An UPDATE that writes equal values is a change.

        :param name: a catalog name or the path of a Delta table
        :param from_version: the first version
        :param from_timestamp: the earliest time of a commit: ``yyyy-MM-dd[ HH:mm:ss[.SSS]]`` in the
            session's time zone, or ISO 8601 with its offset from UTC
        :param to_version: the last version; by default the newest
        :param to_timestamp: the latest time of a commit, in the same form
        :param source: ``feed``: only what Delta's feed recorded, with the same rows as
            ``table_changes``; ``row_tracking``: only the data files; ``auto``: for each commit, the
            one that reads fewer bytes
        :param schema: if columns changed within the range: ``end``: the columns at the end;
            ``commit``: the dropped columns too, after the others. A column that a commit did not
            have is NULL
        :param out_of_range: if a bound is after the newest commit: ``error``, ``empty`` (no rows)
            or ``clamp`` (the feed ends with the newest commit)
        :param row_ids: add ``METADATA$ROW_ID``, the row id of a stream's change set
        :param column_prefix: what the names of the feed's columns begin with, for a table that has
            a column such as ``_change_type``
        :param where: a condition on the columns of the feed, in SQL
        :param archive: the table's archive (:meth:`archive_changes`). The versions that it holds
            are read from it, and the later ones from the table. So the range may begin with
            versions that the table no longer has
        :param exclude_regex: refused. Delta's option ``excludeRegex`` leaves files out by their
            names, so that a commit may be incomplete; use ``where``
        :raises InvalidRequest: the arguments contradict each other, or a column of the table has
            the name of one of the feed's columns
        :raises InvalidRange: the history does not hold a bound, or they are in the wrong order
        :raises ChangeTrackingDisabled: the changes of a commit were not recorded
        :raises StreamStale: files were removed, or the table was replaced within the range
        :raises StreamUnusable: a column has a new type that does not hold its old values
        """
        subject = f"change feed of {name}"
        if exclude_regex is not None:
            raise InvalidRequest(
                subject,
                "cannot leave out files by their names",
                cause="a commit would be incomplete without some of its files",
                fix="pass where with a condition on the rows instead of exclude_regex",
            )
        request = FeedRequest(
            FeedEdge("from", from_version, from_timestamp),
            FeedEdge("to", to_version, to_timestamp),
            parse_enum(subject, "out_of_range", OutOfRange, out_of_range),
            FeedOptions(
                parse_enum(subject, "source", FeedSource, source),
                parse_enum(subject, "schema", FeedSchema, schema),
                FeedColumns(checked_prefix(subject, column_prefix)),
                row_ids,
            ),
            where,
            archive,
        )
        return self._feeds.read(table_name(name), request)

    def explain_stream(self, name: str) -> ReadPlan:
        """How the change set of a stream would be read now; reads only the log.

        For a stream on a view the plan is a sum, and ``tables`` has the plan of each table. Changes
        of a table are joined with the rows of the other tables. These rows are scanned in addition.

        :raises StreamNotFound: there is no such stream
        :raises StreamAccessDenied: the principal may not read it
        :raises StreamUnusable: its change set can no longer be read
        """
        return self._reader.plan(self._span(name))

    def _span(self, name: str) -> StreamSpan:
        """The range that a stream has not consumed, if the principal may read the stream."""
        return self._sources.span(self._streams.permitted(name, Right.READ))
