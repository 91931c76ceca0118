"""Switches on what records the changes of a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...core.change_feed.feed_options import FeedColumns
from ...core.change_feed.recordings import FEED_ENABLED, is_fed
from ...core.change_feed.tracked_since import (
    ChangeTracking,
    change_feed_since,
    row_tracking_since,
)
from ...core.delta.log_actions import Commit
from ...core.delta.table_schema import Layout
from ...core.delta.tracking import ENABLED, is_tracked
from ...core.errors import InvalidRequest
from ...core.model.sources import Offset
from ...core.names import TableName, name_key
from ...storage.delta.delta_log import DeltaLog
from ...storage.files.stores import Files
from .delta_tables import Tables

_BATCH = 500


@dataclass(frozen=True, slots=True)
class ChangeTrackings:
    """Switches row tracking and the change data feed on, and finds out since when they are on."""

    tables: Tables
    files: Files

    def enable(self, name: TableName, *, row_tracking: bool, change_feed: bool) -> ChangeTracking:
        """Switch them on; see ``Engine.enable_change_tracking``."""
        if not (row_tracking or change_feed):
            raise InvalidRequest(
                f"table {name.sql}",
                "cannot have its changes recorded by nothing",
                cause="expected row_tracking or change_feed, found neither",
                fix="pass row_tracking=True, change_feed=True or both",
            )
        table = self.tables.get(name)
        newest = self.tables.newest_offset(table)
        wanted = {}
        if row_tracking and not is_tracked(newest.metadata):
            wanted[ENABLED] = "true"
        if change_feed and not is_fed(newest.metadata):
            _check_columns(table.name, newest)
            wanted[FEED_ENABLED] = "true"
        if wanted:
            self.tables.set_properties(table.sql, wanted)
            newest = self.tables.newest_offset(table)
        rows, feed = row_tracking_since(newest.metadata), change_feed_since(newest.metadata)
        for commit in _newest_first(DeltaLog(table.location, self.files), newest.version):
            rows.take(commit)
            feed.take(commit)
            if rows.is_found and feed.is_found:
                break
        return ChangeTracking(table.name, rows.version, feed.version)


def _newest_first(log: DeltaLog, newest: int) -> Iterator[Commit]:
    """The commits of ``log`` in batches, back to the first one that is missing."""
    oldest = log.listing().unbroken(newest).start
    for end in range(newest, oldest - 1, -_BATCH):
        yield from log.newest_first(after=max(end - _BATCH, oldest - 1), through=end)


def _check_columns(table: str, newest: Offset) -> None:
    """Refuse a table with a column whose name Delta's feed needs.

    Delta change data feed: such a table cannot have the feed.
    """
    reserved = set(map(name_key, FeedColumns().names))
    for column in Layout.of(newest.metadata).column_names:
        if name_key(column) in reserved:
            raise InvalidRequest(
                f"table {table}",
                "cannot have the change data feed",
                cause=f"it has a column {column}, a name that the feed needs",
                fix="rename that column, or pass row_tracking=True and change_feed=False, and read"
                " its feed with a column_prefix",
            )
