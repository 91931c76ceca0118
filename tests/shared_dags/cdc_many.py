"""The DAG of tests/many_streams.py; the tables are below ``CDC_TEST_TABLES``."""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_cdc.operators.consumptions import ConsumeStreams

TABLES = os.environ.get("CDC_TEST_TABLES", "/nowhere")
FAILS = "{{{{ 'raise_error(\"not now\")' if ti.try_number == {number} else 'v' }}}}"

# One consumption fails in the first attempt. The job is too long for a command line.
with DAG("cdc_many", schedule=None, max_active_runs=1):
    ConsumeStreams(
        task_id="consume",
        consumptions=[
            {
                "stream": f"many_{number}",
                "sql": f"INSERT INTO delta.`{TABLES}/many_target_{number}` /* {'long ' * 10_000} */"
                f" SELECT id, {FAILS.format(number=number)} FROM many_{number}",
            }
            for number in range(3)
        ],
        parallelism=2,
        retries=1,
        retry_delay=timedelta(seconds=1),
    )
