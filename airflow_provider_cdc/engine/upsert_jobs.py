"""The apply jobs of an upsert table, as the registry remembers them; no Spark."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from .core.lifecycle import Transition
from .storage.registry_snapshot import Record


def apply_durations(history: Iterable[Record], since: datetime) -> list[timedelta]:
    """How long each apply took that ended after ``since``, from its begin to its commit; one that
    was killed and finished later took as long as that.

    :param history: of the stream on the changes, oldest first
    """
    begun: datetime | None = None
    found = []
    for record in history:
        if record.transition is Transition.BEGUN:
            begun = record.at
        elif record.transition in (Transition.COMMITTED, Transition.ABORTED):
            if begun and record.transition is Transition.COMMITTED and record.at > since:
                found.append(record.at - begun)
            begun = None
    return found
