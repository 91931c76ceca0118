"""Operators, sensor and hooks on real streams, where they work without a Spark job."""

from __future__ import annotations

import asyncio
import json
import shutil
from datetime import timedelta
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred
from airflow.triggers.base import TaskSuccessEvent, TriggerEvent
from spark_settings import FIRST_COMPILER

from airflow_provider_cdc.engine import Engine
from airflow_provider_cdc.engine.core.arguments.points import Version
from airflow_provider_cdc.engine.core.errors import StreamNotFound
from airflow_provider_cdc.hooks.cdc import CdcHook, request_for
from airflow_provider_cdc.hooks.stale_stream import StaleStreamHook
from airflow_provider_cdc.jobs.run import run
from airflow_provider_cdc.operators.stream import (
    AdvanceStream,
    ConsumeStream,
    CreateStream,
    DropStream,
)
from airflow_provider_cdc.operators.stream_administration import (
    AbortConsumption,
    AlterStream,
    CloneStream,
    RewindStream,
    UndropStream,
)
from airflow_provider_cdc.sensors.stream import StreamHasDataSensor

pytestmark = [pytest.mark.airflow, pytest.mark.spark]

TASK = {"ti": SimpleNamespace(dag_id="d", task_id="t", map_index=-1)}


@pytest.fixture
def stream(spark, define_connection, tmp_path):
    """A stream ``s`` on a table of two rows; without a Spark connection no job can be submitted."""
    table = f"delta.`{tmp_path}/source`"
    spark.sql(f"CREATE TABLE {table} (id INT, v STRING) USING delta")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    conf = {"spark.driver.extraJavaOptions": FIRST_COMPILER}
    define_connection("cdc_default", "cdc", state=(tmp_path / "state").as_uri(), conf=conf)
    engine = Engine(spark, state=(tmp_path / "state").as_uri())
    engine.create_stream("s", on_table=f"{tmp_path}/source")
    return SimpleNamespace(table=table, folder=tmp_path / "source", engine=engine)


def sensor(**arguments) -> StreamHasDataSensor:
    return StreamHasDataSensor(task_id="wait", stream="s", poke_interval=1, **arguments)


def deferral(call) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as caught:
        call()
    return caught.value


def event_of(trigger) -> TriggerEvent:
    async def first():
        events = trigger.run()
        try:
            return await anext(events)
        finally:
            await events.aclose()

    return asyncio.run(first())


def test_sensor_with_data_is_done_at_the_first_check(stream, spark):
    spark.sql(f"DELETE FROM {stream.table} WHERE id = 1")

    result = sensor(deferrable=True).execute(TASK)

    assert result["stream"] == "s"
    assert result["latest_version"] == result["offset_version"] + 1


def test_sensor_without_data_defers_until_the_next_commit(stream, spark):
    wait = sensor(deferrable=True, timeout=60)

    deferred = deferral(lambda: wait.execute(TASK))
    spark.sql(f"DELETE FROM {stream.table} WHERE id = 1")
    event = event_of(deferred.trigger)

    assert timedelta(seconds=50) < deferred.timeout <= timedelta(seconds=60)
    assert isinstance(event, TaskSuccessEvent)
    result = event.xcoms["return_value"]
    assert result["stream"] == "s"
    assert result["latest_version"] == result["offset_version"] + 1


def test_sensor_of_a_stream_on_files_is_done_when_a_file_arrives(stream, tmp_path):
    inbox = tmp_path / "in"
    inbox.mkdir()
    stream.engine.create_stream(
        "files", on_files=str(inbox), file_format="csv", file_schema="id INT", mode="insert_only"
    )
    wait = StreamHasDataSensor(task_id="wait", stream="files")

    assert not wait.poke(TASK).is_done
    (inbox / "a.csv").write_text("1")
    assert wait.poke(TASK).is_done
    (inbox / "a.csv").unlink()
    assert not wait.poke(TASK).is_done


def test_sensor_after_only_an_optimize_is_not_done(stream, spark):
    spark.sql(f"INSERT INTO {stream.table} VALUES (3, 'c')")
    stream.engine.advance_stream("s")
    spark.sql(f"OPTIMIZE {stream.table}")

    assert not sensor().poke(TASK).is_done


@pytest.mark.parametrize("deferrable", [True, False])
def test_sensor_on_a_missing_stream_fails_for_good(stream, deferrable):
    DropStream(task_id="drop", stream="s").execute(TASK)

    with pytest.raises(AirflowFailException, match=r"(?i)stream s"):
        sensor(deferrable=deferrable).execute(TASK)


@pytest.mark.parametrize("deferrable", [True, False])
def test_sensor_that_fails_softly_is_skipped(stream, deferrable):
    DropStream(task_id="drop", stream="s").execute(TASK)

    with pytest.raises(AirflowSkipException):
        sensor(deferrable=deferrable, soft_fail=True).execute(TASK)


