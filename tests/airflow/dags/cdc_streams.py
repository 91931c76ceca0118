"""The DAGs of tests/airflow/test_scheduler.py; the tables are below ``CDC_TEST_TABLES``."""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG

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
