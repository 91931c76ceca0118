"""A hundred DAGs on streams without changes. If the name of the file ends with ``unwatched``, the
assets have no watchers.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset

from airflow_provider_cdc.assets.stream import stream_asset

IS_WATCHED = not Path(__file__).stem.endswith("unwatched")

for number in range(int(os.environ["BENCHMARK_QUIET"])):
    watched = stream_asset(f"quiet_{number}", conn_id="cdc_submit")
    asset = watched if IS_WATCHED else Asset(name=watched.name, uri=watched.uri)
    with DAG(f"quiet_{number}", schedule=[asset], max_active_runs=1, catchup=False):
        EmptyOperator(task_id="nothing")
