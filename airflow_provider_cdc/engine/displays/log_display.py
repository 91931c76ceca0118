"""Shows progress as lines of the log, of which a task shows each one in its own log."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from ..core.work_progress import WorkProgress

log = logging.getLogger(__name__)

EVERY_SECONDS = 30.0
"""The time between two lines, and before the first one."""


@dataclass(frozen=True, slots=True)
class LogDisplay:
    """Logs a line in regular intervals, so that the log shows that work which takes long is alive
    and how far it is.
    """

    delay_seconds: float = EVERY_SECONDS
    every_seconds: float = EVERY_SECONDS

    def show(self, progress: WorkProgress) -> None:
        """Log how far the work is."""
        log.info("%s: %s", progress.headline, progress.details)

    def close(self) -> None:
        """Leave the lines."""
