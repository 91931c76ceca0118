"""Which processes of Airflow import modules ahead of the processes that they fork."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from airflow_provider_cdc.plugin import CdcPlugin
from airflow_provider_cdc.preloading import OF_FILES, OF_TASKS, modules_of

STARTS = """
import sys
sys.argv = ["airflow", *sys.argv[1:]]
from airflow.listeners.listener import get_listener_manager
get_listener_manager().hook.on_starting(component=None)
print("pyspark.sql.connect.session" in sys.modules)
"""


@pytest.mark.parametrize(
    ("command", "executor", "modules"),
    [
        ("scheduler --skip-serve-logs", "LocalExecutor", OF_TASKS),
        ("scheduler", "CeleryExecutor,LocalExecutor", OF_TASKS),
        ("scheduler", "CeleryExecutor", ()),
        ("dag-processor", "CeleryExecutor", OF_FILES),
        ("triggerer", "LocalExecutor", ()),
        ("api-server", "LocalExecutor", ()),
    ],
)
def test_modules_of_a_command_are_those_its_forks_need(command, executor, modules):
    assert modules_of(["airflow", *command.split()], executor) == modules


def test_modules_that_are_imported_ahead_exist():
    assert all(map(import_module, OF_TASKS))


def test_plugin_has_the_listener():
    assert [each.__name__ for each in CdcPlugin.listeners] == ["airflow_provider_cdc.preloading"]


@pytest.mark.parametrize(
    ("command", "preload", "is_imported"),
    [("scheduler", "True", True), ("scheduler", "False", False), ("triggerer", "True", False)],
)
def test_starting_part_of_airflow_imports_sparks_client_only_where_it_helps(
    monkeypatch, command, preload, is_imported
):
    monkeypatch.setenv("AIRFLOW__CDC__PRELOAD", preload)
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "LocalExecutor")

    done = subprocess.run(
        [sys.executable, "-c", STARTS, command], capture_output=True, text=True, check=True
    )

    assert done.stdout.splitlines()[-1] == str(is_imported)
