"""The base classes of operators: their connection, their job, and events of consumptions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_provider_cdc.assets.stream import CONSUMPTIONS, announce
from airflow_provider_cdc.hooks.cdc import CdcHook
from airflow_provider_cdc.hooks.failures import FailsPlainly
from airflow_provider_cdc.jobs.model import Answer, Export, Lineage

from .consumed import Consumed, copying
from .outcome import outcome_result
from .stream_link import StreamPageLink

if TYPE_CHECKING:
    from airflow.sdk import Context


class StreamOperator(FailsPlainly, BaseOperator):
    """Base class of the operators of streams. It has a connection, and a kill stops its job."""

    ui_color = "#d5ecf2"
    operator_extra_links = (StreamPageLink(),)

    def __init__(self, *, conn_id: str = CdcHook.default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.conn_id = conn_id

    @cached_property
    def hook(self) -> CdcHook:
        """The hook of ``conn_id``, created when the task runs."""
        return CdcHook(self.conn_id)

    def on_kill(self) -> None:
        """Stop the Spark application that the task waits for."""
        self.hook.kill()


DAG_AS_CONSUMER = "{{ dag.dag_id }}"
"""The consumer of a change stream that an operator does not name: the id of its DAG."""


class PartitionOperator(StreamOperator):
    """Base class of the operators that know a change stream and one of its consumers."""

    def __init__(
        self, *, change_stream: str, consumer: str = DAG_AS_CONSUMER, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.change_stream = change_stream
        self.consumer = consumer


class ExportingOperator(StreamOperator):
    """Base class of the operators that export rows. It keeps what their lineage needs."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._exported: list[tuple[Export, Lineage]] = []

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Return the table that the task has read and what it has written.

        Airflow's OpenLineage provider calls it when the task has ended.
        """
        from .openlineage import lineage_of_export  # noqa: PLC0415 - only with that provider

        return lineage_of_export(*self._exported[-1]) if self._exported else None

    def export(self, task: Export, context: Context) -> None:
        """Run ``task``, and keep what its lineage needs.

        :raises AirflowFailException: the job failed, and a retry cannot help
        :raises CdcJobFailed: the job failed, and a retry is safe and may help
        """
        answer = self.hook.submit(task, context=context)
        self._exported.append((task, answer.lineage or Lineage()))


class ConsumingOperator(StreamOperator):
    """Base class of the operators that consume. Each consumption becomes asset events.

    Each consumed stream has an event, see
    :func:`~airflow_provider_cdc.assets.stream.consumption_asset`. The events of the user's
    ``outlets`` list the consumed streams as ``consumed`` in their extra.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.add_outlets([CONSUMPTIONS])
        self._consumed: list[Consumed] = []

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Return the tables that the task has read and written, each with its version, and which
        columns come from which.

        Airflow's OpenLineage provider calls it when the task has ended.
        """
        from .openlineage import lineage_of  # noqa: PLC0415 - only with that provider

        return lineage_of(self._consumed)

    def announce(
        self, consumed: Iterable[Consumed], context: Context, *, upsert_table: str | None = None
    ) -> None:
        """Emit the asset events of consumptions, and keep these for their lineage.

        :param upsert_table: the upsert table whose changes were consumed
        """
        found = list(consumed)
        self._consumed += found
        outcomes = [each.outcome for each in found]
        announce(context, self.conn_id, outcomes, self.outlets, upsert_table=upsert_table)

    def announced(
        self,
        answer: Answer,
        context: Context,
        *,
        statements: Sequence[str] | None = None,
        upsert_table: str | None = None,
    ) -> dict[str, Any]:
        """Emit the asset events of the outcome in ``answer``, and return it for XCom.

        :param statements: the user's SQL; ``None``: the engine copied the columns of the stream
        :param upsert_table: the upsert table whose changes were consumed
        :raises CdcJobFailed: the job answered without an outcome
        """
        outcome = answer.outcome
        result = outcome_result(outcome)
        if outcome is not None:
            texts = copying(outcome) if statements is None else tuple(statements)
            consumed = Consumed(outcome, texts, answer.lineage or Lineage())
            self.announce([consumed], context, upsert_table=upsert_table)
        return result
