"""DAGs under a real scheduler, over Spark Connect: one consumes a stream, one applies upserts."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from airflow_fixtures import run_airflow
from many_streams import check_many_streams

from airflow_provider_cdc.engine import Engine

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.connect,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

PROMISE = timedelta(minutes=1)
WRITES = 8
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
        # A new upsert table gets its DAG at the next parse.
        parse_seconds=10,
    ) as running:
        yield running


def make_tables(spark, tables: Path) -> None:
    """A source of three rows, a target with the same rows, and an empty log of changes."""
    columns = "id INT, v STRING"
    for table in ("flow", "flow_current"):
        spark.sql(f"CREATE TABLE delta.`{tables}/{table}` ({columns}) USING delta")
        spark.sql(f"INSERT INTO delta.`{tables}/{table}` VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    spark.sql(
        f"CREATE TABLE delta.`{tables}/flow_log` ({columns}, action STRING, is_update BOOLEAN)"
        " USING delta"
    )


def rows(spark, table: Path) -> list[tuple]:
    """The rows of a table as sorted tuples."""
    return sorted(tuple(row) for row in spark.read.format("delta").load(str(table)).collect())


def test_stream_with_sensor_and_consumer_is_consumed_once_in_each_run(
    running_airflow, remote, wait_for
):
    server, tables = running_airflow.server, running_airflow.tables
    make_tables(remote, tables)
    server.wait_dag("cdc_flow")
    server.wait_dag("cdc_after")

    first = server.trigger("cdc_flow")
    server.wait_task("cdc_flow", first, "wait", "deferred")
    source = f"delta.`{tables}/flow`"
    remote.sql(
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
    assert rows(remote, tables / "flow_log") == expected_log
    assert rows(remote, tables / "flow_current") == [(1, "A"), (3, "c"), (4, "d")]
    outcome = server.xcom("cdc_flow", first, "consume")
    assert outcome["consumer"] == "cdc_flow/consume"
    assert outcome["streams"][0]["name"] == "flow_changes"
    assert outcome["streams"][0]["rows"] == {"inserted": 1, "updated": 1, "deleted": 1}
    assert [item["result"] for item in outcome["statements"]] == ["applied", "applied"]
    attempt = server.task("cdc_flow", first, "consume")["try_number"]
    log = server.task_log("cdc_flow", first, "consume", attempt)
    assert "cdc_flow/consume: consumed flow_changes up to version" in log
    assert "statement 2 of 2 on delta." in log

    remote.sql(f"INSERT INTO {source} VALUES (5, 'e')")
    second = server.trigger("cdc_flow")
    server.wait_success("cdc_flow", second)

    assert rows(remote, tables / "flow_log") == [*expected_log, (5, "e", "INSERT", False)]
    assert rows(remote, tables / "flow_current") == rows(remote, tables / "flow")
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


@pytest.mark.thorough  # tests/airflow has the same with jobs by spark-submit
def test_many_streams_are_consumed_in_one_job_and_a_retry_consumes_what_is_left(
    running_airflow, remote
):
    check_many_streams(running_airflow, remote)


def test_partitions_that_split_are_read_once_by_mapped_tasks(running_airflow, remote, wait_for):
    """While a partition splits, the attempt of one reader fails, and another one is killed."""
    server, tables = running_airflow.server, running_airflow.tables
    accounts = f"delta.`{tables}/accounts`"
    remote.sql(f"CREATE TABLE {accounts} (id INT, balance BIGINT) USING delta")
    remote.sql(
        f"CREATE TABLE delta.`{tables}/audit` (txn STRING, sequence STRING, place INT,"
        " kind STRING, keys STRING) USING delta"
    )
    engine = Engine(remote, running_airflow.state.as_uri())
    server.wait_dag("cdc_partitions")
    server.wait_dag("cdc_partitions_advanced")
    runs_of_reads = []

    def started() -> str:
        runs_of_reads.append(server.trigger("cdc_partitions"))
        return runs_of_reads[-1]

    def settled(run: str) -> dict:
        server.wait_success("cdc_partitions", run)
        return server.xcom("cdc_partitions", run, "settle")

    settled(started())
    # The sensor sees what another process advanced.
    waiting = server.trigger("cdc_partitions_ready")
    server.wait_task("cdc_partitions_ready", waiting, "wait", "deferred")
    remote.sql(f"INSERT INTO {accounts} SELECT CAST(id AS INT), 100 FROM range(30)")
    engine.advance_change_stream("transfers")
    server.wait_success("cdc_partitions_ready", waiting)
    found = {"change_stream": "transfers", "consumer": "cdc_partitions", "partitions": 2}
    assert server.xcom("cdc_partitions_ready", waiting, "wait") == found
    (stream,) = engine.list_change_streams()
    assert stream.settings.retention == timedelta(days=2)

    (tables / "trouble").touch()
    troubled = started()
    wait_for((tables / "reading").exists)
    engine.split_partition("transfers", stream.token_key.token(stream.layout.open[0]))
    remote.sql(f"UPDATE {accounts} SET balance = balance + id WHERE id % 2 = 0")
    wait_for((tables / "killed").exists)
    (tables / "go_on").touch()
    # Nothing is left to read of the partition that was split, so its children are known.
    assert settled(troubled)["partitions"] == 3
    readers = f"/dags/cdc_partitions/dagRuns/{troubled}/taskInstances/read/listMapped"
    attempts = [each["try_number"] for each in server.api("GET", readers)["task_instances"]]
    assert len(attempts) == 2
    assert min(attempts) > 1
    (tables / "trouble").unlink()

    remote.sql(f"DELETE FROM {accounts} WHERE id < 10")
    # Children are read in the run after that of their parents.
    while (progress := settled(started()))["waiting"]:
        assert len(runs_of_reads) < 5
    assert (progress["consumer"], progress["partitions"]) == ("cdc_partitions", 3)
    expected = [
        (row.server_transaction_id, row.record_sequence, place, row.mod_type, mod["keys"])
        for row in engine.change_records("transfers").collect()
        for place, mod in enumerate(row.mods)
    ]
    assert len(expected) == 30 + 14 + 10
    assert rows(remote, tables / "audit") == sorted(expected)

    # Each advance of the DAG wakes the next one, which sees how far it came.
    names = ("change_stream", "captured_through", "partitions")
    advances = [server.xcom("cdc_partitions", run, "advance") for run in runs_of_reads]
    expected = [{name: each[name] for name in names} for each in advances]
    wait_for(lambda: seen_events(server, "cdc_partitions_advanced") == expected)


def seen_events(server, dag_id):
    """The extra of each asset event that woke a DAG, in their order. It is empty until each run has
    ended: Airflow 3.3.2 fails to list the events of a run that has not started.
    """
    found = server.api("GET", f"/dags/{dag_id}/dagRuns?order_by=run_after")["dag_runs"]
    if any(run["state"] != "success" for run in found):
        return []
    paths = (f"/dags/{dag_id}/dagRuns/{run['dag_run_id']}/upstreamAssetEvents" for run in found)
    events = [event for path in paths for event in server.api("GET", path)["asset_events"]]
    return [event["extra"] for event in sorted(events, key=itemgetter("timestamp"))]


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
            time.sleep(1)
    wait_for(lambda: look().pending_since is None, seconds=120, poll=1)

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

    # A run applies its changes before the scheduler marks it as a success.
    def two_runs():
        finished = runs(running_airflow.server, dag_id, "success")
        return finished if len(finished) >= 2 else None

    done = wait_for(two_runs, seconds=120, poll=1)
    with capsys.disabled():
        print(
            f"\nstaleness at most {max(staleness).total_seconds():.0f} s of"
            f" {PROMISE.total_seconds():.0f} s, in {len(staleness)} looks, {len(done)} runs"
        )
