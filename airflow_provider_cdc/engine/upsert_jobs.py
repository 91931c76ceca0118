"""The apply jobs of upsert tables: how long they took, and when they are due; no Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from .core.lifecycle import Transition
from .core.model import Stream
from .core.upserts.definition import base_location
from .core.upserts.schedule import ApplySchedule, apply_interval
from .storage.apply_times import ApplyTimes
from .storage.registry_snapshot import Record
from .stream_status import StreamStatus

_MILLISECOND = timedelta(milliseconds=1)

WITHOUT_PROMISE = timedelta(hours=1)
"""How often changes are applied where every read merges what waits: so that this stays little."""

LONGEST_WITHOUT_PROMISE = 3 * WITHOUT_PROMISE
"""How long a change of such a table may wait before the monitor of streams tells."""


def apply_schedules(
    streams: Iterable[Stream], times: ApplyTimes, without_promise: timedelta = WITHOUT_PROMISE
) -> list[ApplySchedule]:
    """When the changes of each upsert table among ``streams`` are due to be applied.

    :param without_promise: how often where the table has no ``max_staleness``
    """
    tables = upsert_streams(streams)
    took = times.read(stream.stream_id for stream in tables)
    return [
        ApplySchedule(
            str(stream.upsert_table),
            base_location(stream.source.location),
            stream.name,
            apply_interval(stream.max_lag, took[stream.stream_id])
            if stream.max_lag
            else without_promise,
        )
        for stream in tables
    ]


def apply_watermark(stream: Stream, status: StreamStatus) -> datetime:
    """Every change that was ingested at or before it is applied or in quarantine; it never goes
    back (seed 004).

    :param stream: on the changes of an upsert table
    :param status: how it stands
    """
    if status.behind_since is not None:
        return status.behind_since - _MILLISECOND
    return stream.offset.timestamp


def upsert_stream(streams: Iterable[Stream], location: str) -> Stream | None:
    """The stream on the changes of the upsert table whose base has its root at ``location``."""
    for stream in upsert_streams(streams):
        if base_location(stream.source.location) == location:
            return stream
    return None


def upsert_streams(streams: Iterable[Stream]) -> list[Stream]:
    """Those on the changes of upsert tables; of several at one place the newest, as a table that
    was dropped past the engine and made again leaves the stream of the one before.
    """
    newest: dict[str, Stream] = {}
    for stream in streams:
        if stream.upsert_table is not None:
            location = stream.source.location
            newest[location] = max(
                (stream, newest.get(location, stream)), key=lambda found: found.created_at
            )
    return list(newest.values())


def recent_durations(
    stream_id: str, times: ApplyTimes, history: Callable[[], Iterable[Record]], since: datetime
) -> list[timedelta]:
    """How long applies took lately: from the moment that they were due, with the wait for a slot
    and the start of the driver, where that was noted in the last seven days; else as
    :func:`apply_durations` has it of those that ended after ``since``.

    :param history: gives that of the stream on the changes, oldest first
    """
    return times.read([stream_id])[stream_id] or apply_durations(history(), since)


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
