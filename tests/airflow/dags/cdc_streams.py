"""The DAGs of tests/airflow/test_scheduler.py; the tables are below ``CDC_TEST_TABLES``."""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_cdc.operators.consumptions import ConsumeStreams
from airflow_provider_cdc.operators.stream import ConsumeStream, CreateStream

TABLES = os.environ.get("CDC_TEST_TABLES", "/nowhere")

with DAG("cdc_create", schedule=None, max_active_runs=1):
    CreateStream(task_id="create", stream="retry_changes", on_table=f"{TABLES}/retry")

# A repeated INSERT shows in its table.
with DAG("cdc_retry", schedule=None, max_active_runs=1):
    ConsumeStream(
        task_id="consume",
        stream="retry_changes",
        sql=[
            f"""
            INSERT INTO delta.`{TABLES}/{table}`
            SELECT id, v, `METADATA$ACTION`, `METADATA$ISUPDATE` FROM retry_changes
            """
            for table in ("retry_first", "retry_second")
        ],
        retries=1,
        retry_delay=timedelta(seconds=1),
    )

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
