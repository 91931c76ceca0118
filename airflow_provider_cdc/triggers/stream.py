"""The trigger that waits in the triggerer for data of a stream."""

from __future__ import annotations

import logging
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_cdc.engine.core.errors import RegistryNotFound
from airflow_provider_cdc.hooks.readiness import ProbedStream, readiness

from .waiting import Check, WaitingTrigger

if TYPE_CHECKING:
    from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
    from airflow_provider_cdc.hooks.connection import CdcConnection

_log = logging.getLogger(__name__)


class StreamHasDataTrigger(WaitingTrigger):
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
        super().__init__(conn_id=conn_id, poll_interval=poll_interval, waiting_since=waiting_since)
        self.stream = stream
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

    @property
    def subject(self) -> dict[str, str]:
        """The stream."""
        return {"stream": self.stream}

    def check_of(self, settings: CdcConnection) -> Check:
        """Return the check of the stream's logs."""
        return partial(self._probe, settings.catalog())

    def _probe(self, catalog: StreamCatalog) -> dict[str, Any] | None:
        try:
            found = readiness(catalog, self.stream, empty=self._empty)
        except RegistryNotFound:
            # The task read the registry, so now this process does not reach the state folder.
            _log.warning("the registry in which stream %s was found is missing", self.stream)
            return None
        return None if found is None else asdict(found)

    @property
    def _empty(self) -> ProbedStream | None:
        if self.stream_id is None or self.offset_version is None or self.after_version is None:
            return None
        return ProbedStream(self.stream_id, self.offset_version, self.after_version)
