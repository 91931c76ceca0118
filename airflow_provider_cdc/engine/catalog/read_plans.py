"""How the change set of a stream would be read, from the logs alone."""

from __future__ import annotations

from ..core.change_feed.feed_options import FeedSource
from ..core.change_feed.feed_plan import plan_feed
from ..core.change_sets.new_files import unread_files
from ..core.change_sets.read_plan import (
    PlannedRead,
    ReadPlan,
    Strategy,
    TablePlan,
    plan_difference,
    plan_initial_rows,
    plan_inserts,
    plan_survivors,
    plan_view,
)
from ..core.delta.layout_history import layout_history
from ..core.model.stream import AppendSemantics, StreamMode
from ..storage.delta.range_files import RangeFiles
from ..storage.files.stores import Files
from ..storage.sources.source_log import SourceRange, StreamSpan


class ReadPlanner:
    """Plans the reads of ranges.

    :param strategy: read net differences in this way if possible; by default in the way that reads
        the fewest bytes, including the cost of opening files
    """

    def __init__(self, files: Files, strategy: Strategy | None = None) -> None:
        self._files = files
        self._strategy = strategy

    def of_stream(self, span: StreamSpan) -> ReadPlan:
        """The plan of a stream; that of a view is a sum, and names each table."""
        plans = self.of_tables(span)
        if span.stream.view is None:
            return plans[0]
        names = (table.stream.source.name for table in span.tables)
        return plan_view([TablePlan(*each) for each in zip(names, plans, strict=True)])

    def of_tables(self, span: StreamSpan) -> tuple[ReadPlan, ...]:
        """The plan of each base table."""
        if span.stream.shows_initial_rows:
            return (plan_initial_rows(),) * len(span.tables)
        return tuple(map(self._of_table, span.tables))

    def of_difference(self, span: SourceRange, source: RangeFiles) -> PlannedRead:
        """The plan of a net difference. It uses no change files if one of them is missing.

        :param source: the files of the source of ``span``
        """
        history = layout_history(span.start, span.commits).layouts
        reading = plan_difference(span.commits, history, self._strategy)
        if reading.plan.strategy is Strategy.CHANGE_FILES:
            files = [source.absolute(file) for item in reading.by_commit for file in item.files]
            if source.missing(files):
                return plan_difference(span.commits, history, has_change_files=False)
        return reading

    def _of_table(self, span: SourceRange) -> ReadPlan:
        stream = span.stream
        if stream.folder is not None:
            return unread_files(span.commits).plan
        if stream.mode is StreamMode.FEED:
            return self._of_feed(span)
        if stream.mode is StreamMode.STANDARD:
            return self.of_difference(span, RangeFiles(stream.source.location, self._files)).plan
        if stream.append_semantics is AppendSemantics.SURVIVING:
            return plan_survivors(span.commits, span.layout).plan
        return plan_inserts(span.commits)

    def _of_feed(self, span: SourceRange) -> ReadPlan:
        forced = self._strategy is Strategy.FILE_DIFFERENCE
        source = FeedSource.ROW_TRACKING if forced else FeedSource.AUTO
        subject = f"stream {span.stream.name}"
        found = plan_feed(subject, span.start, span.commits, source, row_ids=True)
        return found.read_plan(len(span.commits))
