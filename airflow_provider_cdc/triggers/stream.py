"""The trigger that waits in the triggerer for data of a stream."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_cdc.engine.core.errors import CdcError, RegistryNotFound
from airflow_provider_cdc.hooks.cdc import CdcHook
from airflow_provider_cdc.hooks.readiness import ProbedStream, readiness

from .threads import in_own_thread

if TYPE_CHECKING:
    from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog

_log = logging.getLogger(__name__)


class StreamHasDataTrigger(BaseTrigger):
    """Fires once, when the stream may have data or when waiting cannot help.

    The event is a dict: ``status`` is ``ready`` (with ``stream_id``, ``offset_version`` and
    ``latest_version``) or ``failed`` (with ``message`` and ``retryable``). It always has ``stream``
    and ``waiting_since``. Only the id of the connection is serialised, never its content.

    :param stream: the name of the stream
    :param conn_id: a connection of type ``cdc``
    :param poll_interval: seconds before the first check of the logs, and between two checks
    :param waiting_since: when the wait began, ISO 8601; the event repeats it
    :param after_version: a version of the source (inclusive) up to which there is no data
    :param offset_version: ``after_version`` holds only if the stream's offset is this version
    :param stream_id: ``after_version`` holds only if the stream has this id
    """

    def __init__(
        self,
        *,
        stream: str,
        conn_id: str,
        poll_interval: float,
        waiting_since: str,
        after_version: int | None = None,
        offset_version: int | None = None,
        stream_id: str | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's own
        self.stream = stream
        self.conn_id = conn_id
        self.poll_interval = poll_interval
        self.waiting_since = waiting_since
        self.after_version = after_version
        self.offset_version = offset_version
        self.stream_id = stream_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments, so that another triggerer can continue."""
        return (
            "airflow_provider_cdc.triggers.stream.StreamHasDataTrigger",
            {
                "stream": self.stream,
                "conn_id": self.conn_id,
                "poll_interval": self.poll_interval,
                "waiting_since": self.waiting_since,
                "after_version": self.after_version,
                "offset_version": self.offset_version,
                "stream_id": self.stream_id,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Check the logs every ``poll_interval`` seconds, in a thread, until there is an event.

        If a store or a connection cannot be reached, this is logged. The timeout of the task limits
        the wait.
        """
        catalog = event = None
        while event is None:
            # The task checked just before it deferred, so the first step is to wait.
            await asyncio.sleep(self.poll_interval)
            try:
                catalog = catalog or (await CdcHook.asettings(self.conn_id)).catalog()
                event = await in_own_thread(self._probe, catalog)
            except CdcError as error:
                event = {"status": "failed", "message": str(error), "retryable": error.retryable}
            except Exception:
                _log.warning("could not check stream %s", self.stream, exc_info=True)
                # The connection may be wrong and corrected later, so it is read again.
                catalog = None
        event = {**event, "stream": self.stream, "waiting_since": self.waiting_since}
        yield TriggerEvent(event)  # type: ignore[no-untyped-call]  # Airflow's own

    def _probe(self, catalog: StreamCatalog) -> dict[str, Any] | None:
        try:
            found = readiness(catalog, self.stream, empty=self._empty)
        except RegistryNotFound:
            # The task read the registry, so now this process does not reach the state folder.
            _log.warning("the registry in which stream %s was found is missing", self.stream)
            return None
        return None if found is None else {"status": "ready", **asdict(found)}

    @property
    def _empty(self) -> ProbedStream | None:
        if self.stream_id is None or self.offset_version is None or self.after_version is None:
            return None
        return ProbedStream(self.stream_id, self.offset_version, self.after_version)
