"""The part of the engine that keeps every change of a table for good."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from pyspark.sql import DataFrame

from ...core.archives.archive_outcome import ArchiveOutcome
from ...core.archives.definition import Archive
from ...core.archives.replay_point import Reach, replayed
from ...core.arguments.points import Timestamp, Version, point_json
from ...core.arguments.validation import validated
from ...core.change_feed.feed_request import FeedEdge
from ...core.consumption.batches import BatchLimit
from ...core.names import table_name
from ..archives.archive_tables import ArchiveTables
from ..archives.archived_changes import ArchivedChanges
from .archiving import ArchiveStart, Archiving


@validated
class Archives:
    """Archives of change feeds: filled exactly once, and replayed to any version.

    :param moment_of: returns the moment of a time in the session's time zone
    """

    def __init__(
        self,
        archiving: Archiving,
        tables: ArchiveTables,
        changes: ArchivedChanges,
        moment_of: Callable[[str], datetime | None],
    ) -> None:
        self._archiving = archiving
        self._tables = tables
        self._changes = changes
        self._moment_of = moment_of

    def archive_changes(
        self,
        table: str,
        archive: str,
        *,
        from_version: int | None = None,
        from_timestamp: str | datetime | None = None,
        bootstrap: bool = True,
        max_commits: int | None = None,
        max_bytes: int | None = None,
    ) -> ArchiveOutcome:
        """Append every change of a table that is not archived yet to its archive, exactly once.

        The first call creates the archive, a Delta table partitioned by ``_commit_date`` (UTC), and
        the stream that fills it. Delta change data feed: the feed is not a permanent record,
        because VACUUM and the clean-up of the log remove what it is read from. An archive keeps it
        for good.

        The archive has the columns of the feed, ``METADATA$ROW_ID``, ``_schema_version`` (the
        version of the table that set the columns of the change) and the columns of the table. A
        renamed column is renamed in the archive, an added one is added, a wider type is widened. A
        dropped column stays. If the driver crashes, the next call finishes what it began.

        :param table: a catalog name or the path of a Delta table
        :param archive: a catalog name or the path of the archive
        :param from_version: for a new archive, the first version whose changes it holds; by default
            it begins with the newest version
        :param from_timestamp: the same as a time, as for :meth:`change_feed`
        :param bootstrap: a new archive begins with all rows of the table before its first change,
            each as an insert. :meth:`replay` needs them
        :param max_commits: archive at most this many commits in this call
        :param max_bytes: archive only the first commits that together added and removed at most
            this many bytes of files, but at least one commit
        :raises TableNotFound: there is no such table
        :raises InvalidRequest: the archive is another table, belongs to another table, or was
            changed by hand; or its stream was moved by hand
        :raises InvalidRange: the history of the table does not hold the beginning
        :raises ChangeTrackingDisabled: the changes were not recorded from the beginning on
        :raises StreamStale: commits or files that are not archived yet were removed
        :raises StreamUnusable: the changes cannot be read
        :raises StreamConflict: other calls filled the archive at the same time
        :raises StatementFailed: the changes could not be written; nothing of them was archived
        """
        name = table_name(archive)
        point = FeedEdge("from", from_version, from_timestamp).point(
            f"archive {archive}", self._moment_of
        )
        before = None
        if point is not None:
            before = point_json(Version(point) if isinstance(point, int) else Timestamp(point))
        start = ArchiveStart(before, bootstrap)
        limit = BatchLimit(max_commits, max_bytes)
        return self._archiving.archive(table_name(table), name, start, limit)

    def replay(self, archive: str, *, as_of: Version | Timestamp | None = None) -> DataFrame:
        """The rows that a table had at a version, from its archive alone.

        They have the columns of the table at that version. The table, its files and its log are not
        read, and need not exist.

        :param archive: a catalog name or the path of an archive
        :param as_of: ``Version(3)`` or ``Timestamp("2026-01-01T00:00:00Z")``; by default the newest
            version that is archived
        :raises TableNotFound: there is no such archive
        :raises InvalidRequest: the table is not an archive, did not begin with all rows, or was
            changed by hand
        :raises InvalidRange: the archive begins later, or ends earlier
        :raises StreamUnusable: a row was written with a type that its column no longer has
        """
        found = self._tables.get(table_name(archive))
        self._tables.check_untouched(found)
        reach = self._changes.reach(found)
        condition = replayed(found, as_of, reach)
        assert reach is not None
        return self._changes.rows_at(found, condition, _era(found, as_of, reach))


def _era(archive: Archive, point: Version | Timestamp | None, reach: Reach) -> int:
    """The index of the era whose columns the rows at ``point`` have."""
    match point:
        case Version(number):
            return archive.era_at(number)
        case Timestamp():
            return archive.era_by(point.moment)
        case None:
            return archive.era_at(reach.version)
