"""The DAGs of tests/airflow/test_scheduler_assets.py, which streams wake."""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, AsyncCallback, DeadlineAlert

from airflow_provider_cdc.assets.stream import stream_asset
from airflow_provider_cdc.deadlines.stale import StreamStaleDeadline
from airflow_provider_cdc.notifications.log import LogNotifier
from airflow_provider_cdc.operators.stream import AdvanceStream
from airflow_provider_cdc.sensors.stream import StreamHasDataSensor


def watched(stream: str):
    return stream_asset(stream, poll_interval=timedelta(seconds=1))


with DAG("cdc_woken", schedule=[watched("woken")], max_active_runs=1, catchup=False):
    AdvanceStream(task_id="advance", stream="woken")

# No consumer moves these two streams.
for name in ("kept", "witness"):
    with DAG(f"cdc_{name}", schedule=[watched(name)], max_active_runs=1, catchup=False):
        EmptyOperator(task_id="nothing")

with DAG(
    "cdc_deadline",
    schedule=None,
    deadline=DeadlineAlert(
        reference=StreamStaleDeadline("doomed"),
        interval=timedelta(seconds=-1),
        callback=AsyncCallback(
            LogNotifier, kwargs={"message": "doomed is not consumed in {{ dag_run.run_id }}"}
        ),
    ),
):
    StreamHasDataSensor(task_id="wait", stream="kept_quiet", deferrable=True, poke_interval=1)
