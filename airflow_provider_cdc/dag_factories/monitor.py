"""The DAGs that monitor and maintain the streams of a connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG

from airflow_provider_cdc.engine.core.arguments.intervals import interval_of, period_of
from airflow_provider_cdc.engine.core.errors import InvalidRequest
from airflow_provider_cdc.engine.core.shown_values import shown
from airflow_provider_cdc.hooks.cdc import CdcHook
from airflow_provider_cdc.operators.maintenance import MaintainStreams
from airflow_provider_cdc.operators.monitor import CheckStreams
from airflow_provider_cdc.operators.verification import VerifyTarget

from .dag_ids import dag_id_of
from .timed_dags import timed_dag

if TYPE_CHECKING:
    from airflow.sdk import BaseNotifier

_PATIENCE = timedelta(minutes=10)


def stale_stream_monitor(
    notifiers: Sequence[BaseNotifier],
    *,
    conn_id: str = CdcHook.default_conn_name,
    dag_id: str | None = None,
    every: timedelta | str = timedelta(minutes=5),
    margin: timedelta | str = timedelta(days=2),
    default_args: Mapping[str, Any] | None = None,
) -> DAG:
    """Return a DAG that checks all streams of ``conn_id`` on a timer, even if no DAG uses them.

    :param notifiers: they get the alerts, see :class:`~..operators.monitor.CheckStreams`
    :param dag_id: by default ``stale_stream_monitor``, and for a connection other than
        ``cdc_default`` ``stale_stream_monitor-<conn_id>``
    :param every: how often to check
    :param margin: how long before ``stale_after`` a warning is due
    :param default_args: the ``default_args`` of the DAG, for example ``on_failure_callback`` or
        ``pool``. By default, the ``execution_timeout`` is ``every``, but at least ten minutes
    """
    interval = period_of(every, "every")
    # If a store or a notifier hangs, it must not delay the later runs.
    ending = {"execution_timeout": max(interval, _PATIENCE)}
    name = dag_id or dag_id_of("stale_stream_monitor", conn_id)
    with timed_dag(name, interval, default_args=ending | dict(default_args or {})) as dag:
        CheckStreams(
            task_id="check_streams",
            conn_id=conn_id,
            notifiers=notifiers,
            margin=interval_of(margin, "margin"),
            # No retries: the next run sends the alerts that this run could not send.
            retries=0,
        )
    return dag


def stream_maintenance(
    *,
    conn_id: str = CdcHook.default_conn_name,
    dag_id: str | None = None,
    every: timedelta | str = timedelta(days=1),
    verify: Sequence[Mapping[str, Any]] = (),
    default_args: Mapping[str, Any] | None = None,
) -> DAG:
    """Return a DAG that prevents the streams of ``conn_id`` from going stale, on a timer. It also
    checks targets, if some are named.

    :param dag_id: by default ``stream_maintenance``, and for a connection other than
        ``cdc_default`` ``stream_maintenance-<conn_id>``
    :param every: how often to run; a source with a shorter retention needs more frequent runs
    :param verify: the targets to check, each as arguments of ``VerifyTarget``, such as
        ``{"stream": "customer_changes", "target": "lake.customers_copy", "key": "id"}``
    :param default_args: the ``default_args`` of the DAG, for example ``on_failure_callback`` or
        ``pool``. By default, there are two ``retries``, five minutes apart
    :raises InvalidRequest: something in ``verify`` is not arguments of ``VerifyTarget``
    """
    interval = period_of(every, "every")
    retrying = {"retries": 2, "retry_delay": timedelta(minutes=5)}
    name = dag_id or dag_id_of("stream_maintenance", conn_id)
    with timed_dag(name, interval, default_args=retrying | dict(default_args or {})) as dag:
        maintain = MaintainStreams(
            task_id="maintain_streams",
            conn_id=conn_id,
            ahead=2 * interval,
        )
        for number, arguments in enumerate(_checked(verify), 1):
            check = VerifyTarget(task_id=f"verify_target_{number}", conn_id=conn_id, **arguments)
            maintain >> check
    return dag


def _checked(verify: object) -> list[dict[str, Any]]:
    """The arguments of each check; raises ``InvalidRequest``."""
    given: list[Any] = list(verify) if isinstance(verify, list | tuple) else [verify]
    needed, allowed = {"stream", "target"}, {"stream", "target", "key", "heal", "full"}
    for arguments in given:
        names: set[Any] = set(arguments) if isinstance(arguments, Mapping) else set()
        if not needed <= names <= allowed:
            raise InvalidRequest(
                "stream_maintenance",
                "cannot check this target",
                cause="expected a mapping with stream and target, and perhaps key, heal and full;"
                f" found {shown(arguments)}",
                fix='pass verify=[{"stream": "s", "target": "lake.copy", "key": "id"}]',
            )
    return [dict(arguments) for arguments in given]
