"""The apply jobs of upsert tables, without Spark: how long they took, and when they are due."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from ..core.model.lifecycle import Transition
from ..core.model.stream import Stream
from ..core.upserts.apply_schedule import ApplySchedule, apply_interval
from ..core.upserts.definition import base_location
from ..storage.registry.registry_snapshot import Record
from ..storage.state.apply_times import ApplyTimes
from .stream_status import StreamStatus

_MILLISECOND = timedelta(milliseconds=1)

DEFAULT_INTERVAL = timedelta(hours=1)
"""How often changes are applied if every read merges the waiting changes, so that only few wait."""

LONGEST_WITHOUT_MAX_STALENESS = 3 * DEFAULT_INTERVAL
"""How long a change of such a table may wait before the monitor of streams sends an alert."""


def apply_schedules(
    streams: Iterable[Stream], times: ApplyTimes, default_interval: timedelta = DEFAULT_INTERVAL
) -> list[ApplySchedule]:
    """When the changes of each upsert table among ``streams`` are due to be applied.

    :param default_interval: the interval for a table without ``max_staleness``
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
            else default_interval,
        )
        for stream in tables
    ]


def apply_watermark(stream: Stream, status: StreamStatus) -> datetime:
    """The apply watermark. Every change that was ingested at or before it is applied or in
    quarantine. The watermark never goes back. BigQuery: ``upsert_stream_apply_watermark``.

    :param stream: a stream on the changes of an upsert table
    :param status: the status of ``stream``
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
    """The streams on the changes of upsert tables. If there are several at one location, only the
    newest is returned. A table that was dropped without the engine and created again leaves its old
    stream.
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
    """How long recent applies took. If times were noted in the last seven days, these times count.
    They begin at the moment that the apply was due, so they include the wait for a slot and the
    start of the driver. Otherwise :func:`apply_durations` gives the times of applies that ended
    after ``since``.

    :param history: gives the history of the stream on the changes, oldest first
    """
    return times.read([stream_id])[stream_id] or apply_durations(history(), since)


def apply_durations(history: Iterable[Record], since: datetime) -> list[timedelta]:
    """How long each apply took that ended after ``since``, from its begin to its commit. If an
    apply was killed and finished later, its time counts up to its commit.

    :param history: the history of the stream on the changes, oldest first
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
