"""Which commits of a table still count after each of its commits, some of which are RESTOREs."""

from __future__ import annotations

from ..delta.log_actions import Commit


class LiveVersions:
    """The commits that still count after each commit that it followed.

    It keeps links. Sets of commits would grow with the square of the number of commits.
    """

    def __init__(self) -> None:
        self._below: dict[int, int | None] = {}
        self.newest: int | None = None

    def follow(self, commit: Commit, restored: int | None = None) -> None:
        """Take the next commit. ``restored`` is the version that it goes back to."""
        self._below[commit.version] = self.newest if restored is None else restored
        self.newest = commit.version

    def up_to(self, version: int | None) -> frozenset[int]:
        """``version`` and all known versions before it that still count there."""
        found = set()
        while version is not None and version in self._below:
            found.add(version)
            version = self._below[version]
        return frozenset(found)


def restored_version(commit: Commit) -> int | None:
    """The version of the table that a RESTORE brought back.

    ``None`` if ``commit`` is not a RESTORE, or does not record the version.
    """
    version = str(commit.operation_parameters.get("version"))
    return int(version) if commit.operation == "RESTORE" and version.isdecimal() else None
