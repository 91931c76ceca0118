"""DAGs under a real scheduler whose jobs run on a cluster: every operator, all tables on S3."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cdc_stack import settings
from cdc_stack.connections import Connection, variable
from cdc_stack.local_stack import SECRET, LocalStack
from cluster_lab import ClusterLab
from flights_demo.airflow_server import AirflowServer
from package_operators import package_operators
from pyspark.sql import SparkSession
from spark_settings import FIRST_COMPILER

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.timeout(1200)]
# An Airflow, a cluster and forty jobs take five minutes.
too_long_for_ci = pytest.mark.thorough

DAGS = Path(__file__).parent / "dags"
BY_CONNECT = ("cluster_streams", "cluster_targets", "cluster_upserts", "cluster_change_streams")
SENSORS = {"StreamHasDataSensor", "PartitionsReadySensor"}
TRACKED = "TBLPROPERTIES ('delta.enableRowTracking' = 'true')"
ROWS = [(1, "a"), (2, "b"), (3, "c")]


@dataclass(frozen=True)
class Installation:
    """A running Airflow, and the tables that its DAGs use."""

    server: AirflowServer
    lab: ClusterLab


@pytest.fixture(scope="module")
def installation(
    stack: LocalStack,
    connected: Callable[[], SparkSession],
    postgres: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Installation]:
    root = f"s3a://{settings.BUCKET}/{uuid.uuid4().hex}"
    lab = ClusterLab(stack, connected(), root)
    create_tables(lab)
    server = AirflowServer(
        home=tmp_path_factory.mktemp("airflow") / "home",
        dags_folder=DAGS,
        env={
            **{
                variable(conn_id): json.dumps(value)
                for conn_id, value in connections(stack, lab.state).items()
            },
            "CDC_TEST_TABLES": root,
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": postgres,
        },
    )
    with server:
        yield Installation(server, lab)


def create_tables(lab: ClusterLab) -> None:
    pairs = "id INT, v STRING"
    lab.sql(
        f"CREATE TABLE {{src}} ({pairs}) USING delta {TRACKED}",
        f"CREATE TABLE {{watched}} ({pairs}) USING delta {TRACKED}",
        f"INSERT INTO {{src}} VALUES {', '.join(map(str, ROWS))}",
        *(
            f"CREATE TABLE {{{name}}} ({pairs}) USING delta"
            for name in ("consumed", "consumed_many", "submitted")
        ),
        "CREATE TABLE {mods} (kind STRING) USING delta",
    )


def connections(stack: LocalStack, state: str) -> dict[str, Connection]:
    found = stack.connections(state)
    conf = found["cdc_cluster"]["extra"]["conf"]
    conf |= dict.fromkeys(
        ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"), FIRST_COMPILER
    )
    # The executors have no Python: they could not run a function of this package.
    conf["spark.pyspark.python"] = "/nowhere/python"
    return found


def logs_of(server: AirflowServer) -> Iterator[tuple[Path, str]]:
    for file in sorted((server.home / "logs").rglob("*.log")):
        yield file, file.read_text(errors="replace")


@too_long_for_ci
@pytest.mark.parametrize("dag_id", BY_CONNECT)
def test_every_operator_runs_on_a_cluster_with_tables_on_s3(
    installation: Installation, dag_id: str
) -> None:
    server, lab = installation.server, installation.lab
    server.wait_dag(dag_id)

    server.wait_success(dag_id, server.trigger(dag_id), timeout_seconds=400)

    match dag_id:
        case "cluster_streams":
            assert lab.rows("consumed") == lab.rows("consumed_many") == ROWS
        case "cluster_targets":
            assert lab.sql("SELECT id, v FROM {copy} ORDER BY id") == ROWS
            assert lab.sql("SELECT id, v FROM {history} ORDER BY id") == ROWS
        case "cluster_change_streams":
            assert lab.rows("mods") == [("INSERT",)] * len(ROWS)
        case "cluster_upserts":
            assert lab.sql("SELECT id, v FROM {upserts_exported} ORDER BY id") == ROWS


@too_long_for_ci
def test_jobs_of_spark_submit_run_on_executors_without_the_package(
    installation: Installation,
) -> None:
    server, lab = installation.server, installation.lab
    server.wait_dag("cluster_submit")

    server.wait_success("cluster_submit", server.trigger("cluster_submit"))

    assert lab.rows("submitted") == ROWS
    assert lab.sql("SELECT id, v FROM {submitted_copy} ORDER BY id") == ROWS


@too_long_for_ci
def test_keys_of_the_store_are_in_no_log(installation: Installation) -> None:
    logs = dict(logs_of(installation.server))
    assert any(re.search("task_id=consume", str(file)) for file in logs)
    folder = installation.lab.stack.processes.logs
    logs |= {file: file.read_text(errors="replace") for file in folder.glob("*.log")}

    assert [file for file, text in logs.items() if SECRET in text] == []


def test_dags_hold_every_operator() -> None:
    text = (DAGS / "cluster_operators.py").read_text()
    used = set(re.findall(r"\b([A-Z]\w+)(?:\(task_id|\(\n\s+task_id|\.partial\()", text))

    assert used - SENSORS == {kind.__name__ for kind in package_operators()}
