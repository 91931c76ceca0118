"""Folds the commits of a range into the net difference of the table's files.

Only the files that differ between the two ends of the range have to be read. So the cost of a
change set depends on the bytes touched and not on the number of commits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from ..delta.deletion_vectors import is_vector_file
from ..delta.log_actions import Commit, DataFile

_WITHOUT_INSERTS = frozenset({"UPDATE", "DELETE"})
_MERGE = "MERGE"


@dataclass(frozen=True, slots=True)
class ChangedVector:
    """A file that exists at both ends, with different deletion vectors."""

    old: DataFile
    new: DataFile


@dataclass(frozen=True, slots=True)
class NetFiles:
    """The files that differ between the two ends of a range.

    ``removed`` files exist only at the start, ``added`` files only at the end. ``changes_data`` is
    false if no commit of the range is marked as a data change, for example if all are OPTIMIZE.
    Then both ends hold the same rows. ``restores_files`` is true if rows may have returned to an
    older state, with their row ids and row commit versions (RESTORE).
    """

    removed: tuple[DataFile, ...]
    added: tuple[DataFile, ...]
    revectored: tuple[ChangedVector, ...]
    changes_data: bool
    restores_files: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether the two ends certainly hold the same rows."""
        return not self.changes_data or not (self.removed or self.added or self.revectored)

    @property
    def has_both_sides(self) -> bool:
        """Whether the range may have both removed and added rows."""
        is_removed = bool(self.removed or self.revectored)
        return is_removed and bool(self.added or self.revectored)

    @property
    def size_bytes(self) -> int:
        """The bytes of all files that have to be read, each counted once."""
        files = (*self.removed, *self.added, *(pair.new for pair in self.revectored))
        return sum(file.size_bytes for file in files)

    @property
    def files(self) -> tuple[DataFile, ...]:
        """All of these files. A file whose deletion vector changed is listed with both vectors."""
        pairs = [file for pair in self.revectored for file in (pair.old, pair.new)]
        return (*self.removed, *self.added, *pairs)

    @property
    def rewritten_rows(self) -> int:
        """The most rows that may have been carried over or changed.

        These are the rows of the larger side, if files were both removed and added. A file without
        a row count counts as zero rows.
        """
        sides = (self.removed, self.added)
        rows = (sum(file.record_count or 0 for file in side) for side in sides)
        return max(rows) if all(sides) else 0

    @property
    def file_count(self) -> int:
        """How many data files have to be read."""
        return len(self.removed) + len(self.added) + len(self.revectored)


def fold(commits: Iterable[Commit]) -> NetFiles:
    """The net file difference of consecutive ``commits``, oldest first."""
    old: dict[str, DataFile | None] = {}
    new: dict[str, DataFile | None] = {}
    changes_data = is_back = False
    for commit in commits:
        changes_data = changes_data or commit.changes_data
        is_back = is_back or restores_files(commit)
        for file in commit.removes:
            if _holds_vectors(file):
                continue
            old.setdefault(file.path, file)
            new[file.path] = None
        for file in commit.adds:
            old.setdefault(file.path, file if existed_before(file, commit.version) else None)
            new[file.path] = file
    return _difference(old, new, changes_data, is_back)


def inserted_files(commits: Iterable[Commit]) -> list[tuple[int, DataFile]]:
    """The files that the commits wrote with new rows, each with the version of its commit.

    Snowflake: an append-only stream returns inserted rows only. Only these files can hold inserted
    rows. Files are left out if a RESTORE brought them back, if they only got a deletion vector, or
    if UPDATE, DELETE or OPTIMIZE wrote them.
    """
    return [
        (commit.version, file)
        for commit in commits
        if inserts_rows(commit)
        for file in commit.adds
        if file.data_change and file.default_row_commit_version == commit.version
    ]


def inserts_rows(commit: Commit) -> bool:
    """Whether ``commit`` may have written rows that were not there before.

    UPDATE and DELETE only carry rows over. A MERGE also only carries rows over if its commit
    records an empty list of clauses for source rows that match no row.
    """
    if commit.operation == _MERGE:
        clauses = commit.operation_parameters.get("notMatchedPredicates")
        return (json.loads(clauses) if isinstance(clauses, str) else clauses) != []
    return commit.operation not in _WITHOUT_INSERTS


def newborn_files(commits: Iterable[Commit]) -> set[str]:
    """The paths of the files that may hold rows inserted by ``commits``.

    These are the files that the commits wrote, except those that UPDATE, DELETE and OPTIMIZE made
    of files without such rows.
    """
    found: set[str] = set()
    for commit in commits:
        carries = not inserts_rows(commit) or not commit.changes_data
        if not carries or any(file.path in found for file in commit.removes):
            found.update(file.path for file in commit.adds)
    return found


def existed_before(file: DataFile, version: int) -> bool:
    """Whether an added ``file`` was already in the table.

    COMPUTE STATISTICS adds files again without removing them.
    """
    first_version = file.default_row_commit_version
    return not file.data_change and first_version is not None and first_version < version


def _holds_vectors(file: DataFile) -> bool:
    """Whether a removed ``file`` holds deletion vectors and no rows.

    Section "Deletion Vector Descriptor Schema" of the protocol defines the names of such files. A
    commit that drops the feature lists them like data files. So a writer that does not know
    deletion vectors keeps them as long as the files that they belong to.
    """
    is_untracked = file.base_row_id is None and file.deletion_vector is None
    return not file.data_change and is_untracked and is_vector_file(file.path.rsplit("/", 1)[-1])


def restores_files(commit: Commit) -> bool:
    """Whether ``commit`` may bring back files that were removed."""
    removed = {file.path for file in commit.removes}
    return commit.operation == "RESTORE" or any(
        file.data_change
        and file.path not in removed
        and (file.default_row_commit_version or 0) < commit.version
        for file in commit.adds
    )


def _difference(
    old: dict[str, DataFile | None],
    new: dict[str, DataFile | None],
    changes_data: bool,
    is_restoring: bool,
) -> NetFiles:
    removed: list[DataFile] = []
    added: list[DataFile] = []
    revectored: list[ChangedVector] = []
    for path, before in old.items():
        after = new[path]
        if before is not None and after is not None:
            if before.deletion_vector != after.deletion_vector:
                revectored.append(ChangedVector(before, after))
        elif before is not None:
            removed.append(before)
        elif after is not None:
            added.append(after)
    return NetFiles(tuple(removed), tuple(added), tuple(revectored), changes_data, is_restoring)