def test_sensor_whose_stream_is_dropped_while_it_waits_fails_for_good(stream):
    wait = sensor(deferrable=True)
    deferred = deferral(lambda: wait.execute(TASK))
    DropStream(task_id="drop", stream="s").execute(TASK)

    event = event_of(deferred.trigger).payload

    assert event["status"] == "failed"
    with pytest.raises(AirflowFailException, match=r"(?i)stream s"):
        wait.execute_complete(TASK, event)


def test_sensor_whose_source_is_missing_fails_for_good(stream):
    shutil.rmtree(stream.folder)

    with pytest.raises(AirflowFailException, match="stream s: is stale") as caught:
        sensor().poke(TASK)

    # A new stream would skip the changes that this one has not consumed.
    assert 'at=OffsetOf("s")' in str(caught.value)
    assert "recreate" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_exact_sensor_without_a_net_change_waits_for_a_later_commit(
    stream, spark, define_connection
):
    define_connection("spark_default", "spark", "local[1]")
    spark.sql(f"UPDATE {stream.table} SET v = 'x' WHERE id = 1")
    spark.sql(f"UPDATE {stream.table} SET v = 'a' WHERE id = 1")
    wait = sensor(exact=True, deferrable=True)

    deferred = deferral(lambda: wait.execute(TASK))

    latest = StaleStreamHook().describe_stream("s").latest_version
    assert deferred.trigger.serialize()[1]["after_version"] == latest
    spark.sql(f"UPDATE {stream.table} SET v = 'y' WHERE id = 1")
    event = event_of(deferred.trigger).payload
    assert wait.execute_complete(TASK, event)["latest_version"] == latest + 1


def test_create_stream_if_not_exists_on_an_existing_one_submits_nothing(stream):
    create = CreateStream(task_id="c", stream="s", on_table="elsewhere", if_not_exists=True)

    result = create.execute(TASK)

    assert result["stream"] == "s"
    assert result["mode"] == "standard"
    assert result["offset_version"] == StaleStreamHook().describe_stream("s").offset_version


def test_consume_stream_of_a_missing_stream_fails_before_submission(stream):
    consume = ConsumeStream(task_id="c", stream="other", sql="INSERT INTO t SELECT * FROM s")

    with pytest.raises(AirflowFailException, match="stream other"):
        consume.execute(TASK)


def test_consume_stream_that_no_statement_reads_fails_before_submission(stream):
    stream.engine.create_stream("unread", on_table=str(stream.folder))
    consume = ConsumeStream(task_id="c", stream="unread", sql="INSERT INTO t SELECT * FROM s")

    with pytest.raises(AirflowFailException, match="stream unread: is not read by any statement"):
        consume.execute(TASK)


def test_consume_stream_with_only_a_query_fails_before_submission(stream):
    consume = ConsumeStream(task_id="c", stream="s", sql="SELECT * FROM s")

    with pytest.raises(AirflowFailException, match="statement 'SELECT"):
        consume.execute(TASK)


def test_advance_stream_of_a_missing_stream_fails_before_submission(stream):
    with pytest.raises(AirflowFailException, match="stream other"):
        AdvanceStream(task_id="a", stream="other").execute(TASK)


def test_drop_stream_removes_it_and_a_second_drop_needs_if_exists(stream):
    DropStream(task_id="d", stream="s").execute(TASK)

    assert CdcHook().catalog().list_streams() == []
    DropStream(task_id="d", stream="s", if_exists=True).execute(TASK)
    with pytest.raises(AirflowFailException, match="stream s"):
        DropStream(task_id="d", stream="s").execute(TASK)


@pytest.fixture
def jobs_on_session(spark, monkeypatch):
    """Jobs run on the session of the tests, whatever the Spark connection is."""

    def submit(hook, task, *, context=None):
        answer = run(request_for(hook.settings, task), spark)
        assert answer.error is None, answer.error
        return answer

    monkeypatch.setattr(CdcHook, "submit", submit)


def test_abort_ends_an_open_consumption_and_rewind_restores_the_offset(
    stream, spark, jobs_on_session
):
    target = f"{stream.folder}_copy"
    spark.sql(f"CREATE TABLE delta.`{target}` (id INT) USING delta")
    spark.sql(f"DELETE FROM {stream.table} WHERE id = 1")
    abort = AbortConsumption(task_id="abort", stream="s", keep=target)
    begin = CdcHook().catalog().get_stream("s").offset.version
    assert abort.execute(TASK)["offset_version"] == begin

    def interrupted():
        with stream.engine.transaction(consumer="c") as tx:
            tx.sql(f"INSERT INTO delta.`{target}` SELECT id FROM s")
            # A commit of another writer keeps the consumption from being undone.
            spark.sql(f"INSERT INTO delta.`{target}` VALUES (99)")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert CdcHook().catalog().get_stream("s").consumption is not None
    abort.execute(TASK)

    assert CdcHook().catalog().get_stream("s").consumption is None
    assert sorted(row.id for row in spark.table(f"delta.`{target}`").collect()) == [1, 99]
    stream.engine.advance_stream("s")
    rewound = RewindStream(task_id="rewind", stream="s", to=Version(begin)).execute(TASK)
    assert rewound["offset_version"] == begin
    assert stream.engine.stream_has_data("s")


