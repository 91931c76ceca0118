"""From which version on the changes of a table are recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..delta.log_actions import Commit
from ..delta.tracking import is_tracked, reassigns_columns, row_id_gap
from .recordings import is_fed


@dataclass(frozen=True, slots=True)
class ChangeTracking:
    """What records the changes of ``table``, and since which of its versions.

    A feed from ``row_tracking_since`` or ``change_feed_since`` on holds every change. ``None``: row
    tracking, or the change data feed, is off.
    """

    table: str
    row_tracking_since: int | None
    change_feed_since: int | None


class RecordedSince:
    """Finds the version since which changes are recorded, from the newest commit backwards.

    If the log begins later, it is the oldest commit.

    :param metadata: the ``metaData`` action in force at the newest version
    :param is_on: whether changes are recorded under a ``metaData`` action
    :param breaks: whether a commit hides what it changed, although recording is on
    """

    def __init__(
        self,
        metadata: Mapping[str, Any],
        is_on: Callable[[Mapping[str, Any]], bool],
        breaks: Callable[[Commit], bool],
    ) -> None:
        self._metadata = metadata
        self._is_on = is_on
        self._breaks = breaks
        self._changed: int | None = None
        self.version: int | None = None
        self.is_found = not is_on(metadata)

    def take(self, commit: Commit) -> None:
        """Consider ``commit``, which comes right before those that were taken."""
        if self.is_found:
            return
        if commit.metadata is not None and not self._continues(commit.metadata):
            self.version, self.is_found = self._changed, True
        elif self._breaks(commit):
            self.version, self.is_found = commit.version + 1, True
        else:
            if commit.metadata is not None:
                self._changed = commit.version
            self.version = commit.version

    def _continues(self, metadata: Mapping[str, Any]) -> bool:
        is_same_table = metadata.get("id") == self._metadata.get("id")
        return is_same_table and self._is_on(metadata)


def row_tracking_since(metadata: Mapping[str, Any]) -> RecordedSince:
    """Finds the version since which row tracking shows every change."""

    def is_on(other: Mapping[str, Any]) -> bool:
        return is_tracked(other) and not reassigns_columns(other, metadata)

    return RecordedSince(metadata, is_on, lambda commit: row_id_gap(commit) is not None)


def change_feed_since(metadata: Mapping[str, Any]) -> RecordedSince:
    """Finds the version since which Delta's feed holds every change."""
    return RecordedSince(metadata, is_fed, lambda _commit: False)
