"""The sensor that waits until a stream has data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, astuple
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import PokeReturnValue

from airflow_provider_cdc.engine.core.errors import RegistryNotFound
from airflow_provider_cdc.hooks.failures import task_errors
from airflow_provider_cdc.hooks.readiness import ProbedStream, readiness
from airflow_provider_cdc.hooks.stale_after_variable import knows_streams
from airflow_provider_cdc.jobs.model import StreamHasData
from airflow_provider_cdc.triggers.stream import StreamHasDataTrigger

from .waiting import WaitingSensor

if TYPE_CHECKING:
    from airflow.sdk import Context


_EMPTY = "cdc.empty"


class StreamHasDataSensor(WaitingSensor):
    """Wait until a stream has data. If the stream is missing or stale, the sensor fails at once.

    A check takes milliseconds and needs no JVM. It reads commits from the newest one back to the
    stream's offset. It finds no data only if the commits certainly have no change for the stream's
    mode. If it finds data, it has not checked the commits that it did not read. The consumer reads
    all of them, and refuses those that are not reliable. With ``exact``, the engine on Spark then
    confirms that there is data.

    If deferrable, the triggerer glances several times a second whether the source has a new commit
    (on an object store every five seconds), and checks then, and every ``poke_interval``. Data ends
    the sensor in the triggerer. A worker resumes it only for a failure, an exact check, outlets or
    a callback of success.

    A failure ends the wait as ``soft_fail``, ``silent_fail`` and ``never_fail`` define, also if the
    sensor is deferrable. A triggerer that cannot reach a store or the connection always checks
    again.

    Returns (XCom) ``stream``, ``offset_version`` (exclusive) and ``latest_version`` (inclusive).

    :param stream: the name of the stream (templated)
    :param conn_id: a connection of type ``cdc`` (templated)
    :param exact: whether a Spark job confirms that there is a change
    :param deferrable: whether to wait in the triggerer instead of in a worker
    """

    template_fields: Sequence[str] = ("stream", "conn_id")

    def __init__(
        self,
        *,
        stream: str,
        exact: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.exact = exact
        self._empty: ProbedStream | None = None

    def on_kill(self) -> None:
        """Stop the Spark application of the exact check."""
        self.hook.kill()

    def poke(self, context: Context) -> PokeReturnValue:
        """Check once.

        :raises AirflowFailException: the stream is missing or stale
        :raises CdcJobFailed: the exact check failed, and a retry may help
        """
        with task_errors():
            try:
                found = readiness(self.hook.catalog(), self.stream, empty=self._known(context))
            except RegistryNotFound:
                if not knows_streams(self.conn_id):
                    raise
                self.log.warning("There is no registry, but a monitor saw streams; still waiting")
                found = None
        if found is None or not self._confirmed(found, context):
            return PokeReturnValue(is_done=False)
        return PokeReturnValue(is_done=True, xcom_value=self._result(found))

    def taken(self, event: dict[str, Any], context: Context) -> PokeReturnValue:
        """Return the range of the event, if the exact check finds data in it."""
        # The event of a triggerer of an older version has no stream id.
        found = ProbedStream(
            event.get("stream_id", ""), event["offset_version"], event["latest_version"]
        )
        is_done = self._confirmed(found, context)
        return PokeReturnValue(is_done, self._result(found) if is_done else None)

    def _confirmed(self, found: ProbedStream, context: Context) -> bool:
        if not self.exact:
            return True
        answer = self.hook.submit(StreamHasData(self.stream), context=context)
        if not answer.has_data:
            # The log was read before the exact check, so a later commit has a higher version.
            self._empty = found
            if self.reschedule:
                context["task_state_store"].set(_EMPTY, list(astuple(found)))
        return bool(answer.has_data)

    def _known(self, context: Context) -> ProbedStream | None:
        """The range that an exact check found empty, in this process or, if it was stored, in an
        earlier process.
        """
        if self._empty is None and self.exact and self.reschedule:
            match context["task_state_store"].get(_EMPTY):
                case [str(stream_id), int(offset_version), int(latest_version)]:
                    self._empty = ProbedStream(stream_id, offset_version, latest_version)
        return self._empty

    def trigger_since(self, since: datetime, context: Context) -> StreamHasDataTrigger:
        """Return the trigger that checks the logs."""
        known: dict[str, Any] = {}
        if self._empty is not None:
            known = asdict(self._empty)
            known["after_version"] = known.pop("latest_version")
        return StreamHasDataTrigger(
            stream=self.stream,
            conn_id=self.conn_id,
            poll_interval=self.poke_interval,
            waiting_since=since.isoformat(),
            ends_task=self._may_end_in_triggerer,
            **known,
        )

    @property
    def _may_end_in_triggerer(self) -> bool:
        """Whether nothing remains to do in a worker when there is data. Airflow does not emit the
        events of outlets of a task that ends in the triggerer, and does not call its hooks.
        """
        return self.do_xcom_push and not (
            self.exact
            or self.multiple_outputs
            or self.outlets
            or self.on_success_callback
            or self._post_execute_hook
        )

    @property
    def late_message(self) -> str:
        """There was no data."""
        return f"stream {self.stream}: no data"

    def _result(self, found: ProbedStream) -> dict[str, Any]:
        return {
            "stream": self.stream,
            "offset_version": found.offset_version,
            "latest_version": found.latest_version,
        }
