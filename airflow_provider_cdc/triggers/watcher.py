"""The trigger of a stream's asset: it wakes DAGs when there is new data.

All watchers of one connection share a poll. A fired event is recorded in Airflow's asset state
store only after it is in Airflow's database. So a restarted triggerer does not repeat an event that
arrived, and does not lose an event that did not arrive.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from airflow.sdk import Asset
from airflow.triggers.base import BaseEventTrigger, TriggerEvent
from airflow.triggers.shared_stream import AdvanceItem, SharedStreamProducer

from airflow_provider_cdc.engine.catalog.log_glances import Glance
from airflow_provider_cdc.engine.clock import utc_now
from airflow_provider_cdc.engine.core.errors import StreamAccessDenied, StreamUnusable
from airflow_provider_cdc.engine.core.model.serialization import UnreadableStream
from airflow_provider_cdc.engine.core.names import stream_key
from airflow_provider_cdc.hooks.cdc import CdcHook

from .glancing import Glancing
from .threads import in_own_thread

if TYPE_CHECKING:
    from airflow.sdk.execution_time.context import AssetStateStoreAccessor

    from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
    from airflow_provider_cdc.engine.core.model.stream import Stream
    from airflow_provider_cdc.hooks.connection import CdcConnection

_KEY = "cdc.fired"
_PATIENCE_SECONDS = 60
# This is the offset of a stream whose record cannot be read.
_NOWHERE = -1
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Wake:
    """The reason to wake a DAG: a stream has data, or it cannot or may not be read.

    The data is after ``offset_version`` (exclusive) up to ``data_version`` (inclusive). ``problem``
    explains why the stream cannot or may not be read.
    """

    stream: str
    stream_id: str
    offset_version: int
    data_version: int | None
    # The text may change with every commit. A changed text is not a new reason.
    problem: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Fired:
    """The last wake of a watcher, and its time."""

    wake: Wake
    at: datetime

    def covers(self, wake: Wake, now: datetime, repeat_after: timedelta) -> bool:
        """Whether ``wake`` is the same as before, and is not yet due to be repeated."""
        return self.wake == wake and now - self.at < repeat_after


class Memory:
    """The last wake that a watcher fired, kept in the state store of its asset.

    If the store fails, the wake is forgotten and fires again.

    :param store: the store of the asset. ``None``: the wake is forgotten when the triggerer ends
    """

    def __init__(self, store: AssetStateStoreAccessor | None) -> None:
        self._store = store

    async def recall(self) -> Fired | None:
        """Return the kept wake, if it has the form of this version of the provider."""
        if self._store is None:
            return None
        try:
            found: Any = await self._store.aget(_KEY, {})
            return _fired_of(found)
        except Exception:
            _log.warning("could not load the last wake", exc_info=True)
            return None

    async def keep(self, fired: Fired) -> None:
        """Keep ``fired`` instead of the previous wake."""
        if self._store is None:
            return
        value: dict[str, Any] = {"wake": asdict(fired.wake), "at": fired.at.isoformat()}
        try:
            await self._store.aset(_KEY, value)
        except Exception:
            _log.warning("could not save %s", fired, exc_info=True)


def _fired_of(kept: Mapping[str, Any]) -> Fired | None:
    try:
        return Fired(Wake(**kept["wake"]), datetime.fromisoformat(kept["at"]))
    except (TypeError, KeyError, ValueError):
        return None


_Probe: TypeAlias = "asyncio.Task[Wake | None]"


class ProbeFailed(Exception):
    """A check could not find out whether a stream has data."""


class StreamPoll:
    """One poll of a connection: its current streams. A stream is checked when a watcher asks.

    :param streams: all streams of ``catalog``
    :param glance: what the logs were like before the checks of this poll; ``None``: unknown
    :param unfinished: checks of earlier polls that have not ended, by the keys of their streams
    :param known: checks of the previous poll whose results still hold, by the keys of their streams
    """

    def __init__(
        self,
        catalog: StreamCatalog,
        streams: Sequence[Stream | UnreadableStream],
        glance: Glance | None,
        unfinished: Mapping[str, _Probe],
        known: Mapping[str, _Probe],
    ) -> None:
        self._catalog = catalog
        self._glance = glance
        self._unfinished = unfinished
        self._streams = {stream_key(stream.name): stream for stream in streams}
        self._probes: dict[str, _Probe] = dict(known)
        self.fired: list[tuple[Memory, Fired]] = []

    async def probe(self, stream: str) -> Wake | None:
        """Return the reason to wake the watchers of ``stream``, or ``None``. They share one check.

        :raises ProbeFailed: the check failed, or an earlier check has not ended
        """
        key = stream_key(stream)
        if key in self._unfinished and not self._unfinished[key].done():
            raise ProbeFailed(stream)
        if key not in self._probes:
            self._probes[key] = asyncio.create_task(in_own_thread(self._probe, key))
        # A watcher that is cancelled must not cancel the check of another one.
        return await asyncio.shield(self._probes[key])

    async def settled(self) -> dict[str, _Probe]:
        """Wait for the checks of this poll, and return the checks that have not ended.

        The time to wait is limited, so that one check does not delay all streams. The result
        includes checks of earlier polls.
        """
        if self._probes:
            _, late = await asyncio.wait(self._probes.values(), timeout=_PATIENCE_SECONDS)
            if late:
                _log.warning("%s checks of streams have not ended", len(late))
        probes = {**self._unfinished, **self._probes}
        return {key: task for key, task in probes.items() if not task.done()}

    def still_holding(
        self, streams: Sequence[Stream | UnreadableStream], glance: Glance
    ) -> dict[str, _Probe]:
        """The checks of this poll that the next one need not repeat: the stream has not moved, and
        no table that it reads has a new version.

        :param streams: the streams of the next poll
        :param glance: what the logs are like then
        """
        if self._glance is None:
            return {}
        before = self._glance.sources
        return {
            key: self._probes[key]
            for stream in streams
            if (key := stream_key(stream.name)) in self._probes
            and _has_result(self._probes[key])
            and self._streams.get(key) == stream
            and before.get(stream.stream_id) == glance.sources.get(stream.stream_id)
        }

    def _probe(self, key: str) -> Wake | None:
        stream = self._streams.get(key)
        if stream is None:
            return None
        if isinstance(stream, UnreadableStream):
            return Wake(stream.name, stream.stream_id, _NOWHERE, None, str(stream.error))
        try:
            found = self._catalog.probe_of(stream)
        except (StreamUnusable, StreamAccessDenied) as error:
            return Wake(stream.name, stream.stream_id, stream.offset.version, None, str(error))
        except Exception as error:
            _log.warning("could not check stream %s", stream.name, exc_info=True)
            raise ProbeFailed(stream.name) from error
        if not found.may_have_data:
            return None
        return Wake(stream.name, stream.stream_id, found.offset_version, found.data_version)


def _has_result(probe: _Probe) -> bool:
    return probe.done() and not probe.cancelled() and probe.exception() is None


class StreamPolls(SharedStreamProducer):
    """Polls a connection endlessly for all watchers of its streams.

    Between two polls it glances at the logs of the registry and of the sources, which costs one
    small request for each. If one of them has grown, the next poll is at once, and checks only the
    streams that it concerns.

    :param conn_id: a connection of type ``cdc``
    :param poll_interval: seconds between two polls that check all streams
    """

    def __init__(self, conn_id: str, poll_interval: float) -> None:
        self._conn_id = conn_id
        self._poll_interval = poll_interval

    async def open_stream(self) -> AsyncIterator[tuple[StreamPoll, StreamPoll]]:
        """Yield a poll every ``poll_interval`` seconds, and when a log has grown.

        A failure is logged and not raised, because it would end every watcher of the connection.
        """
        source: _Source | None = None
        poll: StreamPoll | None = None
        unfinished: dict[str, _Probe] = {}
        due = time.monotonic()
        while True:
            begun = time.monotonic()
            is_due = begun >= due
            try:
                if source is None or is_due:
                    source = await self._current(source)
                streams, glance = await source.read()
                known: dict[str, _Probe] = {}
                if poll is not None and glance is not None and not is_due:
                    known = poll.still_holding(streams, glance)
                poll = StreamPoll(source.catalog, streams, glance, unfinished, known)
            except Exception:
                _log.warning("could not poll streams of %s", self._conn_id, exc_info=True)
                due = time.monotonic()
                await asyncio.sleep(self._poll_interval)
                continue
            if is_due:
                due = time.monotonic() + self._poll_interval
            yield poll, poll
            if glance is None:
                await asyncio.sleep(max(0, due - time.monotonic()))
            else:
                await source.glancing.wait_for_growth(
                    partial(source.glances.glance, readable(streams)),
                    glance,
                    due,
                    is_local=source.glances.is_local,
                    spent=time.monotonic() - begun,
                )
            # If a check takes longer than the interval, polls must not pile up.
            unfinished = await poll.settled()

    async def _current(self, source: _Source | None) -> _Source:
        # The connection may have been edited. If it is unchanged, the catalog is kept, because it
        # remembers what it read.
        settings = await CdcHook.asettings(self._conn_id)
        if source is not None and source.settings == settings:
            return source
        return _Source(self._conn_id, settings)

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """Record the fired wakes of polls whose events are in Airflow's database."""
        for poll, outcome in batch:
            for memory, fired in poll.fired if outcome.is_clean else ():
                await memory.keep(fired)


