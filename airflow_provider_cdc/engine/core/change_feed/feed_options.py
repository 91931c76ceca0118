"""What a read of the change feed returns: its columns, its kinds of change and its choices."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ChangeType(StrEnum):
    """What a row of the change feed is (Delta change data feed: ``_change_type``)."""

    INSERT = "insert"
    DELETE = "delete"
    PREIMAGE = "update_preimage"
    POSTIMAGE = "update_postimage"


class FeedSource(StrEnum):
    """Where the changes of a commit are read.

    ``feed``: from what Delta's change data feed recorded; every commit needs it. ``row_tracking``:
    from the data files that the commit added and removed, whose rows are paired by their row ids.
    ``auto``: for each commit, the one that reads fewer bytes of those that are possible.
    """

    AUTO = "auto"
    FEED = "feed"
    ROW_TRACKING = "row_tracking"


class FeedSchema(StrEnum):
    """Which columns of a table a feed has, if they changed within the range.

    ``end``: those at the end. ``commit``: those, and then the columns that were dropped within the
    range; a column that a commit did not have is NULL. Columns are matched by their ids, and have
    their last names.
    """

    END = "end"
    COMMIT = "commit"


class OutOfRange(StrEnum):
    """What happens if a bound is after the newest commit.

    ``error`` refuses the range. ``empty`` returns no row. ``clamp`` ends the range at the newest
    commit.
    """

    ERROR = "error"
    EMPTY = "empty"
    CLAMP = "clamp"


@dataclass(frozen=True, slots=True)
class FeedColumns:
    """The columns that the feed adds to those of its table, each with ``prefix`` before its name.

    A table that has a column of one of these names needs a prefix.
    """

    prefix: str = ""

    @property
    def change_type(self) -> str:
        """The column of the :class:`ChangeType`."""
        return f"{self.prefix}_change_type"

    @property
    def commit_version(self) -> str:
        """The column of the commit's version."""
        return f"{self.prefix}_commit_version"

    @property
    def commit_timestamp(self) -> str:
        """The column of the commit's time."""
        return f"{self.prefix}_commit_timestamp"

    @property
    def names(self) -> tuple[str, str, str]:
        """All three, in their order."""
        return self.change_type, self.commit_version, self.commit_timestamp
