"""The sensor that waits until a consumer has partitions of a change stream to read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import PokeReturnValue

from airflow_provider_cdc.engine.core.errors import StreamNotFound
from airflow_provider_cdc.hooks.failures import task_errors
from airflow_provider_cdc.hooks.stale_after_variable import knows_streams
from airflow_provider_cdc.operators.arguments import parse_text
from airflow_provider_cdc.operators.base import DAG_AS_CONSUMER
from airflow_provider_cdc.operators.identities import run_of
from airflow_provider_cdc.triggers.change_streams import PartitionsReadyTrigger

from .waiting import WaitingSensor

if TYPE_CHECKING:
    from airflow.sdk import Context


class PartitionsReadySensor(WaitingSensor):
    """Wait until a consumer has partitions of a change stream to read: what ``ListPartitions``
    would hand out now.

    A check takes milliseconds, needs no JVM and writes nothing. It sees what is captured, so
    another DAG has to advance the change stream meanwhile. If the change stream is missing, or the
    consumer is stale, the sensor fails at once.

    A failure ends the wait as ``soft_fail``, ``silent_fail`` and ``never_fail`` define, also if the
    sensor is deferrable. A triggerer that cannot reach a store or the connection always checks
    again.

    Returns (XCom) ``change_stream``, ``consumer`` and ``partitions``, the number of partitions.

    :param change_stream: the name of the change stream (templated)
    :param consumer: the same name as that of ``ListPartitions``; by default the id of the DAG
        (templated)
    :param start_timestamp: where a new consumer begins, as for ``ListPartitions`` (templated)
    :param conn_id: a connection of type ``cdc`` (templated)
    :param deferrable: whether to wait in the triggerer instead of in a worker
    """

    template_fields: Sequence[str] = ("change_stream", "consumer", "start_timestamp", "conn_id")

    def __init__(
        self,
        *,
        change_stream: str,
        consumer: str = DAG_AS_CONSUMER,
        start_timestamp: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.change_stream = change_stream
        self.consumer = consumer
        self.start_timestamp = start_timestamp

    def poke(self, context: Context) -> PokeReturnValue:
        """Check once.

        :raises AirflowFailException: the change stream is missing, or the consumer is stale
        """
        with task_errors():
            try:
                found = self.hook.change_streams().ready_partitions(
                    self.change_stream,
                    self.consumer,
                    start_timestamp=parse_text(self.start_timestamp),
                    holder=run_of(context),
                )
            except StreamNotFound:
                if self.hook.catalog().is_begun or not knows_streams(self.conn_id):
                    raise
                self.log.warning("There is no registry, but a monitor saw streams; still waiting")
                found = 0
        return self._result(found)

    def taken(self, event: dict[str, Any], context: Context) -> PokeReturnValue:
        """Return the number of partitions in the event."""
        return self._result(event["partitions"])

    def trigger_since(self, since: datetime, context: Context) -> PartitionsReadyTrigger:
        """Return the trigger that checks what the consumer can read."""
        return PartitionsReadyTrigger(
            change_stream=self.change_stream,
            consumer=self.consumer,
            start_timestamp=parse_text(self.start_timestamp),
            holder=run_of(context),
            conn_id=self.conn_id,
            poll_interval=self.poke_interval,
            waiting_since=since.isoformat(),
        )

    @property
    def late_message(self) -> str:
        """There was nothing to read."""
        return f"consumer {self.consumer}: no partition of {self.change_stream} to read"

    def _result(self, found: int) -> PokeReturnValue:
        result = {
            "change_stream": self.change_stream,
            "consumer": self.consumer,
            "partitions": found,
        }
        return PokeReturnValue(is_done=found > 0, xcom_value=result)
