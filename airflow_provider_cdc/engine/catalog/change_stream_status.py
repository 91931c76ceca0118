"""The status of a change stream and of its consumers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ..core.change_streams.captures import Capture, RecordTimes
from ..core.change_streams.consumer import ConsumerProgress, ConsumerState
from ..core.change_streams.definition import ChangeStream
from ..core.change_streams.stamps import moment_of
from ..core.figures import counted
from ..core.summaries import moment_text

_NOTHING = timedelta(0)


@dataclass(frozen=True, slots=True)
class ChangeStreamStatus:
    """The status of a change stream.

    Every record up to ``captured_through`` can be read. ``lag`` is the time since then.
    ``sealed_commits`` counts the commits that have a stamp and are not captured. Commits that no
    advance has sealed are not counted. ``partitions`` counts the open ones. ``quarantined`` counts
    the keys in quarantine that are kept now. ``consumers`` are all that have begun, by name.
    """

    name: str
    tables: tuple[str, ...]
    partitions: int
    captured_through: datetime
    lag: timedelta
    sealed_commits: int
    quarantined: int
    consumers: tuple[ConsumerProgress, ...]

    def __repr__(self) -> str:
        waiting = counted(self.sealed_commits, "commit")
        return (
            f"<ChangeStreamStatus {self.name}, {counted(self.partitions, 'partition')}, captured"
            f" through {moment_text(self.captured_through)}, {waiting} waiting,"
            f" {counted(len(self.consumers), 'consumer')}>"
        )


def status_of(
    stream: ChangeStream,
    consumers: Iterable[ConsumerState],
    captures: Sequence[Capture],
    now: datetime,
) -> ChangeStreamStatus:
    """The status of a change stream.

    :param consumers: the states of all its consumers
    :param captures: those that are kept
    """
    records = RecordTimes.of(captures)
    captured = moment_of(stream.captured)
    progress = (consumer.progress(stream, records) for consumer in consumers)
    return ChangeStreamStatus(
        name=stream.name,
        tables=tuple(table.name for table in stream.tables),
        partitions=len(stream.layout.open),
        captured_through=captured,
        lag=max(now - captured, _NOTHING),
        sealed_commits=len(stream.pending),
        quarantined=sum(capture.quarantined for capture in captures),
        consumers=tuple(sorted(progress, key=lambda each: each.consumer)),
    )
