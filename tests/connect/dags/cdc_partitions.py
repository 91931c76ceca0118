"""The DAG that reads a change stream by partition; the tables are below ``CDC_TEST_TABLES``."""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_cdc.operators.change_streams import AdvanceChangeStream, CreateChangeStream
from airflow_provider_cdc.operators.partitions import (
    ListPartitions,
    ReadPartition,
    SettlePartitions,
)

TABLES = os.environ.get("CDC_TEST_TABLES", "/nowhere")
# The first attempt of one reader fails after it has begun.
FAILS = "{{ 'raise_error(\"not now\")' if ti.try_number == 1 and ti.map_index == 0 else 'keys' }}"
SQL = f"""
    INSERT INTO delta.`{TABLES}/audit`
    SELECT server_transaction_id, record_sequence, mod_index, mod_type, {FAILS} FROM mods
"""
NAME = "transfers"
RETRIES = {"retries": 2, "retry_delay": timedelta(seconds=1)}

with DAG("cdc_partitions", schedule=None, max_active_runs=1, default_args=RETRIES):
    create = CreateChangeStream(
        task_id="create",
        change_stream=NAME,
        tables={f"{TABLES}/accounts": {"keys": ["id"], "columns": ["balance"]}},
        partitions=2,
        if_not_exists=True,
    )
    advance = AdvanceChangeStream(task_id="advance", change_stream=NAME)
    partitions = ListPartitions(task_id="partitions", change_stream=NAME)
    read = ReadPartition.partial(task_id="read", change_stream=NAME, sql=SQL).expand(
        token=partitions.output
    )
    settle = SettlePartitions(task_id="settle", change_stream=NAME)
    create >> advance >> partitions
    read >> settle
