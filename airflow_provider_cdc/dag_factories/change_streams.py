"""The DAG that reads a change stream by partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, BaseOperator

from airflow_provider_cdc.engine.core.arguments.one_or_several import one_or_several
from airflow_provider_cdc.engine.core.arguments.validation import validated_call
from airflow_provider_cdc.engine.core.change_streams.watches import Watch
from airflow_provider_cdc.engine.core.errors import InvalidRequest
from airflow_provider_cdc.engine.core.names import consumer_name, stream_name
from airflow_provider_cdc.engine.core.shown_values import shown
from airflow_provider_cdc.hooks.cdc import CdcHook
from airflow_provider_cdc.jobs.functions import check_work
from airflow_provider_cdc.operators.change_streams import AdvanceChangeStream, CreateChangeStream
from airflow_provider_cdc.operators.partitions import (
    ListPartitions,
    ReadPartition,
    SettlePartitions,
)
from airflow_provider_cdc.operators.watches import watches_of

from .timed_dags import timed_dag

_RETRYING = {"retries": 2, "retry_delay": timedelta(minutes=1)}


@validated_call
def change_stream_dag(
    dag_id: str,
    change_stream: str,
    *,
    schedule: Any,
    sql: str | Sequence[str] | None = None,
    work: str | None = None,
    tables: Mapping[str, Watch | Mapping[str, Any]] | None = None,
    partitions: int | None = None,
    target_rows: int | None = None,
    advance: bool = True,
    consumer: str | None = None,
    max_parallel: int | None = None,
    pool: str | None = None,
    conn_id: str = CdcHook.default_conn_name,
    default_args: Mapping[str, Any] | None = None,
) -> DAG:
    """Return a DAG that advances a change stream and reads its partitions, one mapped task each.

    Its tasks are ``create`` (if ``tables`` are given), ``advance``, ``partitions``, ``read`` and
    ``settle``. Whatever is killed, ``sql`` is applied to each record exactly once, and ``work`` is
    called with each record at least once. What a reader did not do is read in the next run. A run
    fails if one of its readers failed.

    Spanner: a child partition is read after all its parents. The children of partitions that ended
    in a run are read in the next run.

    :param dag_id: the id of the DAG
    :param change_stream: the name of the change stream
    :param schedule: when it runs, as for ``DAG``. With ``advance=False``, it can be
        ``[change_stream_asset(change_stream)]``: then it runs after each advance of another DAG
    :param sql: one or more statements that read the table ``mods`` or ``records`` (templated)
    :param work: a function as ``package.module:function``, in place of ``sql``
    :param tables: create the change stream on these tables if it is missing, as for
        :class:`~..operators.change_streams.CreateChangeStream`
    :param partitions: how many partitions a created change stream begins with; by default 1
    :param target_rows: as for :class:`~..operators.change_streams.CreateChangeStream`, for a change
        stream that the DAG creates
    :param advance: whether to advance the change stream before its partitions are read
    :param consumer: a stable name of the consumer; by default ``dag_id``
    :param max_parallel: how many readers of a run run at once; by default as many as Airflow lets
    :param pool: the Airflow pool of the readers
    :param conn_id: a connection of type ``cdc``
    :param default_args: the ``default_args`` of the DAG, for example ``on_failure_callback``. By
        default, there are two ``retries``, one minute apart
    :raises InvalidName: a name is not valid
    :raises InvalidRequest: not exactly one of ``sql`` and ``work`` is given, or another argument is
        wrong
    """
    name = stream_name(change_stream)
    reader = consumer_name(dag_id if consumer is None else consumer)
    _check_reads(name, sql, work, max_parallel)
    _check_creation(name, tables, {"partitions": partitions, "target_rows": target_rows})
    dag = _dag(dag_id, name, schedule, default_args)
    common = {"change_stream": name, "conn_id": conn_id}
    of_reader = common | {"consumer": reader}
    with dag:
        listed = ListPartitions(task_id="partitions", **of_reader)
        following: BaseOperator = listed
        if advance:
            advanced = AdvanceChangeStream(task_id="advance", **common)
            advanced >> listed
            following = advanced
        if tables is not None:
            create = CreateChangeStream(
                task_id="create",
                tables=tables,
                partitions=1 if partitions is None else partitions,
                target_rows=target_rows,
                if_not_exists=True,
                **common,
            )
            create >> following
        limits = {"max_active_tis_per_dagrun": max_parallel, "pool": pool}
        read = ReadPartition.partial(
            task_id="read",
            sql=sql,
            work=work,
            **of_reader,
            **{name: value for name, value in limits.items() if value is not None},
        ).expand(token=listed.output)
        # A failed reader fails the run, which an ordinary last task would hide.
        settle = SettlePartitions(task_id="settle", **of_reader).as_teardown(setups=listed)
        read >> settle
    return dag


def _check_reads(
    name: str, sql: str | Sequence[str] | None, work: str | None, max_parallel: int | None
) -> None:
    subject = f"change stream {name}"
    check_work(subject, () if sql is None else one_or_several(subject, "sql", sql), work)
    if max_parallel is not None and max_parallel < 1:
        raise InvalidRequest(
            subject,
            "cannot be read",
            cause=f"max_parallel is {max_parallel}, so no reader could run",
            fix="pass 1 or more, or leave max_parallel out",
        )


def _check_creation(
    name: str,
    tables: Mapping[str, Watch | Mapping[str, Any]] | None,
    others: Mapping[str, int | None],
) -> None:
    if tables is not None:
        watches_of(f"change stream {name}", tables)
        return
    useless = next((each for each, value in others.items() if value is not None), None)
    if useless is not None:
        raise InvalidRequest(
            f"change stream {name}",
            f"cannot be created with {useless} = {others[useless]}",
            cause=f"{useless} is for a change stream that the DAG creates, and no tables are given",
            fix=f"pass tables too, or leave {useless} out",
        )


def _dag(dag_id: str, name: str, schedule: Any, default_args: Mapping[str, Any] | None) -> DAG:
    try:
        return timed_dag(
            dag_id,
            schedule,
            tags=("change-streams",),
            description=f"Read {name} by partition",
            default_args=_RETRYING | dict(default_args or {}),
        )
    except (TypeError, ValueError) as error:
        raise InvalidRequest(
            f"DAG {shown(dag_id)}",
            "cannot be made",
            cause=str(error),
            fix="pass a dag_id of letters, digits, dashes, dots and underscores, and a schedule as"
            " for DAG",
        ) from error
