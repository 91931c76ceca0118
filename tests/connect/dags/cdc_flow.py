"""The DAGs of tests/connect/test_dags_over_connect.py; the tables are below ``CDC_TEST_TABLES``."""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from airflow_provider_cdc.assets.stream import consumption_asset
from airflow_provider_cdc.operators.stream import ConsumeStream, CreateStream
from airflow_provider_cdc.sensors.stream import StreamHasDataSensor

TABLES = os.environ.get("CDC_TEST_TABLES", "/nowhere")

# A repeated INSERT shows in its table; a repeated MERGE does not.
STATEMENTS = [
    f"""
    MERGE INTO delta.`{TABLES}/flow_current` AS target
    USING (
      SELECT id, v, `METADATA$ACTION` AS action FROM flow_changes
      WHERE `METADATA$ACTION` = 'INSERT' OR NOT `METADATA$ISUPDATE`
    ) AS change
    ON target.id = change.id
    WHEN MATCHED AND change.action = 'DELETE' THEN DELETE
    WHEN MATCHED THEN UPDATE SET v = change.v
    WHEN NOT MATCHED AND change.action = 'INSERT' THEN INSERT (id, v) VALUES (change.id, change.v)
    """,
    f"""
    INSERT INTO delta.`{TABLES}/flow_log`
    SELECT id, v, `METADATA$ACTION`, `METADATA$ISUPDATE` FROM flow_changes
    """,
]
# An attempt of any task may fail on a busy machine; its changes still apply exactly once.
RETRIES = {"retries": 2, "retry_delay": timedelta(seconds=1)}

with DAG("cdc_flow", schedule=None, max_active_runs=1, default_args=RETRIES):
    (
        CreateStream(
            task_id="create",
            stream="flow_changes",
            on_table=f"{TABLES}/flow",
            if_not_exists=True,
        )
        >> StreamHasDataSensor(
            task_id="wait",
            stream="flow_changes",
            deferrable=True,
            poke_interval=1,
            timeout=900,
        )
        >> ConsumeStream(task_id="consume", stream="flow_changes", sql=STATEMENTS)
    )

with DAG("cdc_after", schedule=[consumption_asset("flow_changes")], catchup=False):
    EmptyOperator(task_id="nothing")
