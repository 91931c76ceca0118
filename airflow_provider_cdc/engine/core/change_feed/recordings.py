"""Which commits of a range have their changes recorded, and where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..delta.log_actions import Commit
from ..delta.tracking import hides_rows, is_on, is_tracked, reassigns_columns, row_id_gap

FEED_ENABLED = "delta.enableChangeDataFeed"


@dataclass(frozen=True, slots=True)
class Recording:
    """Where the changes of ``commit`` are recorded.

    ``is_fed``: the change data feed was on. ``is_tracked``: row tracking was on after it. ``gap``
    is the reason why row ids do not show the changes; ``None`` if they do. ``table_id`` is the id
    that the table had after the commit.
    """

    commit: Commit
    is_fed: bool
    is_tracked: bool
    gap: str | None
    table_id: str

    @property
    def unreadable(self) -> str | None:
        """Why the data files of the commit cannot be read; ``None`` if they can.

        Delta protocol: a ``remove`` without extended metadata has no size and no partition values.
        """
        for file in (*self.commit.removes, *self.commit.adds):
            if file.data_change and not file.size_bytes:
                return f"version {self.commit.version} lists {file.path} without its size"
        return None

    @property
    def has_changes(self) -> bool:
        """Whether the commit may have changed rows."""
        return self.commit.changes_data or hides_rows(self.commit)


def is_fed(metadata: Mapping[str, Any]) -> bool:
    """Whether the change data feed is on in a ``metaData`` action."""
    return is_on(metadata, FEED_ENABLED)


def recordings(metadata: Mapping[str, Any], commits: Iterable[Commit]) -> list[Recording]:
    """Where each of ``commits`` has its changes recorded, oldest first.

    :param metadata: the ``metaData`` action in force before the first commit; for a range that
        begins with version 0, that of version 0
    """
    found = []
    for commit in commits:
        gap: str | None
        before, metadata = metadata, commit.metadata or metadata
        if not is_tracked(before):
            gap = f"row tracking was off before version {commit.version}"
        elif not is_tracked(metadata):
            gap = f"version {commit.version} switched row tracking off"
        elif reassigns_columns(before, metadata):
            gap = f"version {commit.version} set up row tracking again"
        else:
            gap = row_id_gap(commit) or _missing_ids(commit)
        found.append(
            Recording(commit, is_fed(metadata), is_tracked(metadata), gap, str(metadata["id"]))
        )
    return found


def _missing_ids(commit: Commit) -> str | None:
    """Why the files of ``commit`` cannot be paired: another writer left out what it needs."""
    for file in (*commit.removes, *commit.adds):
        if file.data_change and None in (file.base_row_id, file.default_row_commit_version):
            return (
                f"version {commit.version} lists {file.path} without baseRowId or"
                " defaultRowCommitVersion"
            )
    return None
