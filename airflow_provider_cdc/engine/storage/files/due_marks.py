"""Small files that record when work below a folder was last done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from .stores import Files

_PER_HORIZON = 8
_LONGEST = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class DueMarks:
    """The marks below tables: the file ``_cdc/upkeep`` of each of them."""

    files: Files
    clock: Callable[[], datetime]

    def is_due(self, location: str, horizon: timedelta) -> bool:
        """Whether the work on the table at ``location`` was not done for a while.

        It is due several times within the horizon of the table, and at least daily: other old data
        are removed on time even if deletes are remembered for years. The first call notes the
        present, because a new table has nothing to do.
        """
        every = min(horizon / _PER_HORIZON, _LONGEST)
        try:
            last = datetime.fromisoformat(self.files.read(_mark(location)).decode())
        except FileNotFoundError:
            # The table is new or was dropped. After a drop, another one may be created there.
            if self.files.exists(f"{location}/_delta_log"):
                self.note(location, self.clock())
            return False
        # If the mark is in the future, its writer's clock was ahead.
        return not timedelta(0) <= self.clock() - last < every

    def note(self, location: str, moment: datetime) -> None:
        """Record when the work was done."""
        self.files.write(_mark(location), moment.isoformat().encode())


def _mark(location: str) -> str:
    return f"{location}/_cdc/upkeep"
