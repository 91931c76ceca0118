"""The trigger that waits for a stream's data in the triggerer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_cdc.engine.core.errors import CdcError
from airflow_provider_cdc.hooks.cdc import CdcHook
from airflow_provider_cdc.hooks.readiness import readiness

if TYPE_CHECKING:
    from airflow_provider_cdc.engine.catalog import StreamCatalog


class StreamHasDataTrigger(BaseTrigger):
    """Fires once: when the stream may have data, or when waiting can no longer help.

    The event is a dict: ``status`` is ``ready`` (with ``offset_version`` and ``latest_version``)
    or ``failed`` (with ``message`` and ``retryable``); ``stream`` and ``waiting_since`` are always
    there. Only the connection's id is serialised, never what it holds.

    :param stream: the name of the stream
    :param conn_id: a connection of type ``cdc``
    :param poll_interval: seconds between two looks at the logs
    :param waiting_since: when the wait began, ISO 8601; handed through to the event
    :param after_version: a version of the source (inclusive) up to which there is nothing
    """

    def __init__(
        self,
        *,
        stream: str,
        conn_id: str,
        poll_interval: float,
        waiting_since: str,
        after_version: int | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's own
        self.stream = stream
        self.conn_id = conn_id
        self.poll_interval = poll_interval
        self.waiting_since = waiting_since
        self.after_version = after_version

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Class path and arguments, from which another triggerer goes on."""
        return (
            "airflow_provider_cdc.triggers.stream.StreamHasDataTrigger",
            {
                "stream": self.stream,
                "conn_id": self.conn_id,
                "poll_interval": self.poll_interval,
                "waiting_since": self.waiting_since,
                "after_version": self.after_version,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look at the logs every ``poll_interval`` seconds, in a thread, until there is news."""
        try:
            catalog = (await CdcHook.asettings(self.conn_id)).catalog()
            while (event := await asyncio.to_thread(self._look, catalog)) is None:
                await asyncio.sleep(self.poll_interval)
        except CdcError as error:
            event = {"status": "failed", "message": str(error), "retryable": error.retryable}
        event = {**event, "stream": self.stream, "waiting_since": self.waiting_since}
        yield TriggerEvent(event)  # type: ignore[no-untyped-call]  # Airflow's own

    def _look(self, catalog: StreamCatalog) -> dict[str, Any] | None:
        status = readiness(catalog, self.stream, after_version=self.after_version)
        if status is None:
            return None
        return {
            "status": "ready",
            "offset_version": status.offset_version,
            "latest_version": status.latest_version,
        }
