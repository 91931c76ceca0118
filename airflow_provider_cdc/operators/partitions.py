"""The operators of consumers of change streams: list partitions, read them, settle them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import TriggerRule

from airflow_provider_cdc.engine.core.arguments.one_or_several import one_or_several
from airflow_provider_cdc.engine.core.arguments.validation import check_argument
from airflow_provider_cdc.engine.core.names import consumer_name, stream_name
from airflow_provider_cdc.hooks.failures import CdcJobFailed
from airflow_provider_cdc.hooks.registry_reach import reached_errors
from airflow_provider_cdc.jobs import change_stream_tasks as jobs
from airflow_provider_cdc.jobs.functions import check_work

from .arguments import parse_int, parse_text
from .base import DAG_AS_CONSUMER, PartitionOperator
from .identities import run_of

if TYPE_CHECKING:
    from airflow.sdk import Context


class ListPartitions(PartitionOperator):
    """Hand out the partitions of a change stream that a consumer may read now.

    No Spark job is started. Spanner: a child partition is read after all its parents. Returns
    (XCom) a list of partition tokens, for ``ReadPartition.partial(...).expand(token=...)``.

    :param change_stream: the name of the change stream (templated)
    :param consumer: a stable name; by default the id of the DAG (templated)
    :param start_timestamp: where a new consumer begins; by default with the oldest records that are
        kept (templated)
    :param end_timestamp: where a new consumer ends, inclusive; by default never (templated)
    :param lease: how long no other run gets the same partitions, as ``PT1H`` (templated)
    :param limit: hand out at most this many; Airflow maps at most ``core.max_map_length`` tasks
        (templated)
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = (
        "change_stream",
        "consumer",
        "start_timestamp",
        "end_timestamp",
        "lease",
        "limit",
        "conn_id",
    )

    def __init__(
        self,
        *,
        change_stream: str,
        consumer: str = DAG_AS_CONSUMER,
        start_timestamp: str | None = None,
        end_timestamp: str | None = None,
        lease: timedelta | str = "PT1H",
        limit: int | str | None = 1024,
        **kwargs: Any,
    ) -> None:
        super().__init__(change_stream=change_stream, consumer=consumer, **kwargs)
        self.start_timestamp = start_timestamp
        self.end_timestamp = end_timestamp
        self.lease = lease
        self.limit = limit

    def execute(self, context: Context) -> list[str]:
        """Hand out what is ready.

        :raises AirflowFailException: an argument is wrong, or the change stream is missing
        :raises CdcJobFailed: a retry may help
        """
        with reached_errors(self.hook):
            reads = self.hook.change_streams().list_partitions(
                self.change_stream,
                self.consumer,
                start_timestamp=parse_text(self.start_timestamp),
                end_timestamp=parse_text(self.end_timestamp),
                holder=run_of(context),
                lease=self.lease,
                limit=parse_int(self.limit),
            )
        return [read.partition_token for read in reads]


class ReadPartition(PartitionOperator):
    """Process the records of a partition that was handed out.

    With ``sql``, each record is applied exactly once. With ``work``, a function of the user's is
    called with a DataFrame of the records and what was handed out, at least once.

    Returns (XCom) ``partition_token``, ``start_timestamp``, ``end_timestamp`` and ``is_last``.

    :param change_stream: the name of the change stream (templated)
    :param token: a partition token that :class:`ListPartitions` returned (templated)
    :param sql: one or more statements that read the table ``mods`` or ``records`` (templated)
    :param work: a function as ``package.module:function`` (templated)
    :param consumer: the same name as that of :class:`ListPartitions` (templated)
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = (
        "change_stream",
        "token",
        "sql",
        "work",
        "consumer",
        "conn_id",
    )

    def __init__(
        self,
        *,
        change_stream: str,
        token: str,
        sql: str | Sequence[str] | None = None,
        work: str | None = None,
        consumer: str = DAG_AS_CONSUMER,
        **kwargs: Any,
    ) -> None:
        super().__init__(change_stream=change_stream, consumer=consumer, **kwargs)
        self.token = token
        self.sql = sql
        self.work = work

    def execute(self, context: Context) -> dict[str, Any]:
        """Read the partition.

        :raises AirflowFailException: an argument is wrong, or the partition was not handed out
        :raises CdcJobFailed: a retry may help; it reads the same records
        """
        with reached_errors(self.hook):
            name = stream_name(self.change_stream)
            check_argument("argument token of ReadPartition", self.token, str)
            statements = (
                () if self.sql is None else one_or_several("ReadPartition", "sql", self.sql)
            )
            for statement in statements:
                check_argument("argument sql of ReadPartition", statement, str)
            work = parse_text(self.work)
            check_argument("argument work of ReadPartition", work, str | None)
            check_work(f"change stream {name}", statements, work)
            task = jobs.ReadPartition(
                name, consumer_name(self.consumer), self.token, statements, work
            )
        found = self.hook.submit(task, context=context).partition
        if found is None:
            raise CdcJobFailed("partition: answered without a result. Fix: run the task again.")
        return asdict(found)


class SettlePartitions(PartitionOperator):
    """Take back the partitions that the readers of this run did not finish.

    No Spark job is started. It runs when all readers have ended, also when some have failed.
    Returns (XCom) ``consumer``, ``watermark``, ``partitions``, ``waiting`` and ``is_complete``.

    :param change_stream: the name of the change stream (templated)
    :param consumer: the same name as that of :class:`ListPartitions` (templated)
    :param conn_id: a connection of type ``cdc`` (templated)
    """

    template_fields: Sequence[str] = ("change_stream", "consumer", "conn_id")

    def __init__(
        self,
        *,
        change_stream: str,
        consumer: str = DAG_AS_CONSUMER,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("trigger_rule", TriggerRule.ALL_DONE)
        super().__init__(change_stream=change_stream, consumer=consumer, **kwargs)

    def execute(self, context: Context) -> dict[str, Any]:
        """Settle what was handed out in this run.

        :raises AirflowFailException: the change stream or the consumer is missing
        :raises CdcJobFailed: a retry may help
        """
        with reached_errors(self.hook):
            found = self.hook.change_streams().settle_partitions(
                self.change_stream, self.consumer, holder=run_of(context)
            )
        return asdict(found)
