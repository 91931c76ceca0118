"""The trigger of a stream's asset: it wakes DAGs when there is new data.

All watchers of one connection share a poll. A fired event is recorded in Airflow's asset state
store only after it is in Airflow's database. So a restarted triggerer does not repeat an event that
arrived, and does not lose an event that did not arrive.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from airflow.sdk import Asset
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_provider_cdc.engine.clock import utc_now

from .stream_polls import ProbeFailed, StreamPoll, StreamPolls
from .wakes import Fired, Memory


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
