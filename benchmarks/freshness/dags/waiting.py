"""A DAG that waits for its stream. The benchmark copies this file under the name of the DAG."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG

from airflow_provider_cdc.operators.stream import ConsumeStream
from airflow_provider_cdc.sensors.stream import StreamHasDataSensor

NAME = Path(__file__).stem
CONNECTION = f"cdc_{NAME.rpartition('_')[2]}"
STATEMENT = os.environ["BENCHMARK_MERGE"].format(name=NAME, changes=NAME)

with DAG(
    NAME,
    schedule="@continuous",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    max_active_runs=1,
    catchup=False,
):
    StreamHasDataSensor(
        task_id="wait",
        stream=NAME,
        conn_id=CONNECTION,
        deferrable=True,
        timeout=timedelta(days=365),
    ) >> ConsumeStream(task_id="consume", stream=NAME, sql=[STATEMENT], conn_id=CONNECTION)
