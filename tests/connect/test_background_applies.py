"""Changes of an upsert table applied in the background, by a real scheduler over Spark Connect."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from airflow_fixtures import run_airflow

from airflow_provider_cdc.engine import Engine

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.connect,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

PROMISE = timedelta(minutes=1)
WRITES = 24
PAUSE = 5
CHANGES = "id INT, v STRING, _CHANGE_TYPE STRING, _CHANGE_SEQUENCE_NUMBER STRING"


@pytest.fixture(scope="module")
def running_airflow(tmp_path_factory, postgres, statsd, connect_address):
    """An Airflow whose tasks work on the Connect server of these tests."""
    address = urlsplit(connect_address)
    with run_airflow(
        tmp_path_factory.mktemp("standalone"),
        Path(__file__).parent / "dags",
        postgres,
        statsd,
        spark={
            "conn_type": "spark_connect",
            "host": f"sc://{address.hostname}",
            "port": address.port,
        },
        cdc={},
    ) as running:
        yield running


@pytest.fixture
def table(running_airflow, remote, wait_for):
    """An upsert table with a DAG of its own; the test removes both at its end."""
    server, name = running_airflow.server, str(running_airflow.tables / "kept_fresh")
    server.make_pool("cdc_background", 1)
    engine = Engine(remote, running_airflow.state.as_uri())
    engine.create_upsert_table(name, "id INT, v STRING", "id", max_staleness=PROMISE)

    def dags():
        return [dag["dag_id"] for dag in server.api("GET", "/dags?tags=upserts")["dags"]]

    (dag_id,) = wait_for(dags)
    yield engine, name, dag_id
    server.api("PATCH", f"/dags/{dag_id}", {"is_paused": True})
    wait_for(lambda: not tasks_under_way(server, dag_id))
    # The scheduler ignores a paused DAG: a run without a queued task would never end.
    for run in runs(server, dag_id, "running"):
        server.api("PATCH", f"/dags/{dag_id}/dagRuns/{run['dag_run_id']}", {"state": "failed"})
    engine.drop_upsert_table(name)


def tasks_under_way(server, dag_id):
    path = f"/dags/{dag_id}/dagRuns/~/taskInstances?state=running&state=queued"
    return server.api("GET", path)["task_instances"]


def runs(server, dag_id, state):
    path = f"/dags/{dag_id}/dagRuns?state={state}&limit=100"
    return server.api("GET", path)["dag_runs"]


def test_background_dag_applies_changes_while_a_writer_keeps_writing(
    running_airflow, remote, table, wait_for, capsys
):
    engine, name, dag_id = table
    chance, expected, staleness = random.Random(7), {}, []

    def look():
        status = engine.describe_upsert_table(name)
        since = status.pending_since
        staleness.append(datetime.now(UTC) - since if since else timedelta(0))
        return status

    for step in range(WRITES):
        begun = time.monotonic()
        batch = []
        for key in chance.sample(range(50), 10):
            kind = chance.choice(["UPSERT", "UPSERT", "DELETE"])
            batch.append((key, f"v{step}", kind, f"{step:X}"))
            expected[key] = None if kind == "DELETE" else f"v{step}"
        engine.write_changes(name, remote.createDataFrame(batch, CHANGES))
        while time.monotonic() - begun < PAUSE:
            look()
            time.sleep(0.5)
    wait_for(lambda: look().pending_since is None, seconds=120)

    rows = [(key, value) for key, value in expected.items() if value]
    assert sorted(
        map(
            tuple,
            remote.read.format("delta")
            .load(name)
            .where("_cdc.deleted_at IS NULL")
            .select("id", "v")
            .collect(),
        )
    ) == sorted(rows)
    done = runs(running_airflow.server, dag_id, "success")
    assert len(done) >= 2
    with capsys.disabled():
        print(
            f"\nstaleness at most {max(staleness).total_seconds():.0f} s of"
            f" {PROMISE.total_seconds():.0f} s, in {len(staleness)} looks, {len(done)} runs"
        )
