"""What an insert-only stream reads: the files that were added since its offset and still exist.

Snowflake: if file 1 is removed and file 2 is added between two offsets, the stream returns only the
rows of file 2. Overwritten or removed content can no longer be read. So only the newest version of
each file counts, in the commit that listed it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ..delta.log_actions import Commit, DataFile
from .read_plan import ReadPlan, Strategy


@dataclass(frozen=True, slots=True)
class UnreadFiles:
    """A plan, and the files that it reads, oldest commit first."""

    plan: ReadPlan
    files: tuple[DataFile, ...]


def unread_files(commits: Sequence[Commit]) -> UnreadFiles:
    """The files that consecutive ``commits`` of a folder's log added and left in place."""
    found: dict[str, DataFile] = {}
    for commit in commits:
        for file in commit.removes:
            found.pop(file.path, None)
        for file in commit.adds:
            found.pop(file.path, None)
            found[file.path] = file
    size_bytes = sum(file.size_bytes for file in found.values())
    strategy, reason = Strategy.INSERTED_FILES, "an insert-only stream reads only new files"
    if not found:
        strategy, reason = Strategy.NOTHING, "no new file remains"
    plan = ReadPlan(strategy, len(found), size_bytes, len(commits), reason)
    return UnreadFiles(plan, tuple(found.values()))


def without_superseded(commits: Sequence[Commit], later: Iterable[Commit]) -> tuple[Commit, ...]:
    """``commits`` without the files that ``later`` commits overwrote or removed.

    Their content as of ``commits`` is lost. Their newer content belongs to the later commits.
    """
    lost = {file.path for commit in later for file in (*commit.adds, *commit.removes)}
    if not lost:
        return tuple(commits)
    return tuple(
        replace(commit, adds=tuple(file for file in commit.adds if file.path not in lost))
        for commit in commits
    )
