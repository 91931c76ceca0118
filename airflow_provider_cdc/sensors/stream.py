"""The sensor that waits until a stream has data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseOperator, BaseSensorOperator, PokeReturnValue, conf, timezone
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    AirflowTaskTimeout,
    TaskDeferralError,
    TaskDeferralTimeout,
)

from airflow_provider_cdc.engine.core.errors import RegistryNotFound
from airflow_provider_cdc.hooks.cdc import CdcHook
from airflow_provider_cdc.hooks.failures import FailsPlainly, task_errors, task_failure
from airflow_provider_cdc.hooks.readiness import ProbedStream, readiness
from airflow_provider_cdc.hooks.stale_after_variable import knows_streams
from airflow_provider_cdc.jobs.model import StreamHasData
from airflow_provider_cdc.triggers.stream import StreamHasDataTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context


_EMPTY = "cdc.empty"


class StreamHasDataSensor(FailsPlainly, BaseSensorOperator):
    """Wait until a stream has data. If the stream is missing or stale, the sensor fails at once.

    A check takes milliseconds and needs no JVM. It reads commits from the newest one back to the
    stream's offset. It finds no data only if the commits certainly have no change for the stream's
    mode. If it finds data, it has not checked the commits that it did not read. The consumer reads
    all of them, and refuses those that are not reliable. With ``exact``, the engine on Spark then
    confirms that there is data.

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
    ui_color = "#d5ecf2"

    def __init__(
        self,
        *,
        stream: str,
        conn_id: str = CdcHook.default_conn_name,
        exact: bool = False,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.conn_id = conn_id
        self.exact = exact
        self.deferrable = deferrable
        self._empty: ProbedStream | None = None

    @cached_property
    def hook(self) -> CdcHook:
        """The hook of ``conn_id``, created when the task runs."""
        return CdcHook(self.conn_id)

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

    def execute(self, context: Context) -> Any:
        """Wait in this worker. If deferrable, check once here and then wait in the triggerer.

        :raises AirflowSensorTimeout: there was no data for ``timeout`` seconds
        """
        if not self.deferrable:
            return super().execute(context)
        since = timezone.utcnow()
        checked = self._checked(lambda: self.poke(context))
        return checked.xcom_value if checked.is_done else self._wait(since)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Handle the event of the trigger. If an exact check finds no data, wait again.

        :raises AirflowFailException: the stream is missing or stale
        :raises CdcJobFailed: a retry may help
        """
        checked = self._checked(lambda: self._taken(event, context))
        if checked.is_done:
            return checked.xcom_value
        return self._wait(datetime.fromisoformat(event["waiting_since"]))

    def resume_execution(
        self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context
    ) -> Any:
        """Continue after the wait. In some cases, Airflow's method would skip a deferrable sensor
        but fail another one.
        """
        try:
            return BaseOperator.resume_execution(self, next_method, next_kwargs, context)
        except TaskDeferralTimeout as error:
            raise self._late() from error
        except TaskDeferralError as error:
            if self.never_fail:
                raise AirflowSkipException(f"Skipped instead of failed: {error}") from error
            raise

    def _checked(self, check: Callable[[], PokeReturnValue]) -> PokeReturnValue:
        """Return the result of ``check``. An exception ends the wait as in Airflow's loop."""
        try:
            return check()
        except AirflowSkipException:
            raise
        except (AirflowFailException, AirflowTaskTimeout) as error:
            if isinstance(error, AirflowTaskTimeout):
                # After this exception, Airflow ends the job of a task that fails, but not the job
                # of a task that is skipped.
                self.on_kill()
            if self.soft_fail or self.never_fail:
                raise AirflowSkipException(f"Skipped instead of failed: {error}") from error
            raise
        except Exception as error:
            if self.silent_fail:
                self.log.exception("The check failed; still waiting")
                return PokeReturnValue(is_done=False)
            if self.never_fail:
                raise AirflowSkipException(f"Skipped instead of failed: {error}") from error
            raise

    def _taken(self, event: dict[str, Any], context: Context) -> PokeReturnValue:
        if event["status"] == "failed":
            raise task_failure(event["message"], retryable=event["retryable"])
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

    def _wait(self, since: datetime) -> NoReturn:
        remaining = self.timeout - (timezone.utcnow() - since).total_seconds()
        if remaining <= 0:
            raise self._late()
        known: dict[str, Any] = {}
        if self._empty is not None:
            known = asdict(self._empty)
            known["after_version"] = known.pop("latest_version")
        self.defer(
            trigger=StreamHasDataTrigger(
                stream=self.stream,
                conn_id=self.conn_id,
                poll_interval=self.poke_interval,
                waiting_since=since.isoformat(),
                **known,
            ),
            method_name="execute_complete",
            timeout=timedelta(seconds=remaining),
        )

    def _late(self) -> AirflowException:
        message = f"stream {self.stream}: no data for {self.timeout} seconds"
        return AirflowSkipException(message) if self.soft_fail else AirflowSensorTimeout(message)

    def _result(self, found: ProbedStream) -> dict[str, Any]:
        return {
            "stream": self.stream,
            "offset_version": found.offset_version,
            "latest_version": found.latest_version,
        }
