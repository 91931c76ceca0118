"""Streams without Spark: listing, describing, dropping, looking for data, in milliseconds."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from .clock import utc_now
from .core.errors import StreamUnusable
from .core.lifecycle import Transition, next_phase
from .core.model import Source, Stream, StreamMode
from .core.names import stream_name
from .core.staleness import stale_after
from .storage.files import Files
from .storage.registry import Registry
from .storage.registry_snapshot import Change, Record
from .storage.source_log import SourceLog, StreamLook, holds_candidates


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """How a stream stands towards its source (seed 000: STALE, STALE_AFTER).

    ``versions_behind`` counts all commits after the offset, ``commits_behind`` those that changed
    data; both are ``None`` for a stream that cannot be read, and ``invalid_reason`` says why.
    ``may_have_data`` is false only when there is certainly no change for the stream's mode.
    ``stale_after`` is a prediction; ``stale`` says that it has passed, or that the stream cannot be
    read already.
    """

    name: str
    stream_id: str
    source: Source
    mode: StreamMode
    offset_version: int
    latest_version: int | None
    versions_behind: int | None
    commits_behind: int | None
    may_have_data: bool
    stale_after: datetime
    stale: bool
    invalid_reason: str | None


class StreamCatalog:
    """The streams of one state folder, read and changed without a JVM.

    :param state: the state folder, a URI or an absolute path
    :param storage_options: how to reach the store
    :param clock: gives the time, in UTC
    """

    def __init__(
        self,
        state: str,
        *,
        storage_options: Mapping[str, str] | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._registry = Registry(state, storage_options=storage_options, clock=clock)
        self._sources = SourceLog(Files(storage_options))
        self._clock = clock

    def show(self) -> list[Stream]:
        """All streams, by name."""
        return list(self._registry.snapshot().streams())

    def describe(self, name: str) -> Stream:
        """One stream; raises ``StreamNotFound``."""
        return self._registry.snapshot().get(stream_name(name))

    def history(self, name: str) -> list[Record]:
        """Every transition of a stream, oldest first; raises ``StreamNotFound``."""
        return self._registry.history(self.describe(name).stream_id)

    def drop(self, name: str, *, if_exists: bool = False, actor: str = "drop") -> None:
        """Drop a stream.

        :raises StreamNotFound: there is none, unless ``if_exists``
        :raises StreamConflict: a consumption of it is open
        """
        snapshot = self._registry.snapshot()
        stream = snapshot.find(stream_name(name))
        if stream is None and if_exists:
            return
        stream = snapshot.get(name)
        dropped = replace(stream, phase=next_phase(stream, Transition.DROPPED))
        self._registry.transact(snapshot, [Change(dropped, Transition.DROPPED)], actor=actor)

    def look(self, name: str) -> StreamLook:
        """Where a stream stands, and whether it may have a change: false only when it certainly
        has none. Cheaper than :meth:`status` where the offset lies far behind.

        Seed 000, SYSTEM$STREAM_HAS_DATA: it may be true without a change, never false with one.

        :raises StreamNotFound: there is no such stream
        :raises StreamUnusable: its change set can no longer be read
        """
        return self._sources.look(self.describe(name))

    def status(self, name: str) -> StreamStatus:
        """How one stream stands; raises ``StreamNotFound``."""
        return self._status(self.describe(name))

    def statuses(self) -> list[StreamStatus]:
        """How every stream stands, by name."""
        return [self._status(stream) for stream in self.show()]

    def _status(self, stream: Stream) -> StreamStatus:
        configuration = json.loads(stream.offset.metadata).get("configuration") or {}
        latest = behind = changing = reason = None
        may_have_data = False
        try:
            span = self._sources.range(stream)
        except StreamUnusable as error:
            reason = str(error)
        else:
            latest = span.end.version
            behind = len(span.commits)
            changing = sum(commit.changes_data for commit in span.commits)
            may_have_data = holds_candidates(span)
            configuration = json.loads(span.end.metadata).get("configuration") or {}
        predicted = stale_after(stream.last_consumed_at or stream.created_at, configuration)
        return StreamStatus(
            name=stream.name,
            stream_id=stream.stream_id,
            source=stream.source,
            mode=stream.mode,
            offset_version=stream.offset.version,
            latest_version=latest,
            versions_behind=behind,
            commits_behind=changing,
            may_have_data=may_have_data,
            stale_after=predicted,
            stale=reason is not None or predicted <= self._clock(),
            invalid_reason=reason,
        )