class _Source:
    """What polls read as long as the connection is unchanged."""

    def __init__(self, conn_id: str, settings: CdcConnection) -> None:
        self.settings = settings
        self.catalog = settings.catalog()
        self.glances = settings.log_glances()
        self.glancing = Glancing()
        self._conn_id = conn_id
        self._is_missed = False

    async def read(self) -> tuple[Sequence[Stream | UnreadableStream], Glance | None]:
        """The streams now, and a glance that is not newer than them or than their checks; ``None``:
        the store of a source does not answer.
        """
        registry, streams = await in_own_thread(self._registered)
        sources = await self.glancing.take(partial(self.glances.sources, readable(streams)))
        return streams, None if sources is None else Glance(registry, sources)

    def _registered(self) -> tuple[int, Sequence[Stream | UnreadableStream]]:
        registry = self.glances.registry()
        streams = self.catalog.list_streams_if_begun()
        if streams is None and not self._is_missed:
            _log.warning(
                "There is no registry in %s, so no stream of %s wakes a DAG. If there should be"
                " one, let the triggerer reach the state folder as workers do",
                self.settings.state,
                self._conn_id,
            )
        self._is_missed = streams is None
        return registry, streams or []


def readable(streams: Sequence[Stream | UnreadableStream]) -> list[Stream]:
    """The streams whose records can be read."""
    return [stream for stream in streams if not isinstance(stream, UnreadableStream)]


