"""A DAG that submits a job written by hand every minute. The benchmark copies this file under the
name of the DAG.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, CronTriggerTimetable

NAME = Path(__file__).stem
SETTINGS = json.loads(os.environ["BENCHMARK_TIMER"])

with DAG(
    NAME,
    schedule=CronTriggerTimetable("* * * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    max_active_runs=1,
    catchup=False,
):
    SparkSubmitOperator(
        task_id="consume",
        application=SETTINGS["application"],
        conf=SETTINGS["conf"],
        packages=SETTINGS["packages"],
        spark_binary=SETTINGS["binary"],
        application_args=[NAME],
    )
