"""The most that one consumption takes of a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..delta.log_actions import Commit
from ..errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class BatchLimit:
    """Bounds of one consumption, for each stream that it takes. ``None``: no bound.

    Databend, MAX_BATCH_SIZE: a batch ends between two commits and never inside one. So it is the
    same each time it is read. The first commit is taken even if it is larger than the bound.

    :param max_commits: the most commits of the source, including those without data
    :param max_bytes: the most bytes of files that these commits added and removed
    """

    max_commits: int | None = None
    max_bytes: int | None = None

    def __post_init__(self) -> None:
        """Refuse bounds within which nothing can be taken."""
        for name in ("max_commits", "max_bytes"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise InvalidRequest(
                    f"{name} {value!r}",
                    "is not a bound of a consumption",
                    cause="expected a whole number, 1 or more, or None for no bound",
                    fix="leave it out to consume everything",
                )

    def taken(self, commits: Iterable[Commit]) -> Iterator[Commit]:
        """The first of ``commits`` that fit. At most one commit after the last one is read."""
        size_bytes = 0
        for count, commit in enumerate(commits, 1):
            size_bytes += _size_bytes(commit)
            if count > 1 and self.max_bytes is not None and size_bytes > self.max_bytes:
                return
            yield commit
            if count == self.max_commits:
                return


def _size_bytes(commit: Commit) -> int:
    files = (*commit.adds, *commit.removes)
    return sum(file.size_bytes for file in files if file.data_change)
