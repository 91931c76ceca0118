"""Streams under a real scheduler, triggerer and spark-submit: no change is lost or doubled."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest
from many_streams import check_many_streams
from streams import add_file, new_offset, new_stream, register

from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.core.model.sources import Source
from airflow_provider_cdc.jobs import entry_point

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(1500),
]


def driver_processes(state: Path) -> list[psutil.Process]:
    """The JVM and the Python driver of jobs on ``state``."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if (line := " ".join(process.info["cmdline"] or ()))
        and entry_point.__file__ in line
        and str(state) in line
        and " airflow " not in line
    ]


@pytest.mark.fault
def test_consumer_killed_between_statements_is_finished_by_its_retry(
    running_airflow, spark, wait_for
):
    server, tables = running_airflow.server, running_airflow.tables
    state = running_airflow.state
    source, first, second = (
        f"delta.`{tables}/retry{suffix}`" for suffix in ("", "_first", "_second")
    )
    spark.sql(f"CREATE TABLE {source} (id INT, v STRING) USING delta")
    spark.sql(f"INSERT INTO {source} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    columns = "id INT, v STRING, action STRING, is_update BOOLEAN"
    for target in (first, second):
        spark.sql(f"CREATE TABLE {target} ({columns}) USING delta")
    server.wait_dag("cdc_create")
    server.wait_dag("cdc_retry")
    server.wait_success("cdc_create", server.trigger("cdc_create"))
    spark.sql(f"INSERT INTO {source} VALUES (4, 'd')")
    spark.sql(f"UPDATE {source} SET v = 'B' WHERE id = 2")

    run = server.trigger("cdc_retry")
    first_statement = tables / "retry_first" / "_delta_log" / f"{1:020d}.json"
    wait_for(first_statement.exists, poll=0.05)
    killed = driver_processes(state)
    for process in killed:
        with suppress(psutil.NoSuchProcess):  # the Python driver ends with its JVM
            process.kill()
    begun = StreamCatalog(state.as_uri()).get_stream("retry_changes").consumption
    server.wait_success("cdc_retry", run)

    assert killed
    assert server.task("cdc_retry", run, "consume")["try_number"] == 2
    for target in (first, second):
        assert sorted(map(tuple, spark.sql(f"SELECT * FROM {target}").collect())) == [
            (2, "B", "INSERT", True),
            (2, "b", "DELETE", True),
            (4, "d", "INSERT", False),
        ]
    outcome = server.xcom("cdc_retry", run, "consume")
    assert begun is not None
    assert outcome["consumption_id"] == begun.consumption_id
    assert outcome["statements"][0]["result"] == "already_applied"
    log = server.task_log("cdc_retry", run, "consume", 2)
    assert "cdc_retry/consume: consumed retry_changes up to version" in log
    assert "statement 2 of 2 on delta." in log
    assert not [noise for noise in (":: resolution report ::", " WARN ", "INFO ") if noise in log]


def test_many_streams_are_consumed_in_one_job_and_a_retry_consumes_what_is_left(
    running_airflow, spark
):
    check_many_streams(running_airflow, spark)


def test_stream_consumed_late_causes_one_warning_breach_and_recovery(running_airflow, wait_for):
    """A warning, a breach and, after a late consumption, a recovery: each once."""
    server, tables = running_airflow.server, running_airflow.tables
    catalog = StreamCatalog(str(running_airflow.state))
    watched = watched_stream(running_airflow.state, tables / "watched")
    file = tables / "sent"

    def sent() -> list[str]:
        lines = file.read_text().splitlines() if file.exists() else []
        return [line for line in lines if line.startswith(f"{watched} ")]

    server.wait_dag("cdc_monitor")
    server.api("PATCH", "/dags/cdc_monitor", {"is_paused": False})
    try:
        wait_for(lambda: len(sent()) == 2)
        catalog.advance_stream(watched)
        wait_for(lambda: len(sent()) == 3)
        runs = server.api("GET", "/dags/cdc_monitor/dagRuns")["total_entries"]
        # Checks without news run before and after these.
        wait_for(lambda: server.api("GET", "/dags/cdc_monitor/dagRuns")["total_entries"] > runs + 2)
    finally:
        server.api("PATCH", "/dags/cdc_monitor", {"is_paused": True})

    print("\n".join(sent()))
    kinds = [line.partition(":")[0] for line in sent()]
    assert kinds == [f"{watched} staleness {kind}" for kind in ("warning", "breach", "recovery")]


def watched_stream(state: Path, table: Path) -> str:
    """A stream with a change, on a table that keeps removed files for 40 seconds."""
    kept = {"delta.deletedFileRetentionDuration": "interval 40 seconds"}
    metadata = {"id": "t", "configuration": kept | {"delta.enableRowTracking": "true"}}
    add_file(table, 1, datetime.now(UTC))
    stream = new_stream(
        "watched",
        source=Source("watched", str(table), "t"),
        offset=new_offset(0, metadata),
        created_at=datetime.now(UTC),
        max_data_extension=timedelta(0),
    )
    return register(state, stream).name
