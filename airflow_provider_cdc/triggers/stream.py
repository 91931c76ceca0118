"""The trigger that waits in the triggerer for data of a stream."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import TaskSuccessEvent, TriggerEvent

from airflow_provider_cdc.engine.core.errors import RegistryNotFound
from airflow_provider_cdc.hooks.cdc import CdcHook
from airflow_provider_cdc.hooks.readiness import ProbedStream, probed_range, readiness

from .glancing import LEAST_SECONDS, Glancing
from .threads import in_own_thread
from .waiting import Check, WaitingTrigger

if TYPE_CHECKING:
    from airflow_provider_cdc.engine.catalog.log_glances import LogGlances
    from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
    from airflow_provider_cdc.hooks.connection import CdcConnection

_log = logging.getLogger(__name__)


class StreamHasDataTrigger(WaitingTrigger):
    """Fires once, when the stream may have data or when waiting cannot help.

    The event is a dict: ``status`` is ``ready`` (with ``stream_id``, ``offset_version`` and
    ``latest_version``) or ``failed`` (with ``message`` and ``retryable``). It always has ``stream``
    and ``waiting_since``. Only the id of the connection is serialised, never its content.

    Between two checks it glances whether the source has a new commit, and if so it checks at once.

    :param stream: the name of the stream
    :param conn_id: a connection of type ``cdc``
    :param poll_interval: the most seconds before the first check of the logs, and between two
        checks
    :param waiting_since: when the wait began, ISO 8601; the event repeats it
    :param after_version: a version of the source (inclusive) up to which there is no data
    :param offset_version: ``after_version`` holds only if the stream's offset is this version
    :param stream_id: ``after_version`` holds only if the stream has this id
    :param ends_task: whether data ends the task at once, with ``stream``, ``offset_version`` and
        ``latest_version`` as its result. Then no process is started to resume the task
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
        ends_task: bool = False,
    ) -> None:
        super().__init__(conn_id=conn_id, poll_interval=poll_interval, waiting_since=waiting_since)
        self.stream = stream
        self.after_version = after_version
        self.offset_version = offset_version
        self.stream_id = stream_id
        self.ends_task = ends_task

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
                "ends_task": self.ends_task,
            },
        )

    @property
    def subject(self) -> dict[str, str]:
        """The stream."""
        return {"stream": self.stream}

    def check_of(self, settings: CdcConnection) -> Check:
        """Return the check of the stream's logs."""
        return partial(self._probe, settings.catalog())

    async def rest(self) -> None:
        """Wait until the source has a new commit, for at most ``poll_interval`` seconds.

        Whatever else may have changed, such as the offset, is found by the check after that.
        """
        until = time.monotonic() + self.poll_interval
        if self.poll_interval <= LEAST_SECONDS:
            return await super().rest()
        try:
            settings = await CdcHook.asettings(self.conn_id)
            glances = settings.log_glances()
            found = await in_own_thread(self._glance, settings.catalog(), glances)
        except Exception:
            # The check reports what is wrong.
            _log.debug("could not glance at the logs of %s", self.stream, exc_info=True)
            return await super().rest()
        if found is not None:
            glance, seen = found
            await Glancing().wait_for_growth(
                glance, seen, until, is_local=glances.is_local, spent=0
            )
        return None

    def _glance(
        self, catalog: StreamCatalog, glances: LogGlances
    ) -> tuple[Callable[[], object], object] | None:
        """Return how to glance at the logs, and what the first glance shows; ``None``: there is
        data already.

        The check for data comes after that glance, because a commit since the check of the task
        would show in both glances.
        """
        stream = catalog.get_stream(self.stream)
        glance = partial(glances.sources, [stream])
        seen = glance()
        return None if probed_range(catalog, stream, empty=self._empty) else (glance, seen)

    def fired(self, event: dict[str, Any]) -> TriggerEvent:
        """Return an event that ends the task if there is data and ``ends_task``."""
        if not self.ends_task or event["status"] != "ready":
            return super().fired(event)
        result = {name: event[name] for name in ("stream", "offset_version", "latest_version")}
        return TaskSuccessEvent(xcoms={"return_value": result})

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
