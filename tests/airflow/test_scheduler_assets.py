"""DAGs that streams wake, under a real scheduler and triggerer on PostgreSQL."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import psycopg2
import pytest
from streams import add_file, new_offset, new_stream, quiet_stream, register

from airflow_provider_cdc.assets.stream import stream_asset
from airflow_provider_cdc.engine.catalog import StreamCatalog
from airflow_provider_cdc.engine.core.model import Source

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.timeout(900)]

NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def airflow(airflow_standalone):
    """The server, with all DAGs of this module parsed and three streams without data."""
    for name in ("woken", "kept", "witness"):
        add_stream(airflow_standalone, name)
    for dag in ("cdc_woken", "cdc_kept", "cdc_witness", "cdc_after", "cdc_deadline"):
        airflow_standalone.server.wait_dag(dag)
    return airflow_standalone


def add_stream(airflow, name):
    return quiet_stream(airflow.state, airflow.tables / name, name, NOW)


def commit(airflow, name, version, *, data_change=True):
    add_file(airflow.tables / name, version, NOW, data_change=data_change)


def asset_events(server, asset) -> list[dict]:
    """The extras of an asset's events, oldest first."""
    found = server.api("GET", f"/assets?uri_pattern={quote(asset.uri, safe='')}")["assets"]
    ids = [item["id"] for item in found if item["uri"] == asset.uri]
    if not ids:
        return []
    path = f"/assets/events?asset_id={ids[0]}&order_by=timestamp"
    return [event["extra"] for event in server.api("GET", path)["asset_events"]]


def wakes(server, stream) -> list[int]:
    """Up to which version the data reached that woke the consumers of a stream."""
    events = asset_events(server, stream_asset(stream))
    return [extra["payload"]["data_version"] for extra in events]


def runs(server, dag_id) -> list[str]:
    found = server.api("GET", f"/dags/{dag_id}/dagRuns?order_by=run_after")["dag_runs"]
    return [run["state"] for run in found]


def test_new_data_wakes_a_dag_once_and_an_optimize_wakes_none(airflow, wait_for):
    server, catalog = airflow.server, StreamCatalog(str(airflow.state))
    commit(airflow, "woken", 1)
    wait_for(lambda: runs(server, "cdc_woken") == ["success"])
    assert catalog.describe("woken").offset.version == 1

    commit(airflow, "woken", 2, data_change=False)
    commit(airflow, "witness", 1)
    # Whatever the OPTIMIZE would have woken was polled together with this.
    wait_for(lambda: wakes(server, "witness") == [1])
    assert wakes(server, "woken") == [1]

    commit(airflow, "woken", 3)
    wait_for(lambda: runs(server, "cdc_woken") == ["success"] * 2)
    assert wakes(server, "woken") == [1, 3]
    assert catalog.describe("woken").offset.version == 3


def test_restarted_triggerer_repeats_no_wake_and_loses_none(airflow, wait_for):
    server = airflow.server
    seen = len(wakes(server, "witness"))
    commit(airflow, "kept", 1)
    wait_for(lambda: wakes(server, "kept") == [1])
    # A wake of another poll means that the first one was remembered.
    commit(airflow, "witness", 2)
    wait_for(lambda: len(wakes(server, "witness")) == seen + 1)
    wait_for(lambda: remembered(server, "kept") == 1)

    server.kill("triggerer")
    commit(airflow, "witness", 3)
    server.start_part("triggerer")
    wait_for(lambda: len(wakes(server, "witness")) == seen + 2)
    assert wakes(server, "kept") == [1]

    server.kill("triggerer")
    commit(airflow, "kept", 2)
    server.start_part("triggerer")
    wait_for(lambda: wakes(server, "kept") == [1, 2])
    wait_for(lambda: runs(server, "cdc_kept") == ["success"] * 2)


def remembered(server, stream) -> int | None:
    """Up to which version Airflow's asset state store remembers that it fired."""
    uri = stream_asset(stream).uri
    (asset,) = [
        item
        for item in server.api("GET", f"/assets?uri_pattern={quote(uri, safe='')}")["assets"]
        if item["uri"] == uri
    ]
    with psycopg2.connect(postgres_url(server)) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT value FROM asset_state_store WHERE asset_id = %s AND key = 'cdc.fired'",
            (asset["id"],),
        )
        found = cursor.fetchone()
    if found is None:
        return None
    value = json.loads(found[0]) if isinstance(found[0], str) else found[0]
    return value["wake"]["data_version"]


def postgres_url(server) -> str:
    return server.env["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].replace("+psycopg2", "")


def test_run_of_a_consumer_misses_its_deadline_when_its_stream_goes_stale(airflow, wait_for):
    server, table = airflow.server, airflow.tables / "doomed"
    add_stream(airflow, "kept_quiet")
    add_file(table, 1, NOW)
    metadata = {"id": "t", "configuration": {"delta.enableRowTracking": "true"}}
    doomed = new_stream(
        "doomed",
        source=Source("doomed", str(table), "t"),
        offset=new_offset(0, json.dumps(metadata)),
        created_at=NOW - timedelta(days=30),
    )
    register(airflow.state, doomed)
    server.api("PATCH", "/dags/cdc_monitor", {"is_paused": False})
    try:
        wait_for(lambda: "doomed" in stale_after(server))
    finally:
        server.api("PATCH", "/dags/cdc_monitor", {"is_paused": True})

    run = server.trigger("cdc_deadline")
    try:
        wait_for(lambda: deadlines(server, run) == [(True, "success")])
    finally:
        server.api("PATCH", f"/dags/cdc_deadline/dagRuns/{run}", {"state": "failed"})


def stale_after(server) -> str:
    """What the monitor wrote for the scheduler."""
    found = server.api("GET", "/variables")["variables"]
    values = [item["value"] for item in found if item["key"] == "cdc_stale_after.cdc_default"]
    return values[0] if values else ""


def deadlines(server, run) -> list[tuple]:
    """Whether each deadline of a run was missed, and what became of its callback."""
    with psycopg2.connect(postgres_url(server)) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT deadline.missed, callback.state FROM deadline"
            " JOIN dag_run ON dag_run.id = deadline.dagrun_id"
            " JOIN callback ON callback.id = deadline.callback_id WHERE dag_run.run_id = %s",
            (run,),
        )
        return cursor.fetchall()


def test_metrics_of_streams_reach_a_statsd_server(airflow, wait_for):
    server = airflow.server
    server.api("PATCH", "/dags/cdc_monitor", {"is_paused": False})
    try:
        prefix = "airflow.cdc.stream.cdc_default.kept."
        wait_for(lambda: any(item.startswith(f"{prefix}has_data:") for item in airflow.metrics))
    finally:
        server.api("PATCH", "/dags/cdc_monitor", {"is_paused": True})
    figures = {item.removeprefix(prefix) for item in airflow.metrics if item.startswith(prefix)}
    assert {item.partition(":")[0] for item in figures} == {
        "has_data",
        "lag_commits",
        "lag_seconds",
        "stale_in_seconds",
    }
    assert all(item.endswith("|g") for item in figures)
