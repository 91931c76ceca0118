"""Streams without Spark: listing, describing, dropping, looking for data, in milliseconds."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from .clock import utc_now
from .core.errors import StreamNotFound
from .core.lifecycle import Transition, next_phase
from .core.model import Phase, Stream
from .core.names import consumer_name, stream_name
from .storage.files import Files
from .storage.registry import Registry
from .storage.registry_snapshot import Change, Record, RegistrySnapshot
from .storage.source_log import SourceLog, StreamLook
from .stream_status import StreamStatus, status_of


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
        self._moved(snapshot, snapshot.get(name), Transition.DROPPED, actor)

    def alter(self, name: str, *, comment: str | None, actor: str = "alter") -> Stream:
        """Give a stream another comment, or none.

        :raises StreamNotFound: there is none
        :raises StreamConflict: a consumption of it is open
        """
        snapshot = self._registry.snapshot()
        return self._moved(
            snapshot, snapshot.get(stream_name(name)), Transition.ALTERED, actor, comment=comment
        )

    def rename(self, name: str, to: str, *, actor: str = "rename") -> Stream:
        """Give a stream another name; statements find it under that name from then on.

        :raises StreamNotFound: there is none
        :raises StreamExists: there is another one of the new name
        :raises StreamConflict: a consumption of it is open
        """
        snapshot = self._registry.snapshot()
        stream = snapshot.get(stream_name(name))
        return self._moved(snapshot, stream, Transition.RENAMED, actor, name=stream_name(to))

    def clone(
        self, name: str, of: str, *, comment: str | None = None, owner: str = "clone"
    ) -> Stream:
        """Create a stream that stands where another one stands, and goes its own way.

        :raises StreamNotFound: there is no stream ``of``
        :raises StreamExists: there is a stream of that name
        """
        snapshot = self._registry.snapshot()
        original = snapshot.get(stream_name(of))
        clone = Stream(
            stream_id=uuid.uuid4().hex,
            name=stream_name(name),
            sequence=0,
            phase=Phase.IDLE,
            source=original.source,
            mode=original.mode,
            append_semantics=original.append_semantics,
            column_style=original.column_style,
            offset=original.offset,
            created_at=self._clock(),
            owner=consumer_name(owner),
            comment=comment,
        )
        (created,) = self._registry.transact(
            snapshot, [Change(clone, Transition.CREATED)], actor=owner
        )
        return created

    def undrop(self, name: str, *, actor: str = "undrop") -> Stream:
        """Bring back the stream that was dropped last under a name, where it stood.

        :raises StreamNotFound: none was dropped
        :raises StreamExists: there is a stream of that name
        """
        snapshot = self._registry.snapshot()
        stream = self._registry.dropped(stream_name(name))
        if stream is None:
            raise StreamNotFound(
                f"stream {name}",
                "cannot be brought back",
                cause="no stream was dropped under that name, or it was brought back already",
                fix="look at the list of streams, or create it",
            )
        return self._moved(snapshot, stream, Transition.UNDROPPED, actor)

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
        return status_of(self.describe(name), self._sources, self._clock())

    def statuses(self) -> list[StreamStatus]:
        """How every stream stands, by name."""
        return [status_of(stream, self._sources, self._clock()) for stream in self.show()]

    def _moved(
        self,
        snapshot: RegistrySnapshot,
        stream: Stream,
        transition: Transition,
        actor: str,
        **fields: Any,
    ) -> Stream:
        moved = replace(stream, phase=next_phase(stream, transition), **fields)
        (found,) = self._registry.transact(snapshot, [Change(moved, transition)], actor=actor)
        return found
