"""Airflow for tests: connections and Variables for the unit layer, one server for the others."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow_fixtures import RunningAirflow, run_airflow
from page_site import PageSite
from spark_settings import FIRST_COMPILER


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one process run the tests that wait for the server, while another one runs the others."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            needs_server = "running_airflow" in getattr(item, "fixturenames", ())
            item.add_marker(pytest.mark.xdist_group("server" if needs_server else "others"))


@pytest.fixture
def define_connection(monkeypatch):
    """Defines an Airflow connection by its JSON for one test."""

    def define(conn_id: str, conn_type: str, host: str | None = None, **extra: object) -> str:
        value = {"conn_type": conn_type, "host": host, "extra": extra}
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(value))
        return conn_id

    return define


@pytest.fixture
def cdc_command(capsys):
    """Runs a command of ``airflow cdc``, and returns what it prints."""
    from airflow_provider_cdc.cli.airflow_commands import get_commands

    def run(*arguments: str) -> str:
        (group,) = get_commands()
        parser = argparse.ArgumentParser()
        commands = parser.add_subparsers(dest="command")
        for command in group.subcommands:
            added = commands.add_parser(command.name)
            added.set_defaults(func=command.func)
            for argument in command.args:
                argument.add_to_parser(added)
        given = parser.parse_args(arguments)
        given.func(given)
        return capsys.readouterr().out

    return run


@pytest.fixture
def variables(monkeypatch) -> dict[str, str]:
    """Replaces Airflow's Variables, which need the supervisor of a task."""
    kept: dict[str, str] = {}

    class Variables:
        @staticmethod
        def get(key, default=None, *, deserialize_json=False):
            assert deserialize_json
            return json.loads(kept[key]) if key in kept else default

        @staticmethod
        def set(key, value, *, serialize_json=False):
            assert serialize_json
            kept[key] = json.dumps(value)

    monkeypatch.setattr("airflow_provider_cdc.hooks.stale_after_variable.Variable", Variables)
    return kept


@pytest.fixture(scope="session")
def running_airflow(tmp_path_factory, postgres, statsd) -> Iterator[RunningAirflow]:
    """One real Airflow for all tests; its tasks start Spark by spark-submit."""
    conf = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": FIRST_COMPILER,
    }
    with run_airflow(
        tmp_path_factory.mktemp("standalone"),
        Path(__file__).parent / "dags",
        postgres,
        statsd,
        spark={"conn_type": "spark", "host": "local[2]"},
        cdc={"conf": conf, "driver_memory": "1g"},
        parse_seconds=30,
    ) as running:
        yield running


@pytest.fixture(scope="session")
def page_site(running_airflow) -> PageSite:
    """Streams in the state folder of the connection ``cdc_page``."""
    return PageSite(running_airflow.state.parent / "page")