def test_airflow_cdc_acts_that_need_spark_run_as_jobs(stream, spark, jobs_on_session, cdc_command):
    create = ("create", "hand", "--on-table", str(stream.folder), "--mode", "append_only")
    created = json.loads(cdc_command(*create, "--comment", "by hand"))
    assert (created["did"], created["mode"]) == ("create", "append_only")
    assert CdcHook().catalog().get_stream("hand").comment == "by hand"
    assert json.loads(cdc_command(*create, "--if-not-exists")) == created
    spark.sql(f"INSERT INTO {stream.table} VALUES (3, 'c'), (4, NULL)")

    lines = json.loads(cdc_command("read", "hand", "-o", "json"))
    assert sorted((line["id"], line["v"]) for line in lines) == [("3", "c"), ("4", "")]
    assert len(cdc_command("read", "hand", "--limit", "1").splitlines()) == 2
    assert "name: hand" in cdc_command("streams", "hand", "-o", "yaml")

    cdc_command("advance", "hand", "--yes")
    assert json.loads(cdc_command("read", "hand", "-o", "json")) == []
    (offset,) = created["offsets"]
    rewound = json.loads(cdc_command("rewind", "hand", "--to", f"version={offset}", "--yes"))
    assert rewound["offsets"] == [offset]


def test_airflow_cdc_doctor_checks_what_a_job_reaches(stream, jobs_on_session, cdc_command, capsys):
    with pytest.raises(SystemExit):
        cdc_command("doctor")
    printed = capsys.readouterr().out
    assert "ok    state folder from the driver: " in printed
    assert "ok    state folder from the executors: " in printed


def test_stream_is_cloned_dropped_and_undropped_without_spark(stream):
    offset = CdcHook().catalog().get_stream("s").offset.version
    cloned = CloneStream(task_id="clone", stream="copy", of="s", comment="mine").execute(TASK)
    assert (cloned["stream"], cloned["offset_version"]) == ("copy", offset)
    assert CdcHook().catalog().get_stream("copy").comment == "mine"

    with pytest.raises(AirflowFailException, match="cannot be brought back"):
        UndropStream(task_id="undrop", stream="s").execute(TASK)
    DropStream(task_id="drop", stream="s").execute(TASK)
    undropped = UndropStream(task_id="undrop", stream="s").execute(TASK)

    assert (undropped["stream"], undropped["offset_version"]) == ("s", offset)
    assert [each.name for each in CdcHook().catalog().list_streams()] == ["copy", "s"]


def test_stream_is_altered_without_spark_and_keeps_other_properties(stream):
    AlterStream(
        task_id="alter", stream="s", comment="mine", readers=["bob"], max_lag="INTERVAL 10 MINUTE"
    ).execute(TASK)
    AlterStream(task_id="alter", stream="s", max_data_extension="P3D").execute(TASK)

    found = CdcHook().catalog().get_stream("s")
    assert (found.comment, found.readers, found.max_lag, found.max_data_extension) == (
        "mine",
        ("bob",),
        timedelta(minutes=10),
        timedelta(days=3),
    )
    with pytest.raises(AirflowFailException, match="did you mean s"):
        AlterStream(task_id="alter", stream="ss", comment=None).execute(TASK)


def test_stale_stream_hook_counts_the_lag_in_versions_and_commits(stream, spark):
    spark.sql(f"DELETE FROM {stream.table} WHERE id = 1")

    (status,) = StaleStreamHook().describe_streams()

    assert (status.name, status.versions_behind, status.commits_behind) == ("s", 1, 1)
    assert StaleStreamHook().stale_streams() == []
    with pytest.raises(StreamNotFound):
        StaleStreamHook().describe_stream("other")


def test_stale_stream_hook_names_a_stream_whose_source_is_missing(stream):
    shutil.rmtree(stream.folder)

    assert [status.name for status in StaleStreamHook().stale_streams()] == ["s"]


def test_connection_test_without_a_spark_connection_reports_it(stream):
    succeeded, message = CdcHook().test_connection()

    assert not succeeded
    assert "Spark connection spark_default: was not found" in message


def test_connection_test_without_a_state_folder_reports_it(define_connection):
    define_connection("cdc_default", "cdc")

    succeeded, message = CdcHook().test_connection()

    assert not succeeded
    assert "state" in message
    assert "Fix: " in message


def test_connection_test_that_succeeds_counts_the_streams(stream, define_connection):
    define_connection("spark_default", "spark", "local[1]")

    succeeded, message = CdcHook().test_connection()

    assert succeeded
    assert message.startswith("1 streams in file:///")
