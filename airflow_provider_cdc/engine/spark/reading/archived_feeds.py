"""The part of a change feed that is read from the table's archive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame

from ...core.archives.definition import (
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    ROW_ID,
    Archive,
)
from ...core.archives.replay_point import Reach
from ...core.change_feed.feed_options import FeedSchema
from ...core.change_feed.feed_request import FeedPoint
from ...core.change_feed.feed_schema import with_dropped_columns
from ...core.delta.layout_history import layout_history
from ...core.delta.table_schema import Layout, matching_path
from ...core.errors import InvalidRange, InvalidRequest
from ...core.model.sources import Offset
from ...core.names import TableName, moment_sql
from ...storage.delta.delta_log import DeltaLog
from ...storage.sources.feed_bounds import FeedBounds
from ...storage.sources.source_log import SourceRange
from ..archives.archive_tables import ArchiveTables
from ..archives.archived_changes import ArchivedChanges
from ..change_feed.feed_reader import FeedOptions
from .found_sources import FoundSource


@dataclass(frozen=True, slots=True)
class ArchivedPart:
    """What a feed takes from an archive: the changes that meet ``condition``, the last of them of
    version ``last`` or before it. The later ``table_versions`` are read from the table. ``offset``
    is the offset before them, if it is known.
    """

    archive: Archive
    condition: str
    last: int
    table_versions: range
    offset: Offset | None


@dataclass(frozen=True, slots=True)
class ArchivedFeeds:
    """Reads parts of feeds from archives."""

    tables: ArchiveTables
    changes: ArchivedChanges

    def part(
        self, subject: str, found: FoundSource, bounds: FeedBounds, log: DeltaLog, name: TableName
    ) -> ArchivedPart | None:
        """What a feed takes from the archive of that name; ``None``: all of it is in the table.

        :raises InvalidRequest: the archive belongs to another table, or was changed by hand
        :raises InvalidRange: the archive begins later than the feed, or a bound is after the newest
            commit and may not be
        """
        archive = self.tables.get(name)
        (newest,) = found.newest
        if archive.table_id != newest.table_id:
            raise InvalidRequest(
                subject,
                f"cannot be read from {archive.name}",
                cause=f"that is an archive of {archive.source} with the id {archive.table_id}, the"
                f" id of the table is {newest.table_id}",
                fix="name the archive of this table",
            )
        self.tables.check_untouched(archive)
        reach = self.changes.reach(archive)
        if reach is None or _is_after(bounds.first, reach):
            return None
        _check_begun(subject, archive, bounds.first)
        end = bounds.end(subject, log)
        conditions = [
            f"{COMMIT_VERSION} > {archive.after}L",
            # Another call may archive more in the meantime.
            f"{COMMIT_VERSION} <= {reach.version}L",
            _from(bounds.first),
        ]
        if end is None:
            conditions.append("false")
        elif bounds.last is not None:
            conditions.append(_to(bounds.last))
        last = reach.version if end is None else min(end, reach.version)
        rest = range(reach.version + 1, reach.version + 1 if end is None else end + 1)
        return ArchivedPart(archive, " AND ".join(conditions), last, rest, reach.offset)

    def rows(
        self, subject: str, part: ArchivedPart, span: SourceRange, options: FeedOptions
    ) -> DataFrame:
        """The changes of ``part``, with the columns that the whole feed has.

        :param span: the commits of its ``table_versions``
        """
        archive, place = part.archive, part.archive.era_at(part.last)
        later: Sequence[Layout] = ()
        if part.table_versions:
            later = layout_history(span.start, span.commits).steps()[1:]
        history = archive.history_to(place)
        if options.schema is FeedSchema.COMMIT:
            columns = with_dropped_columns(subject, [*history.layouts, *later])

            def steps(era: int) -> tuple[Layout, ...]:
                return matching_path((history.layouts[era], *(columns[era + 1 :] or columns[-1:])))
        else:

            def steps(era: int) -> tuple[Layout, ...]:
                return matching_path((*history.steps(era), *later))

        rows = self.changes.changes(archive, part.condition, place, steps)
        change_type, version, timestamp = options.columns.names
        shown = rows.withColumnsRenamed(
            {CHANGE_TYPE: change_type, COMMIT_VERSION: version, COMMIT_TIMESTAMP: timestamp}
        )
        return shown if options.row_ids else shown.drop(ROW_ID)


def _is_after(bound: FeedPoint, reach: Reach) -> bool:
    return bound > reach.timestamp if isinstance(bound, datetime) else bound > reach.version


def _check_begun(subject: str, archive: Archive, first: FeedPoint) -> None:
    """Refuse a feed that begins before its archive."""
    if isinstance(first, int):
        is_early = first <= archive.after
    else:
        is_early = first <= archive.after_timestamp and archive.after >= 0
    if is_early:
        raise InvalidRange(
            subject,
            f"begins before {archive.subject}",
            cause=f"the archive holds the changes after version {archive.after}, of"
            f" {archive.after_timestamp}",
            fix=f"begin with version {archive.after + 1}, or read what is before it without the"
            " archive",
        )


def _from(bound: FeedPoint) -> str:
    if isinstance(bound, int):
        return f"{COMMIT_VERSION} >= {bound}L"
    return f"{COMMIT_TIMESTAMP} >= {moment_sql(bound)}"


def _to(bound: FeedPoint) -> str:
    if isinstance(bound, int):
        return f"{COMMIT_VERSION} <= {bound}L"
    return f"{COMMIT_TIMESTAMP} <= {moment_sql(bound)}"
