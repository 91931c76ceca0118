"""Whether somebody else changed the rows of an archive."""

from __future__ import annotations

from ..change_sets.net_files import fold
from ..consumption.statement_log import is_applied
from ..delta.log_actions import Commit


class ForeignChanges:
    """Looks for rows that others wrote to a table after its last consumption, or removed from it.

    Commits are taken newest first. ``version`` and ``operation`` are those of the oldest commit
    that changed rows; ``version`` is ``None`` if all of them together changed nothing, as a write
    and a RESTORE that undoes it. Commits that change no data, such as OPTIMIZE, do not count.
    """

    def __init__(self) -> None:
        self._commits: list[Commit] = []

    def take(self, commit: Commit) -> bool:
        """Consider ``commit``, which comes right before those that were taken.

        Returns whether earlier commits matter.
        """
        if is_applied(commit):
            return False
        if commit.changes_data:
            self._commits.append(commit)
        return True

    @property
    def version(self) -> int | None:
        """The version of the oldest commit that changed rows."""
        net = fold(reversed(self._commits))
        return None if net.is_empty else self._commits[-1].version

    @property
    def operation(self) -> str:
        """The operation of that commit, such as WRITE."""
        return self._commits[-1].operation

    @property
    def restorable(self) -> int:
        """The version before that commit."""
        return self._commits[-1].version - 1
