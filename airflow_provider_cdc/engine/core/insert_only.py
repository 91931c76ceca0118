"""What an insert-only stream reads: the files that came since its offset and still are there.

Seed 000: if file 1 is removed and file 2 added between two offsets, the stream returns the rows of
file 2 alone. What was overwritten or removed can be read no more, so that of each file only the
newest version counts, in the commit that listed it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from .log_actions import Commit, DataFile
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
    strategy, reason = Strategy.INSERTED_FILES, "an insert-only stream reads the new files alone"
    if not found:
        strategy, reason = Strategy.NOTHING, "no new file is left"
    plan = ReadPlan(strategy, len(found), size_bytes, len(commits), reason)
    return UnreadFiles(plan, tuple(found.values()))


def without_superseded(commits: Sequence[Commit], later: Iterable[Commit]) -> tuple[Commit, ...]:
    """``commits`` without the files that ``later`` ones found overwritten or gone: their content as
    of ``commits`` is lost, and what took its place belongs to the later ones.
    """
    lost = {file.path for commit in later for file in (*commit.adds, *commit.removes)}
    if not lost:
        return tuple(commits)
    return tuple(
        replace(commit, adds=tuple(file for file in commit.adds if file.path not in lost))
        for commit in commits
    )