class StreamWatcherTrigger(BaseEventTrigger):
    """Fires for a stream's asset when the stream has new data, or when it cannot or may not be
    read. While this lasts, it fires again every ``repeat_after`` seconds.

    The event is a dict: ``stream``, ``stream_id``, ``offset_version`` (exclusive), ``data_version``
    (inclusive) and ``problem``, each as of the check.

    :param stream: the name of the stream; a stream that does not exist yet has no data
    :param conn_id: a connection of type ``cdc``
    :param asset: the name of the asset; its state store keeps the last event
    :param poll_interval: seconds between two polls that check all streams of the connection
    :param repeat_after: seconds after which data that still waits fires again
    """

    def __init__(
        self, *, stream: str, conn_id: str, asset: str, poll_interval: float, repeat_after: float
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's own
        self.stream = stream
        self.conn_id = conn_id
        self.asset = asset
        self.poll_interval = poll_interval
        self.repeat_after = repeat_after

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments, so that another triggerer can continue."""
        return (
            "airflow_provider_cdc.triggers.watcher.StreamWatcherTrigger",
            {
                "stream": self.stream,
                "conn_id": self.conn_id,
                "asset": self.asset,
                "poll_interval": self.poll_interval,
                "repeat_after": self.repeat_after,
            },
        )

    def shared_stream_key(self) -> Hashable:
        """Return the key of a poll. Watchers of one connection with one interval share a poll."""
        return ("cdc", self.conn_id, self.poll_interval)

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> StreamPolls:
        """Return the producer of the polls that the watchers share."""
        return StreamPolls(kwargs["conn_id"], kwargs["poll_interval"])

    async def filter_shared_stream(
        self, shared_stream: AsyncIterator[StreamPoll]
    ) -> AsyncIterator[TriggerEvent]:
        """Yield an event for each new wake of this watcher's stream."""
        memory = self._memory()
        fired = await memory.recall()
        repeat_after = timedelta(seconds=self.repeat_after)
        async for poll in shared_stream:
            try:
                wake, now = await poll.probe(self.stream), utc_now()
            except ProbeFailed:
                continue
            if wake is None:
                # The same data may come again, because the stream may be rewound.
                fired = None
                continue
            if fired and fired.covers(wake, now, repeat_after):
                continue
            fired = Fired(wake, now)
            yield TriggerEvent(asdict(wake))  # type: ignore[no-untyped-call]  # Airflow's own
            poll.fired.append((memory, fired))

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield the same events from a separate poll, if the triggerer does not share polls."""
        polls = StreamPolls(self.conn_id, self.poll_interval).open_stream()
        async for event in self.filter_shared_stream(poll async for poll, _ in polls):
            yield event

    def _memory(self) -> Memory:
        if self.asset_state_store is None:
            return Memory(None)
        return Memory(self.asset_state_store[Asset.ref(name=self.asset)])
