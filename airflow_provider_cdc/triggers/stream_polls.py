"""The polls of a connection that all watchers of its streams share."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from airflow.triggers.shared_stream import AdvanceItem, SharedStreamProducer

from airflow_provider_cdc.engine.catalog.log_glances import Glance
from airflow_provider_cdc.engine.core.errors import StreamAccessDenied, StreamUnusable
from airflow_provider_cdc.engine.core.model.serialization import UnreadableStream
from airflow_provider_cdc.engine.core.names import stream_key
from airflow_provider_cdc.hooks.cdc import CdcHook

from .glancing import Glancing
from .threads import in_own_thread
from .wakes import Fired, Memory, Wake

if TYPE_CHECKING:
    from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
    from airflow_provider_cdc.engine.core.model.stream import Stream
    from airflow_provider_cdc.hooks.connection import CdcConnection

_PATIENCE_SECONDS = 60
# This is the offset of a stream whose record cannot be read.
_NOWHERE = -1
_log = logging.getLogger(__name__)

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
