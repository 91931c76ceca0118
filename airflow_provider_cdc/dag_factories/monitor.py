"""The DAG that watches the streams of a connection."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from airflow.sdk import DAG

from airflow_provider_cdc.hooks.cdc import CdcHook
from airflow_provider_cdc.operators.maintenance import MaintainStreams
from airflow_provider_cdc.operators.monitor import CheckStreams

from .dag_ids import dag_id_of

if TYPE_CHECKING:
    from airflow.sdk import BaseNotifier

_START = datetime(2026, 1, 1, tzinfo=UTC)


def stale_stream_monitor(
    notifiers: Sequence[BaseNotifier],
    *,
    conn_id: str = CdcHook.default_conn_name,
    dag_id: str | None = None,
    every: timedelta = timedelta(minutes=5),
    margin: timedelta = timedelta(days=2),
) -> DAG:
    """A DAG that looks at all streams of ``conn_id`` on a timer, whether or not any DAG uses them.

    :param notifiers: whom to tell, see :class:`~..operators.monitor.CheckStreams`
    :param dag_id: by default ``stale_stream_monitor``, and for a connection other than
        ``cdc_default`` ``stale_stream_monitor.<conn_id>``
    :param every: how often to look
    :param margin: how long before ``stale_after`` a warning is due
    """
    with _timed(dag_id or dag_id_of("stale_stream_monitor", conn_id), every) as dag:
        CheckStreams(
            task_id="check_streams",
            conn_id=conn_id,
            notifiers=notifiers,
            margin=margin,
            # The next run tells what this one could not.
            retries=0,
        )
    return dag


def stream_maintenance(
    *,
    conn_id: str = CdcHook.default_conn_name,
    dag_id: str | None = None,
    every: timedelta = timedelta(days=1),
) -> DAG:
    """A DAG that keeps the streams of ``conn_id`` from going stale, on a timer.

    :param dag_id: by default ``stream_maintenance``, and for a connection other than
        ``cdc_default`` ``stream_maintenance.<conn_id>``
    :param every: how often; a source whose retention is shorter needs it more often
    """
    with _timed(dag_id or dag_id_of("stream_maintenance", conn_id), every) as dag:
        MaintainStreams(
            task_id="maintain_streams",
            conn_id=conn_id,
            ahead=2 * every,
            retries=2,
            retry_delay=timedelta(minutes=5),
        )
    return dag


def _timed(dag_id: str, every: timedelta) -> DAG:
    return DAG(
        dag_id,
        schedule=every,
        start_date=_START,
        catchup=False,
        max_active_runs=1,
        # One that waits for somebody to switch it on lets streams go stale without a word.
        is_paused_upon_creation=False,
        tags=["cdc"],
    )
