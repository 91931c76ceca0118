"""The trigger that waits in the triggerer for partitions of a change stream."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_cdc.engine.core.errors import StreamNotFound

from .waiting import Check, WaitingTrigger

if TYPE_CHECKING:
    from airflow_provider_cdc.hooks.connection import CdcConnection

_log = logging.getLogger(__name__)


class PartitionsReadyTrigger(WaitingTrigger):
    """Fires once, when a consumer has partitions to read or when waiting cannot help.

    The event is a dict: ``status`` is ``ready`` (with ``partitions``) or ``failed`` (with
    ``message`` and ``retryable``). It always has ``change_stream``, ``consumer`` and
    ``waiting_since``. Only the id of the connection is serialised, never its content.

    :param change_stream: the name of the change stream
    :param consumer: the name of the consumer
    :param start_timestamp: where a new consumer begins
    :param holder: the run of the DAG that will read the partitions
    :param conn_id: a connection of type ``cdc``
    :param poll_interval: seconds before the first check, and between two checks
    :param waiting_since: when the wait began, ISO 8601; the event repeats it
    """

    def __init__(
        self,
        *,
        change_stream: str,
        consumer: str,
        start_timestamp: str | None,
        holder: str,
        conn_id: str,
        poll_interval: float,
        waiting_since: str,
    ) -> None:
        super().__init__(conn_id=conn_id, poll_interval=poll_interval, waiting_since=waiting_since)
        self.change_stream = change_stream
        self.consumer = consumer
        self.start_timestamp = start_timestamp
        self.holder = holder

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments, so that another triggerer can continue."""
        return (
            "airflow_provider_cdc.triggers.change_streams.PartitionsReadyTrigger",
            {
                "change_stream": self.change_stream,
                "consumer": self.consumer,
                "start_timestamp": self.start_timestamp,
                "holder": self.holder,
                "conn_id": self.conn_id,
                "poll_interval": self.poll_interval,
                "waiting_since": self.waiting_since,
            },
        )

    @property
    def subject(self) -> dict[str, str]:
        """The change stream and the consumer."""
        return {"change_stream": self.change_stream, "consumer": self.consumer}

    def check_of(self, settings: CdcConnection) -> Check:
        """Return the check of what the consumer can read."""
        return partial(self._count, settings)

    def _count(self, settings: CdcConnection) -> dict[str, Any] | None:
        try:
            found = settings.change_streams().ready_partitions(
                self.change_stream,
                self.consumer,
                start_timestamp=self.start_timestamp,
                holder=self.holder,
            )
        except StreamNotFound:
            if settings.catalog().is_begun:
                raise
            # The task read the change stream, so this process does not reach the state folder.
            _log.warning("the folder of change stream %s is missing", self.change_stream)
            return None
        return {"partitions": found} if found else None
