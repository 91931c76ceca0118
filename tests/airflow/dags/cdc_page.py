"""The DAGs of tests/airflow/test_streams_page.py and test_streams_page_in_a_browser.py."""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_provider_cdc.dag_factories.actions import stream_actions
from airflow_provider_cdc.operators.stream import AdvanceStream

with DAG("cdc_page_consumer", schedule=None):
    AdvanceStream(task_id="advance", stream="late", conn_id="cdc_page")

actions = stream_actions(conn_id="cdc_page")
