"""Streams wake DAGs under a real scheduler and triggerer on PostgreSQL."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta

import psycopg2
import pytest
from streams import add_file, quiet_stream

from airflow_provider_cdc.assets.stream import stream_asset
from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.timeout(900)]

NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def airflow(running_airflow):
    """The server, with all DAGs of this module parsed and three streams without data."""
    for name in ("woken", "kept", "witness"):
        add_stream(running_airflow, name)
    for dag in ("cdc_woken", "cdc_kept", "cdc_witness", "cdc_deadline"):
        running_airflow.server.wait_dag(dag)
    return running_airflow


def add_stream(airflow, name, moment=NOW):
    return quiet_stream(airflow.state, airflow.tables / name, name, moment)


def commit(airflow, name, version, moment=NOW, *, data_change=True):
    add_file(airflow.tables / name, version, moment, data_change=data_change)


def query(server, text, *values) -> list[tuple]:
    """Rows of Airflow's own database: its API fails to list the events of an asset while a run that
    one of them made has not started (Airflow 3.3.2).
    """
    url = server.env["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].replace("+psycopg2", "")
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute(text, values)
        return cursor.fetchall()


def wakes(server, stream) -> list[int]:
    """The version that the data reached at each wake of a stream's consumers."""
    found = query(
        server,
        "SELECT asset_event.extra FROM asset_event JOIN asset ON asset.id = asset_event.asset_id"
        " WHERE asset.uri = %s ORDER BY asset_event.id",
        stream_asset(stream).uri,
    )
    return [value_of(extra)["payload"]["data_version"] for (extra,) in found]


def value_of(kept) -> dict:
    return json.loads(kept) if isinstance(kept, str) else kept


def runs(server, dag_id) -> list[str]:
    found = server.api("GET", f"/dags/{dag_id}/dagRuns?order_by=run_after")["dag_runs"]
    return [run["state"] for run in found]


def test_new_data_wakes_a_dag_once_and_an_optimize_wakes_none(airflow, wait_for):
    server, catalog = airflow.server, StreamCatalog(str(airflow.state))
    commit(airflow, "woken", 1)
    wait_for(lambda: runs(server, "cdc_woken") == ["success"])
    assert catalog.get_stream("woken").offset.version == 1

    commit(airflow, "woken", 2, data_change=False)
    commit(airflow, "witness", 1)
    # The same poll covers the OPTIMIZE, which must not wake a DAG.
    wait_for(lambda: wakes(server, "witness") == [1])
    assert wakes(server, "woken") == [1]

    commit(airflow, "woken", 3)
    wait_for(lambda: runs(server, "cdc_woken") == ["success"] * 2)
    assert wakes(server, "woken") == [1, 3]
    assert catalog.get_stream("woken").offset.version == 3


def test_restarted_triggerer_repeats_no_wake_and_loses_none(airflow, wait_for):
    server = airflow.server
    seen = len(wakes(server, "witness"))
    commit(airflow, "kept", 1)
    wait_for(lambda: wakes(server, "kept") == [1])
    # A wake in another poll shows that Airflow remembers the first wake.
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
    """The version at which the stream last fired, by Airflow's asset state store."""
    found = query(
        server,
        "SELECT value FROM asset_state_store JOIN asset ON asset.id = asset_state_store.asset_id"
        " WHERE asset.uri = %s AND key = 'cdc.fired'",
        stream_asset(stream).uri,
    )
    return value_of(found[0][0])["wake"]["data_version"] if found else None


def test_run_of_a_consumer_misses_its_deadline_when_its_stream_goes_stale(airflow, wait_for):
    server = airflow.server
    add_stream(airflow, "kept_quiet")
    long_ago = NOW - timedelta(days=30)
    add_stream(airflow, "doomed", long_ago)
    commit(airflow, "doomed", 1, long_ago)
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
    """The record that the monitor wrote for the scheduler."""
    found = server.api("GET", "/variables")["variables"]
    values = [item["value"] for item in found if item["key"] == "cdc_stale_after.cdc_default"]
    return values[0] if values else ""


def deadlines(server, run) -> list[tuple]:
    """For each deadline of a run: whether it was missed, and the state of its callback."""
    return query(
        server,
        "SELECT deadline.missed, callback.state FROM deadline"
        " JOIN dag_run ON dag_run.id = deadline.dagrun_id"
        " JOIN callback ON callback.id = deadline.callback_id WHERE dag_run.run_id = %s",
        run,
    )


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
