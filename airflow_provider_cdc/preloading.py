"""Import what tasks and files of DAGs need before processes are forked for them.

A scheduler with the LocalExecutor forks a process for each task, and a dag-processor forks one for
each file. Without this, each of these processes imports the provider, delta-rs and Spark's client
again, which takes seconds.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from importlib import import_module

from airflow.listeners import hookimpl
from airflow.sdk import conf

SECTION, OPTION = "cdc", "preload"

OF_FILES = (
    "airflow_provider_cdc.assets.stream",
    "airflow_provider_cdc.operators.history",
    "airflow_provider_cdc.operators.stream",
    "airflow_provider_cdc.sensors.stream",
)
"""The modules that files of DAGs import."""

OF_TASKS = (
    *OF_FILES,
    "airflow_provider_cdc.engine.spark.engine",
    "airflow_provider_cdc.hooks.connect_submission",
    "airflow_provider_cdc.hooks.lineage",
    "airflow_provider_cdc.hooks.spark_submission",
    "pyarrow.dataset",
    "pyspark.sql.connect.catalog",
    "pyspark.sql.connect.session",
)
"""The modules that tasks import when they run."""

_log = logging.getLogger(__name__)


@hookimpl
def on_starting(component: object) -> None:
    """Import the modules if this process is a scheduler with the LocalExecutor, or a dag-processor.

    Airflow calls this when one of its parts starts. The option ``preload`` in the section ``cdc``
    of its configuration switches this off.

    :param component: what starts; the process knows better what it is
    """
    if not conf.getboolean(SECTION, OPTION, fallback=True):
        return
    for name in modules_of(sys.argv, conf.get("core", "executor")):
        try:
            import_module(name)
        except ImportError:
            _log.debug("module %s cannot be imported ahead", name, exc_info=True)


def modules_of(command: Sequence[str], executor: str) -> tuple[str, ...]:
    """Return the modules that the process of an Airflow command imports ahead.

    :param command: the command line, such as ``airflow scheduler``
    :param executor: the executors of the configuration
    """
    if "dag-processor" in command:
        return OF_FILES
    return OF_TASKS if "scheduler" in command and "LocalExecutor" in executor else ()
