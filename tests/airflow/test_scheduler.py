"""Streams under a real scheduler, triggerer and spark-submit: no change is lost or doubled."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest
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


def make_tables(spark, tables: Path, name: str) -> None:
    """A source of three rows, a target with the same rows, and an empty log of changes."""
    columns = "id INT, v STRING"
    for table in (name, f"{name}_current"):
        spark.sql(f"CREATE TABLE delta.`{tables}/{table}` ({columns}) USING delta")
        spark.sql(f"INSERT INTO delta.`{tables}/{table}` VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    spark.sql(
        f"CREATE TABLE delta.`{tables}/{name}_log` ({columns}, action STRING, is_update BOOLEAN)"
        " USING delta"
    )


def rows(spark, table: Path) -> list[tuple]:
    """The rows of a table as sorted tuples."""
    return sorted(tuple(row) for row in spark.read.format("delta").load(str(table)).collect())


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


def test_stream_with_sensor_and_consumer_is_consumed_once_in_each_run(
    running_airflow, spark, wait_for
):
    server, tables = running_airflow.server, running_airflow.tables
    make_tables(spark, tables, "flow")
    server.wait_dag("cdc_flow")
    server.wait_dag("cdc_after")

    first = server.trigger("cdc_flow")
    server.wait_task("cdc_flow", first, "wait", "deferred")
    source = f"delta.`{tables}/flow`"
    spark.sql(
        f"MERGE INTO {source} AS t USING"
        " (SELECT * FROM VALUES (1, 'A'), (2, NULL), (4, 'd') AS given (id, v)) AS c"
        " ON t.id = c.id WHEN MATCHED AND c.v IS NULL THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET v = c.v WHEN NOT MATCHED THEN INSERT *"
    )
    server.wait_success("cdc_flow", first)

    expected_log = [
        (1, "A", "INSERT", True),
        (1, "a", "DELETE", True),
        (2, "b", "DELETE", False),
        (4, "d", "INSERT", False),
    ]
    assert rows(spark, tables / "flow_log") == expected_log
    assert rows(spark, tables / "flow_current") == [(1, "A"), (3, "c"), (4, "d")]
    outcome = server.xcom("cdc_flow", first, "consume")
    assert outcome["consumer"] == "cdc_flow/consume"
    assert outcome["streams"][0]["name"] == "flow_changes"
    assert outcome["streams"][0]["rows"] == {"inserted": 1, "updated": 1, "deleted": 1}
    assert [item["result"] for item in outcome["statements"]] == ["applied", "applied"]
    attempt = server.task("cdc_flow", first, "consume")["try_number"]
    log = server.task_log("cdc_flow", first, "consume", attempt)
    assert "cdc_flow/consume: consumed flow_changes up to version" in log
    assert "statement 2 of 2 on delta." in log
    assert not [noise for noise in (":: resolution report ::", " WARN ", "INFO ") if noise in log]

    spark.sql(f"INSERT INTO {source} VALUES (5, 'e')")
    second = server.trigger("cdc_flow")
    server.wait_success("cdc_flow", second)

    assert rows(spark, tables / "flow_log") == [*expected_log, (5, "e", "INSERT", False)]
    assert rows(spark, tables / "flow_current") == rows(spark, tables / "flow")
    following = server.xcom("cdc_flow", second, "consume")["streams"][0]
    assert following["after_version"] == outcome["streams"][0]["through_version"]

    # Each consumption wakes the next DAG, which sees the range of that consumption. (Airflow 3.3.2
    # fails to list the events of a run that has not started.)
    def woken() -> list[dict]:
        return server.api("GET", "/dags/cdc_after/dagRuns?order_by=run_after")["dag_runs"]

    wait_for(lambda: [run["state"] for run in woken()] == ["success", "success"])
    ranges = []
    for run in woken():
        path = f"/dags/cdc_after/dagRuns/{run['dag_run_id']}/upstreamAssetEvents"
        (event,) = server.api("GET", path)["asset_events"]
        ranges.append((event["extra"]["after_version"], event["extra"]["through_version"]))
    assert ranges == [
        (item["after_version"], item["through_version"])
        for item in (outcome["streams"][0], following)
    ]


@pytest.mark.fault
def test_consumer_killed_between_statements_is_finished_by_its_retry(
    running_airflow, spark, wait_for
):
    from airflow_provider_cdc.engine import Engine

    server, tables = running_airflow.server, running_airflow.tables
    state = running_airflow.state
    make_tables(spark, tables, "retry")
    Engine(spark, state=state.as_uri()).create_stream("retry_changes", on_table=f"{tables}/retry")
    source = f"delta.`{tables}/retry`"
    spark.sql(f"INSERT INTO {source} VALUES (4, 'd')")
    spark.sql(f"UPDATE {source} SET v = 'B' WHERE id = 2")
    server.wait_dag("cdc_retry")

    run = server.trigger("cdc_retry")
    first_statement = tables / "retry_current" / "_delta_log" / f"{2:020d}.json"
    wait_for(first_statement.exists)
    killed = driver_processes(state)
    for process in killed:
        with suppress(psutil.NoSuchProcess):  # the Python driver ends with its JVM
            process.kill()
    begun = StreamCatalog(state.as_uri()).describe("retry_changes").consumption
    server.wait_success("cdc_retry", run)

    assert killed
    assert server.task("cdc_retry", run, "consume")["try_number"] == 2
    assert rows(spark, tables / "retry_log") == [
        (2, "B", "INSERT", True),
        (2, "b", "DELETE", True),
        (4, "d", "INSERT", False),
    ]
    assert rows(spark, tables / "retry_current") == rows(spark, tables / "retry")
    outcome = server.xcom("cdc_retry", run, "consume")
    assert begun is not None
    assert outcome["consumption_id"] == begun.consumption_id
    assert outcome["statements"][0]["result"] == "already_applied"


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
        catalog.advance(watched)
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
    """A stream with a change, on a table that keeps removed files for a minute."""
    minute = {"delta.deletedFileRetentionDuration": "interval 60 seconds"}
    metadata = {"id": "t", "configuration": minute | {"delta.enableRowTracking": "true"}}
    add_file(table, 1, datetime.now(UTC))
    stream = new_stream(
        "watched",
        source=Source("watched", str(table), "t"),
        offset=new_offset(0, metadata),
        created_at=datetime.now(UTC),
        max_data_extension=timedelta(0),
    )
    return register(state, stream).name
