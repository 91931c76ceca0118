"""A DAG that its stream wakes. The benchmark copies this file under the name of the DAG."""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk import DAG

from airflow_provider_cdc.assets.stream import stream_asset
from airflow_provider_cdc.operators.stream import ConsumeStream

NAME = Path(__file__).stem
CONNECTION = f"cdc_{NAME.rpartition('_')[2]}"
STATEMENT = os.environ["BENCHMARK_MERGE"].format(name=NAME, changes=NAME)

with DAG(NAME, schedule=[stream_asset(NAME, conn_id=CONNECTION)], max_active_runs=1, catchup=False):
    ConsumeStream(task_id="consume", stream=NAME, sql=[STATEMENT], conn_id=CONNECTION)
