"""The base class of sensors that wait in a worker or in the triggerer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
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

from airflow_provider_cdc.hooks.cdc import CdcHook
from airflow_provider_cdc.hooks.failures import FailsPlainly, task_failure
from airflow_provider_cdc.operators.stream_link import StreamPageLink

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_cdc.triggers.waiting import WaitingTrigger


class WaitingSensor(FailsPlainly, BaseSensorOperator):
    """Base class of sensors of a ``cdc`` connection. They wait in a worker or, if deferrable, in
    the triggerer.

    A failure ends the wait as ``soft_fail``, ``silent_fail`` and ``never_fail`` define, also if the
    sensor is deferrable. A triggerer that cannot reach a store or the connection always checks
    again.

    :param conn_id: a connection of type ``cdc`` (templated)
    :param deferrable: whether to wait in the triggerer instead of in a worker
    """

    ui_color = "#d5ecf2"
    operator_extra_links = (StreamPageLink(),)

    def __init__(
        self,
        *,
        conn_id: str = CdcHook.default_conn_name,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.conn_id = conn_id
        self.deferrable = deferrable

    @cached_property
    def hook(self) -> CdcHook:
        """The hook of ``conn_id``, created when the task runs."""
        return CdcHook(self.conn_id)

    @abstractmethod
    def poke(self, context: Context) -> PokeReturnValue:
        """Check once."""

    @abstractmethod
    def trigger_since(self, since: datetime, context: Context) -> WaitingTrigger:
        """Return the trigger that continues a wait.

        :param since: when the wait began
        """

    @abstractmethod
    def taken(self, event: dict[str, Any], context: Context) -> PokeReturnValue:
        """Return the result of an event whose status is ``ready``."""

    @property
    @abstractmethod
    def late_message(self) -> str:
        """What is missing when the timeout ends the wait, as ``stream s: no data``."""

    def execute(self, context: Context) -> Any:
        """Wait in this worker. If deferrable, check once here and then wait in the triggerer.

        :raises AirflowSensorTimeout: nothing was found for ``timeout`` seconds
        """
        if not self.deferrable:
            return super().execute(context)
        since = timezone.utcnow()
        checked = self._checked(lambda: self.poke(context))
        return checked.xcom_value if checked.is_done else self._wait(since, context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Handle the event of the trigger. If a further check finds nothing, wait again.

        :raises AirflowFailException: waiting cannot help
        :raises CdcJobFailed: a retry may help
        """
        checked = self._checked(lambda: self._taken(event, context))
        if checked.is_done:
            return checked.xcom_value
        return self._wait(datetime.fromisoformat(event["waiting_since"]), context)

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
        return self.taken(event, context)

    def _wait(self, since: datetime, context: Context) -> NoReturn:
        remaining = self.timeout - (timezone.utcnow() - since).total_seconds()
        if remaining <= 0:
            raise self._late()
        self.defer(
            trigger=self.trigger_since(since, context),
            method_name="execute_complete",
            timeout=timedelta(seconds=remaining),
        )

    def _late(self) -> AirflowException:
        message = f"{self.late_message} for {self.timeout} seconds"
        return AirflowSkipException(message) if self.soft_fail else AirflowSensorTimeout(message)
