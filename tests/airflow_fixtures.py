"""A real Airflow for tests: its metadata database, its parts, and the metrics that it sends."""

from __future__ import annotations

import json
import shutil
import socketserver
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from flights_demo.airflow_server import AirflowServer
from flights_demo.postgres_server import postgres_server

JWT_SECRET = "a secret of 64 bytes at least, so that the test can sign tokens itself"
# Users may run Airflow below a path.
BASE_PATH = "/airflow"
UNREACHABLE_SECRET = "never-shown"
SHARED_DAGS = Path(__file__).parent / "shared_dags"


@pytest.fixture
def wait_for():
    """Waits until a call returns a true value, and returns that value.

    Each call of Airflow's API costs 20 ms of a core: ``poll`` is in seconds.
    """

    def wait(what, seconds: float = 400, poll: float = 0.3):
        deadline = time.monotonic() + seconds
        while not (found := what()):
            assert time.monotonic() < deadline, "waited too long"
            time.sleep(poll)
        return found

    return wait


@dataclass(frozen=True)
class RunningAirflow:
    """A running Airflow, and the state folder and tables that its connections name."""

    server: AirflowServer
    state: Path
    tables: Path
    metrics: set[str]


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a real PostgreSQL that ends with the tests."""
    with postgres_server() as url:
        yield url


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


@contextmanager
def run_airflow(
    folder: Path,
    dags_folder: Path,
    postgres: str,
    statsd: tuple[int, set[str]],
    *,
    spark: Mapping[str, Any],
    cdc: Mapping[str, Any],
    parse_seconds: int,
) -> Iterator[RunningAirflow]:
    """Run scheduler, triggerer, dag-processor and api-server on PostgreSQL.

    :param dags_folder: the files of DAGs, in addition to those of ``shared_dags``
    :param spark: the connection ``spark_default``
    :param cdc: the settings of the connection ``cdc_default``, except its state folder
    :param parse_seconds: how often the files of DAGs are parsed again
    """
    port, metrics = statsd
    state, tables, dags = (folder / name for name in ("state", "tables", "dags"))
    for source in (dags_folder, SHARED_DAGS):
        shutil.copytree(source, dags, dirs_exist_ok=True)
    connections = {
        "AIRFLOW_CONN_SPARK_DEFAULT": spark,
        "AIRFLOW_CONN_CDC_DEFAULT": _cdc(state.as_uri(), **cdc),
        "AIRFLOW_CONN_CDC_PAGE": _cdc((folder / "page/state").as_uri()),
        "AIRFLOW_CONN_CDC_UNWATCHED": _cdc((folder / "unwatched").as_uri()),
        "AIRFLOW_CONN_CDC_UNREACHABLE": _cdc(
            "s3://bucket/state",
            storage_options={"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_REGION": "none"},
            secret_storage_options={
                "AWS_ACCESS_KEY_ID": "somebody",
                "AWS_SECRET_ACCESS_KEY": UNREACHABLE_SECRET,
            },
        ),
    }
    server = AirflowServer(
        home=folder / "home",
        dags_folder=dags,
        base_path=BASE_PATH,
        env={
            **{name: json.dumps(value) for name, value in connections.items()},
            "CDC_TEST_TABLES": str(tables),
            "AIRFLOW__API_AUTH__JWT_SECRET": JWT_SECRET,
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin,viewer:viewer",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": postgres,
            "AIRFLOW__METRICS__STATSD_ON": "True",
            "AIRFLOW__METRICS__STATSD_PORT": str(port),
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": str(parse_seconds),
            # Airflow gives a killed triggerer up after this many seconds.
            "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "10",
        },
    )
    with server:
        yield RunningAirflow(server, state, tables, metrics)


def _cdc(state: str, **extra: Any) -> dict[str, Any]:
    """A connection of type ``cdc``."""
    return {"conn_type": "cdc", "extra": {"state": state, **extra}}
