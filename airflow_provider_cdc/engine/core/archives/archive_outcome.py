"""What one call archived."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ..figures import counted
from ..model.outcomes import Outcome
from ..summaries import place_text


@dataclass(frozen=True, slots=True)
class ArchiveOutcome:
    """What one call archived, in ``batches`` of whole commits.

    ``archive`` holds every change of ``table`` after version ``after_version`` through
    ``through_version``, whose commit was at ``through_timestamp``. ``stream`` fills it.
    ``has_more``: later commits wait, because of a limit or because they are new.
    """

    archive: str
    table: str
    stream: str
    after_version: int
    through_version: int
    through_timestamp: datetime
    batches: tuple[Outcome, ...]
    has_more: bool

    @property
    def rows(self) -> int:
        """The number of archived changes; an update counts once."""
        return sum(sum(each.rows.values()) for batch in self.batches for each in batch.streams)

    def __repr__(self) -> str:
        more = ", more is waiting" if self.has_more else ""
        return (
            f"<ArchiveOutcome {place_text(self.archive)} through version {self.through_version}:"
            f" {counted(self.rows, 'change')}{more}>"
        )
