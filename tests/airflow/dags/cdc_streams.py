"""The DAGs of tests/airflow/test_scheduler.py; the tables are below ``CDC_TEST_TABLES``."""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_cdc.operators.stream import ConsumeStream, CreateStream
from airflow_provider_cdc.sensors.stream import StreamHasDataSensor

TABLES = os.environ.get("CDC_TEST_TABLES", "/nowhere")

# A repeated INSERT shows in its table; a repeated MERGE does not.
STATEMENTS = [
    """
    MERGE INTO delta.`{tables}/{name}_current` AS target
    USING (
      SELECT id, v, `METADATA$ACTION` AS action FROM {name}_changes
      WHERE `METADATA$ACTION` = 'INSERT' OR NOT `METADATA$ISUPDATE`
    ) AS change
    ON target.id = change.id
    WHEN MATCHED AND change.action = 'DELETE' THEN DELETE
    WHEN MATCHED THEN UPDATE SET v = change.v
    WHEN NOT MATCHED AND change.action = 'INSERT' THEN INSERT (id, v) VALUES (change.id, change.v)
    """,
    """
    INSERT INTO delta.`{tables}/{name}_log`
    SELECT id, v, `METADATA$ACTION`, `METADATA$ISUPDATE` FROM {name}_changes
    """,
]


def statements(name: str) -> list[str]:
    return [text.format(tables=TABLES, name=name) for text in STATEMENTS]


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
        >> ConsumeStream(task_id="consume", stream="flow_changes", sql=statements("flow"))
    )

with DAG("cdc_retry", schedule=None, max_active_runs=1):
    ConsumeStream(
        task_id="consume",
        stream="retry_changes",
        sql=statements("retry"),
        retries=1,
        retry_delay=timedelta(seconds=1),
    )
