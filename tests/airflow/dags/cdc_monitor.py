"""The monitor of tests/airflow/test_scheduler.py, unpaused while its test runs."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from airflow.sdk import BaseNotifier

from airflow_provider_cdc.dag_factories.monitor import stale_stream_monitor


class FileNotifier(BaseNotifier):
    """Writes a line for each alert."""

    template_fields = ("line",)

    def __init__(self, line, **kwargs):
        super().__init__(**kwargs)
        self.line = line

    def notify(self, context):
        with Path(os.environ["CDC_TEST_TABLES"], "sent").open("a") as file:
            file.write(f"{self.line}\n")


monitor = stale_stream_monitor(
    [FileNotifier("{{ stream }} {{ alert.objective }} {{ alert.kind }}: {{ reason }}")],
    dag_id="cdc_monitor",
    every=timedelta(seconds=5),
    margin=timedelta(seconds=30),
)
monitor.is_paused_upon_creation = True
