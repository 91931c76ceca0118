"""Where each commit of a range records its changes: in change files, or in its data files.

Protocol, "Change data files": a commit with change files holds all its updates and deletes there.
The changes of any other commit follow from its added and removed files and deletion vectors.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..delta.log_actions import Commit, DataFile
from .net_files import NetFiles, fold, inserted_files


@dataclass(frozen=True, slots=True)
class CommitChanges:
    """The files that record the changes of one commit.

    ``change_files`` hold rows with their kind of change. ``inserted`` are data files whose own rows
    were inserted, because change files do not hold the row ids of inserted rows. ``data_files`` is
    the file difference of a commit without change files.
    """

    version: int
    change_files: tuple[DataFile, ...]
    inserted: tuple[DataFile, ...]
    data_files: NetFiles

    @property
    def file_count(self) -> int:
        """How many files have to be read."""
        return len(self.change_files) + len(self.inserted) + self.data_files.file_count

    @property
    def size_bytes(self) -> int:
        """The bytes of these files."""
        files = (*self.change_files, *self.inserted)
        return sum(file.size_bytes for file in files) + self.data_files.size_bytes

    @property
    def files(self) -> tuple[DataFile, ...]:
        """All of these files. A file whose deletion vector changed is listed with both vectors."""
        return (*self.change_files, *self.inserted, *self.data_files.files)


def commit_changes(commits: Iterable[Commit]) -> list[CommitChanges]:
    """The recorded changes of each of ``commits`` that changed data, oldest first."""
    nothing = NetFiles((), (), (), False)
    found = []
    for commit in commits:
        if commit.change_files:
            inserted = tuple(file for _, file in inserted_files([commit]))
            found.append(CommitChanges(commit.version, commit.change_files, inserted, nothing))
        elif not (net := fold([commit])).is_empty:
            found.append(CommitChanges(commit.version, (), (), net))
    return found
