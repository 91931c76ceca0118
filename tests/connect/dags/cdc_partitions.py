"""The DAGs that read a change stream by partition; the tables are below ``CDC_TEST_TABLES``.

If the test asks for trouble, the first attempts of two readers end badly. The first one waits for
the test and then fails. The process of the second one is killed when its records are committed.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from threading import Thread

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from airflow_provider_cdc.assets.change_stream import change_stream_asset
from airflow_provider_cdc.dag_factories.change_streams import change_stream_dag
from airflow_provider_cdc.operators.change_streams import AlterChangeStream
from airflow_provider_cdc.sensors.change_streams import PartitionsReadySensor

TABLES = Path(os.environ.get("CDC_TEST_TABLES", "/nowhere"))
NAME = "transfers"
IS_TROUBLED = "ti.try_number == 1 and ti.map_index == 0"
FAILS = f"{{{{ 'raise_error(\"not now\")' if {IS_TROUBLED} else 'keys' }}}}"
SQL = f"""
    INSERT INTO delta.`{TABLES}/audit`
    SELECT server_transaction_id, record_sequence, mod_index, mod_type, {FAILS} FROM mods
"""
PATIENCE_SECONDS = 120


def trouble(context) -> None:
    """Disturb the first attempts of readers, if the test asks for it."""
    instance = context["ti"]
    if instance.task_id != "read" or instance.try_number > 1 or not (TABLES / "trouble").exists():
        return
    if instance.map_index == 0:
        (TABLES / "reading").touch()
        wait_for((TABLES / "go_on").exists)
    else:
        Thread(target=die_after_a_commit, args=[commits()], daemon=True).start()


def die_after_a_commit(before: int) -> None:
    wait_for(lambda: commits() > before)
    (TABLES / "killed").touch()
    os.kill(os.getpid(), signal.SIGKILL)


def commits() -> int:
    return len(list((TABLES / "audit" / "_delta_log").glob("*.json")))


def wait_for(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not what() and time.monotonic() < deadline:
        time.sleep(0.005)


RETRIES = {"retries": 2, "retry_delay": timedelta(seconds=1)}

reads = change_stream_dag(
    "cdc_partitions",
    NAME,
    schedule=None,
    tables={f"{TABLES}/accounts": {"keys": ["id"], "columns": ["balance"]}},
    partitions=2,
    sql=SQL,
    default_args=RETRIES | {"pre_execute": trouble},
)

with DAG("cdc_partitions_ready", schedule=None, default_args=RETRIES):
    PartitionsReadySensor(
        task_id="wait",
        change_stream=NAME,
        consumer="cdc_partitions",
        deferrable=True,
        poke_interval=1,
        timeout=900,
    ) >> AlterChangeStream(task_id="alter", change_stream=NAME, retention_period="2d")

with DAG("cdc_partitions_advanced", schedule=[change_stream_asset(NAME)], catchup=False):
    EmptyOperator(task_id="nothing")
