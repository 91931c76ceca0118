"""The result of a write of changes, as the commit of the write shows it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ..delta.log_actions import Commit, DataFile
from ..figures import counted, known_sum
from .change_rows import REASON


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What a write of changes wrote.

    ``changes`` is the number of rows that were written, including the ``bad`` ones that go to the
    quarantine. ``version`` is the version of the table of changes that holds them. ``is_repeated``:
    an earlier call with the same id wrote the changes, and this call wrote nothing. Each of them is
    ``None`` if the log does not show it.
    """

    changes: int | None
    bad: int | None
    version: int | None
    is_repeated: bool | None

    def __repr__(self) -> str:
        return f"<WriteResult {self.text}>"

    @property
    def text(self) -> str:
        """The result in words: ``wrote 12 changes, 1 of them bad``."""
        writer = "an earlier call wrote" if self.is_repeated else "wrote"
        found = "changes" if self.changes is None else counted(self.changes, "change")
        return f"{writer} {found}{f', {self.bad:,} of them bad' if self.bad else ''}"


def write_result(commit: Commit | None, *, is_repeated: bool | None) -> WriteResult:
    """The result of the write that made ``commit``; ``None``: the log no longer shows the commit.

    The counts come from the statistics of the files, so no file is read.
    """
    if commit is None:
        return WriteResult(None, None, None, is_repeated)
    changes = known_sum(file.record_count for file in commit.adds)
    good = known_sum(map(_good, commit.adds))
    bad = None if changes is None or good is None else changes - good
    return WriteResult(changes, bad, commit.version, is_repeated)


def _good(file: DataFile) -> int | None:
    """The number of changes without a reason why they are bad."""
    found = json.loads(file.stats or "{}").get("nullCount", {}).get(REASON)
    return None if found is None else int(found)
