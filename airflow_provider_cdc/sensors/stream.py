"""The sensor that waits until a stream has data."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseSensorOperator, PokeReturnValue, conf, timezone
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowSensorTimeout,
    AirflowSkipException,
)

from airflow_provider_cdc.hooks.cdc import CdcHook
from airflow_provider_cdc.hooks.failures import task_errors, task_failure
from airflow_provider_cdc.hooks.readiness import readiness
from airflow_provider_cdc.jobs.model import HasData
from airflow_provider_cdc.triggers.stream import StreamHasDataTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context


class StreamHasDataSensor(BaseSensorOperator):
    """Wait until a stream has data. A missing stream, or one that is seen to be stale, fails at
    once.

    A look costs milliseconds and no JVM: it reads commits from the newest one back towards the
    stream's offset, and says no only where it is certain that they hold nothing for the stream's
    mode. A yes does not vouch for the commits that it did not read; whoever consumes reads them all
    and refuses them where they cannot be relied on. With ``exact`` a yes is then confirmed by the
    engine on Spark.

    Returns (XCom) ``stream``, ``offset_version`` (exclusive) and ``latest_version`` (inclusive).

    :param stream: the name of the stream (templated)
    :param conn_id: a connection of type ``cdc`` (templated)
    :param exact: confirm by a Spark job that there is a change
    :param deferrable: wait in the triggerer instead of in a worker
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
        self._nothing_through: int | None = None

    @cached_property
    def hook(self) -> CdcHook:
        """The hook of ``conn_id``, made when the task runs."""
        return CdcHook(self.conn_id)

    def on_kill(self) -> None:
        """Stop the Spark application of the exact check."""
        self.hook.kill()

    def poke(self, context: Context) -> PokeReturnValue:
        """Look once.

        :raises AirflowFailException: the stream is missing or stale
        :raises CdcJobFailed: the exact check failed, and a retry may help
        """
        with task_errors():
            status = readiness(
                self.hook.catalog(), self.stream, after_version=self._nothing_through
            )
        if status is None or not self._confirmed(status.latest_version, context):
            return PokeReturnValue(is_done=False)
        return PokeReturnValue(
            is_done=True, xcom_value=self._result(status.offset_version, status.latest_version)
        )

    def execute(self, context: Context) -> Any:
        """Wait, in this worker or, if deferrable, in the triggerer after one look here.

        :raises AirflowSensorTimeout: there was no data for ``timeout`` seconds
        """
        if not self.deferrable:
            return super().execute(context)
        try:
            looked = self.poke(context)
        except AirflowException as error:
            if self.soft_fail or self.never_fail:
                raise AirflowSkipException(f"Skipped instead of failed: {error}") from error
            raise
        if looked.is_done:
            return looked.xcom_value
        return self._wait(timezone.utcnow())

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Take the trigger's event; where an exact check finds nothing, wait on.

        :raises AirflowFailException: the stream went missing or stale
        :raises CdcJobFailed: a retry may help
        """
        if event["status"] == "failed":
            raise task_failure(event["message"], retryable=event["retryable"])
        if self._confirmed(event["latest_version"], context):
            return self._result(event["offset_version"], event["latest_version"])
        return self._wait(datetime.fromisoformat(event["waiting_since"]))

    def _confirmed(self, latest_version: int, context: Context) -> bool:
        if not self.exact:
            return True
        answer = self.hook.submit(HasData(self.stream), context=context)
        if not answer.has_data:
            # The log was read before the check, so a later commit has a higher version.
            self._nothing_through = latest_version
        return bool(answer.has_data)

    def _wait(self, since: datetime) -> NoReturn:
        remaining = self.timeout - (timezone.utcnow() - since).total_seconds()
        if remaining <= 0:
            raise AirflowSensorTimeout(f"stream {self.stream}: no data for {self.timeout} seconds")
        self.defer(
            trigger=StreamHasDataTrigger(
                stream=self.stream,
                conn_id=self.conn_id,
                poll_interval=self.poke_interval,
                waiting_since=since.isoformat(),
                after_version=self._nothing_through,
            ),
            method_name="execute_complete",
            timeout=timedelta(seconds=remaining),
        )

    def _result(self, offset_version: int, latest_version: int) -> dict[str, Any]:
        return {
            "stream": self.stream,
            "offset_version": offset_version,
            "latest_version": latest_version,
        }
