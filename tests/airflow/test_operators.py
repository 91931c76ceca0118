from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from unittest.mock import create_autospec

import pendulum
import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException
from airflow.serialization.serialized_objects import DagSerialization
from streams import NOON, new_stream
from structlog.testing import capture_logs
from structlog.tracebacks import extract

from airflow_provider_cdc.engine import Engine
from airflow_provider_cdc.engine.core.archives.archive_outcome import ArchiveOutcome
from airflow_provider_cdc.engine.core.arguments.points import OffsetOf, Version
from airflow_provider_cdc.engine.core.change_feed.tracked_since import ChangeTracking
from airflow_provider_cdc.engine.core.change_streams.consumer import PartitionRead
from airflow_provider_cdc.engine.core.change_streams.definition import CaptureSettings, ChangeStream
from airflow_provider_cdc.engine.core.change_streams.layout import Layout as Partitions
from airflow_provider_cdc.engine.core.change_streams.value_capture import ModType
from airflow_provider_cdc.engine.core.change_streams.watches import ALL, Watch, WatchedTable
from airflow_provider_cdc.engine.core.model.consumption import Consumption
from airflow_provider_cdc.engine.core.model.json_text import from_json, to_json
from airflow_provider_cdc.engine.core.model.outcomes import (
    Outcome,
    StatementOutcome,
    StatementResult,
    StreamOutcome,
)
from airflow_provider_cdc.engine.core.model.sources import Source
from airflow_provider_cdc.engine.core.names import consumer_name
from airflow_provider_cdc.engine.core.upserts.write_result import WriteResult
from airflow_provider_cdc.engine.core.verification.verification import (
    DifferenceKind,
    KeyDifference,
    Verification,
)
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.state.change_streams import ChangeStreams
from airflow_provider_cdc.hooks.cdc import CdcHook
from airflow_provider_cdc.hooks.failures import CdcJobFailed
from airflow_provider_cdc.hooks.spark_submission import SparkSubmission
from airflow_provider_cdc.hooks.stale_stream import StaleStreamHook
from airflow_provider_cdc.jobs import change_stream_tasks
from airflow_provider_cdc.jobs import model as jobs
from airflow_provider_cdc.jobs.answer_lines import answer_lines
from airflow_provider_cdc.jobs.change_streams import change_stream_answer
from airflow_provider_cdc.jobs.model import Answer, JobError, Request
from airflow_provider_cdc.operators.archives import ArchiveChanges
from airflow_provider_cdc.operators.change_streams import (
    AdvanceChangeStream,
    AlterChangeStream,
    CreateChangeStream,
    DropChangeStream,
)
from airflow_provider_cdc.operators.change_tracking import EnableChangeTracking
from airflow_provider_cdc.operators.changes import ExportChanges
from airflow_provider_cdc.operators.consumptions import ConsumeStreams
from airflow_provider_cdc.operators.history import ApplyChanges, RebuildHistory
from airflow_provider_cdc.operators.identities import default_consumer
from airflow_provider_cdc.operators.maintenance import MaintainStreams, RecoverStream
from airflow_provider_cdc.operators.monitor import CheckStreams
from airflow_provider_cdc.operators.outcome import outcome_result
from airflow_provider_cdc.operators.partitions import (
    ListPartitions,
    ReadPartition,
    SettlePartitions,
)
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
from airflow_provider_cdc.operators.upsert_tables import (
    AddColumns,
    AlterUpsertTable,
    CreateUpsertTable,
    DropUpsertTable,
)
from airflow_provider_cdc.operators.upserts import (
    ApplyUpserts,
    ExportTable,
    RedriveChanges,
    WriteChanges,
)
from airflow_provider_cdc.operators.verification import VerifyTarget
from airflow_provider_cdc.sensors.change_streams import PartitionsReadySensor
from airflow_provider_cdc.sensors.stream import StreamHasDataSensor
from airflow_provider_cdc.triggers.stream import StreamHasDataTrigger


def operators():
    return [
        CreateStream(task_id="create", stream="s", on_table="t", if_not_exists=True),
        StreamHasDataSensor(task_id="wait", stream="s", deferrable=True),
        ConsumeStream(task_id="consume", stream="s", sql=["INSERT INTO t SELECT * FROM s"]),
        ConsumeStreams(task_id="consume_all", consumptions=[{"stream": "s", "apply": "etl:f"}]),
        AdvanceStream(task_id="advance", stream="s"),
        DropStream(task_id="drop", stream="s", if_exists=True),
        ExportChanges(task_id="export", source="t", target="u", at=Version(1)),
        MaintainStreams(task_id="maintain"),
        RecoverStream(task_id="recover", stream="s", target="t", key=["id"]),
        AbortConsumption(task_id="abort", stream="s", keep="t"),
        RewindStream(task_id="rewind", stream="s", to=Version(1)),
        EnableChangeTracking(task_id="track", table="t"),
        ArchiveChanges(task_id="archive", table="t", archive="u"),
        ApplyChanges(task_id="apply_changes", target="t", keys="id", stream="s"),
        RebuildHistory(task_id="rebuild", target="t", archive="a", stream="s"),
        VerifyTarget(task_id="verify", stream="s", target="t", key="id"),
        CreateChangeStream(task_id="create_cs", change_stream="cs", tables={"t": {"keys": ["id"]}}),
        AlterChangeStream(task_id="alter_cs", change_stream="cs", comment=None),
        AdvanceChangeStream(task_id="advance_cs", change_stream="cs"),
        DropChangeStream(task_id="drop_cs", change_stream="cs"),
        PartitionsReadySensor(task_id="wait_cs", change_stream="cs", deferrable=True),
        ListPartitions(task_id="partitions", change_stream="cs"),
        ReadPartition(task_id="read", change_stream="cs", token="t", sql="DELETE FROM t"),
        SettlePartitions(task_id="settle", change_stream="cs"),
        AlterStream(task_id="alter", stream="s", max_lag=None),
        UndropStream(task_id="undrop", stream="s"),
        CloneStream(task_id="clone", stream="c", of="s"),
        CreateUpsertTable(task_id="create_table", table="t", schema="id INT", primary_key="id"),
        AlterUpsertTable(task_id="alter_table", table="t", max_staleness=None),
        AddColumns(task_id="add_columns", table="t", schema="phone STRING"),
        DropUpsertTable(task_id="drop_table", table="t"),
        WriteChanges(task_id="write", table="t", query="SELECT 1 AS id, 'DELETE' AS _CHANGE_TYPE"),
        ApplyUpserts(task_id="apply", table="t"),
        RedriveChanges(task_id="redrive", table="t"),
        ExportTable(task_id="export_table", table="t", target="u"),
    ]


@pytest.mark.parametrize("operator", operators(), ids=lambda item: type(item).__name__)
def test_operator_template_fields_are_attributes(operator):
    assert all(hasattr(operator, name) for name in operator.template_fields)
    subjects = {
        EnableChangeTracking: {"table"},
        ArchiveChanges: {"table", "archive"},
        ApplyChanges: {"target", "keys", "stream", "query", "snapshot", "consumer"},
        RebuildHistory: {"target", "archive", "stream", "query", "consumer"},
        VerifyTarget: {"stream", "target", "key"},
        CreateChangeStream: {"change_stream", "tables"},
        AlterChangeStream: {"change_stream", "tables", "retention_period", "comment"},
        AdvanceChangeStream: {"change_stream"},
        DropChangeStream: {"change_stream"},
        PartitionsReadySensor: {"change_stream", "consumer", "start_timestamp"},
        ListPartitions: {"change_stream", "consumer"},
        ReadPartition: {"change_stream", "consumer", "token", "sql", "work"},
        SettlePartitions: {"change_stream", "consumer"},
        ConsumeStreams: {"consumptions", "parallelism"},
        ExportChanges: {"source"},
        MaintainStreams: set(),
        CreateUpsertTable: {"table", "schema", "primary_key", "max_staleness", "cluster_by"},
        AlterUpsertTable: {"table", "max_staleness", "tombstone_horizon"},
        AddColumns: {"table", "schema"},
        DropUpsertTable: {"table"},
        WriteChanges: {"table"},
        ApplyUpserts: {"table"},
        RedriveChanges: {"table"},
        ExportTable: {"table", "target"},
    }
    subject = subjects.get(type(operator), {"stream"})
    assert subject | {"conn_id"} <= set(operator.template_fields)


def test_operators_in_a_dag_survive_its_serialisation():
    with DAG("cdc") as dag:
        operators()

    restored = DagSerialization.from_dict(DagSerialization.to_dict(dag))

    assert set(restored.task_ids) == {
        "create",
        "wait",
        "consume",
        "consume_all",
        "advance",
        "drop",
        "undrop",
        "clone",
        "export",
        "maintain",
        "recover",
        "abort",
        "rewind",
        "track",
        "archive",
        "verify",
        "create_cs",
        "alter_cs",
        "advance_cs",
        "drop_cs",
        "wait_cs",
        "partitions",
        "read",
        "settle",
        "alter",
        "create_table",
        "alter_table",
        "add_columns",
        "drop_table",
        "write",
        "apply",
        "apply_changes",
        "rebuild",
        "redrive",
        "export_table",
    }


def test_operator_templates_are_rendered_in_lists():
    consume = ConsumeStream(
        task_id="consume", stream=["{{ ds }}"], sql=["INSERT INTO t_{{ ds }} SELECT 1"]
    )

    consume.render_template_fields({"ds": "2013"})

    assert (consume.stream, consume.sql) == (["2013"], ["INSERT INTO t_2013 SELECT 1"])


@pytest.mark.parametrize(("map_index", "consumer"), [(-1, "d/t"), (None, "d/t"), (3, "d/t/3")])
def test_consumer_by_default_is_the_task_in_every_run(map_index, consumer):
    instance = SimpleNamespace(dag_id="d", task_id="t", map_index=map_index, run_id="r")

    assert default_consumer({"ti": instance}) == consumer


def test_tasks_whose_ids_hold_dots_are_consumers_of_their_own():
    tasks = [
        SimpleNamespace(dag_id=dag_id, task_id=task_id, map_index=map_index)
        for dag_id, task_id, map_index in [
            ("sales", "eu.load", -1),
            ("sales.eu", "load", -1),
            ("sales", "eu.load.3", -1),
            ("sales", "eu.load", 3),
        ]
    ]

    assert len({default_consumer({"ti": task}) for task in tasks}) == len(tasks)


def test_consumer_of_a_task_with_long_ids_is_a_valid_name_of_its_own():
    tasks = [
        SimpleNamespace(dag_id="d" * 250, task_id="t" * 200 + end, map_index=-1) for end in "ab"
    ]

    consumers = {default_consumer({"ti": task}) for task in tasks}

    assert {consumer_name(name) for name in consumers} == consumers
    assert len(consumers) == 2


def test_create_stream_with_an_unknown_mode_fails_for_good():
    create = CreateStream(task_id="create", stream="s", on_table="t", mode="sideways")

    with pytest.raises(AirflowFailException, match="'sideways' is not a valid StreamMode"):
        create.execute({})


def test_create_stream_hands_points_to_its_job_whether_templated_or_not():
    create = CreateStream(
        task_id="create", stream="s", on_table="t", at={"version": "{{ v }}"}, or_replace=True
    )
    create.render_template_fields({"v": 12})
    given = CreateStream(task_id="given", stream="s", on_table="t", before=OffsetOf("o"))

    task = create._task()
    spec = task.spec
    assert (spec.at, spec.before, spec.or_replace) == ({"version": 12}, None, True)
    assert given._task().spec.before == {"offset_of": "o"}
    request = Request("r", "/state", task)
    assert from_json(to_json(request), Request) == request


def test_create_stream_hands_files_to_its_job_as_json():
    create = CreateStream(
        task_id="create",
        stream="s",
        on_files="/data/{{ v }}",
        file_format="csv",
        file_options={"header": True, "sep": "{{ v }}"},
        file_schema="id INT",
        mode="insert_only",
    )
    create.render_template_fields({"v": "x"})

    task = create._task()
    spec = task.spec
    assert (spec.on_table, spec.on_files, spec.file_format) == (None, "/data/x", "csv")
    assert (spec.file_options, spec.file_schema) == ({"header": "true", "sep": "x"}, "id INT")
    request = Request("r", "/state", task)
    assert from_json(to_json(request), Request) == request


@pytest.mark.parametrize(
    ("arguments", "mode"),
    [
        ({"on_table": "t"}, "standard"),
        ({"on_view": "v"}, "standard"),
        ({"on_files": "/in"}, "insert_only"),
        ({"on_table": "t", "mode": "append_only"}, "append_only"),
    ],
)
def test_create_stream_without_a_mode_takes_the_mode_of_its_source(arguments, mode):
    assert CreateStream(task_id="create", stream="s", **arguments)._task().spec.mode == mode


def test_create_stream_hands_view_initial_rows_and_principals_to_its_job():
    create = CreateStream(
        task_id="create",
        stream="s",
        on_view="{{ v }}",
        show_initial_rows=True,
        readers=["b", "{{ v }}"],
        consumers=[],
    )
    create.render_template_fields({"v": "a"})

    spec = create._task().spec

    assert (spec.on_view, spec.show_initial_rows) == ("a", True)
    assert (spec.readers, spec.consumers) == (("a", "b"), ())


def ended_by(operator, context=None):
    """The error that ends a task of ``operator``, its ERROR lines, and Airflow's traces."""
    with capture_logs() as found:
        try:
            operator.execute(context or {})
        except Exception as error:
            trace = extract(type(error), error, error.__traceback__, use_rich=False)
            lines = [line["event"] for line in found if line["log_level"] == "error"]
            return error, lines, trace.stacks
    raise AssertionError("it did not fail")


def test_error_of_the_engine_ends_a_task_in_three_lines_without_a_chain():
    create = CreateStream(task_id="create", stream="s", on_table="t", mode="none")

    error, lines, stacks = ended_by(create)

    assert type(error) is AirflowFailException
    assert [line.partition(":")[0] for line in lines] == ["stream s", "Cause", "Fix"]
    assert " ".join(lines) == str(error)
    # One stack: this test, Airflow's wrapper, and the frame that raises.
    assert [[frame.name for frame in stack.frames] for stack in stacks] == [["ended_by", "called"]]


def test_error_that_the_driver_has_logged_is_not_logged_again(
    define_connection, tmp_path, monkeypatch
):
    define_connection("cdc_default", "cdc", state=tmp_path.as_uri())
    define_connection("spark_default", "spark", "local[2]")
    error = JobError("kind", "stream s: is stale. Cause: c. Fix: f.", retryable=True)
    answer = Answer("0" * 32, error=error)
    monkeypatch.setattr(SparkSubmission, "run", lambda submission: answer)
    create = CreateStream(task_id="create", stream="s", on_table="t")

    assert ended_by(create)[1] == []

    define_connection("spark_default", "spark", "yarn", **{"deploy-mode": "cluster"})
    again = CreateStream(task_id="again", stream="s", on_table="t")
    assert ended_by(again)[1] == ["stream s: is stale.", "Cause: c.", "Fix: f."]


def test_error_of_a_notifier_keeps_its_traceback(monkeypatch, define_connection, tmp_path):
    define_connection("cdc_default", "cdc", state=tmp_path.as_uri())
    failure = ExceptionGroup("not all alerts could be sent", [RuntimeError("no mail server")])

    class Monitor:
        def run(self, *args, **kwargs):
            raise failure

    monkeypatch.setattr(StaleStreamHook, "monitor", lambda hook: Monitor())
    monkeypatch.setattr(
        "airflow_provider_cdc.operators.monitor.write_stale_after", lambda *a, **k: None
    )

    error, _, stacks = ended_by(CheckStreams(task_id="check", notifiers=[]))

    assert "no mail server" in str(error)
    assert [stack.exc_type for stack in stacks] == ["CdcJobFailed", "ExceptionGroup"]


@pytest.mark.parametrize("point", [{"versions": 1}, {"version": -1}, {"timestamp": "noon"}])
def test_create_stream_at_an_invalid_point_fails_for_good(point):
    create = CreateStream(task_id="create", stream="s", on_table="t", at=point)

    with pytest.raises(AirflowFailException, match=r"is not a point|is not a version"):
        create.execute({})


def test_export_hands_points_to_its_job_and_keeps_its_id_in_a_retry():
    context = {"ti": SimpleNamespace(dag_id="d", task_id="t", map_index=-1, run_id="r")}
    export = ExportChanges(
        task_id="t", source="t", target="u", at={"version": "{{ v }}"}, end=OffsetOf("s")
    )
    export.render_template_fields({"v": 3})

    task = export._task(context)

    assert (task.at, task.before, task.end) == ({"version": 3}, None, {"offset_of": "s"})
    assert task == export._task(context)
    request = Request("r", "/state", task)
    assert from_json(to_json(request), Request) == request


class Streams:
    """A catalog of one stream, with or without an open consumption."""

    def __init__(self, stream):
        self.stream = stream
        self.is_begun = True

    def permitted(self, name, right):
        assert name == self.stream.name
        return self.stream


@pytest.mark.parametrize(
    ("operator", "task"),
    [
        (
            AbortConsumption(task_id="t", stream="s", keep="{{ v }}.t"),
            jobs.AbortConsumption("s", ("1.t",)),
        ),
        (
            AbortConsumption(task_id="t", stream="s", keep=["a", "{{ v }}"]),
            jobs.AbortConsumption("s", ("a", "1")),
        ),
        (
            RewindStream(task_id="t", stream="s", to={"version": "{{ v }}"}),
            jobs.RewindStream("s", {"version": 1}),
        ),
        (
            RewindStream(task_id="t", stream="s", to=OffsetOf("o")),
            jobs.RewindStream("s", {"offset_of": "o"}),
        ),
    ],
)
def test_abort_and_rewind_hand_their_arguments_to_their_jobs(operator, task):
    stream = replace(new_stream("s"), consumption=Consumption("c1", "d.t", (), (), NOON))
    operator.__dict__["hook"] = hook = Submitted(SimpleNamespace(stream=stream))
    hook.catalog = lambda: Streams(stream)
    operator.render_template_fields({"v": 1})

    assert operator.execute({})["stream"] == "s"

    assert hook.tasks == [task]
    request = Request("r", "/state", task)
    assert from_json(to_json(request), Request) == request


def test_enabling_change_tracking_returns_since_when_it_is_on():
    operator = EnableChangeTracking(task_id="t", table="{{ v }}", change_feed="True")
    tracking = ChangeTracking("1", 3, 4)
    operator.__dict__["hook"] = hook = Submitted(SimpleNamespace(tracking=tracking))
    operator.render_template_fields({"v": 1})

    found = operator.execute({})

    assert found == {"table": "1", "row_tracking_since": 3, "change_feed_since": 4}
    assert hook.tasks == [jobs.EnableChangeTracking("1", True, True)]
    answer = jobs.Answer("r", tracking=tracking)
    assert from_json(to_json(answer), jobs.Answer) == answer


def test_archiving_returns_what_was_archived():
    given = {"from_version": "{{ v }}", "bootstrap": "False", "max_commits": "3"}
    operator = ArchiveChanges(task_id="t", table="{{ v }}", archive="u", **given)
    outcome = ArchiveOutcome("u", "1", "s", 0, 4, NOON, (), True)
    operator.__dict__["hook"] = hook = Submitted(Answer("r", archived=outcome))
    operator.render_template_fields({"v": 1})

    found = operator.execute({})

    assert found == {
        "archive": "u",
        "table": "1",
        "stream": "s",
        "after_version": 0,
        "through_version": 4,
        "rows": 0,
        "has_more": True,
    }
    assert hook.tasks == [jobs.ArchiveChanges("1", "u", 1, None, False, 3, None)]
    answer = jobs.Answer("r", archived=outcome)
    assert from_json(to_json(answer), jobs.Answer) == answer
    (line,) = answer_lines(Request("r", "/state", hook.tasks[0]), answer)
    assert line == "archive u: holds 1 through version 4; 0 changes new; later commits wait"


def a_change_stream():
    return ChangeStream(
        stream_id="0" * 32,
        name="cs",
        owner="me",
        secret="5ec4e7",
        created_at=0,
        settings=CaptureSettings(),
        tables=(WatchedTable("t", Source("t", "/t", "id"), ("id",), None, "s", 0, 0),),
        steps=Partitions.created("change stream cs", 0, 2).steps,
        through=1_000_000,
    )


def test_creating_a_change_stream_hands_its_watches_to_its_job():
    operator = CreateChangeStream(
        task_id="t",
        change_stream="cs",
        tables={"{{ v }}": {"keys": ["id"], "columns": ["{{ v }}"]}, "u": Watch(["k"])},
        partitions="{{ 1 + 1 }}",
        exclude_delete="True",
    )
    found = a_change_stream()
    operator.__dict__["hook"] = hook = Submitted(SimpleNamespace(change_stream=found))
    operator.render_template_fields({"v": "n"})

    result = operator.execute({})

    assert result == {
        "change_stream": "cs",
        "tables": ["t"],
        "created": "1970-01-01T00:00:00Z",
        "captured_through": "1970-01-01T00:00:01Z",
        "partitions": 2,
    }
    (task,) = hook.tasks
    assert task.spec.partitions == 2
    assert task.spec.settings.excluded == (ModType.DELETE,)
    assert task.spec.tables["u"] == Watch(("k",), ALL)
    assert next(iter(task.spec.tables.values())).keys == ("id",)
    request = Request("r", "/state", task)
    again = from_json(to_json(request), Request)
    assert again.task.spec.settings == task.spec.settings
    assert list(again.task.spec.tables) == list(task.spec.tables)
    answer = jobs.Answer("r", change_stream=found)
    (line,) = answer_lines(request, answer)
    assert line == "ChangeStream cs on t, 2 partitions, captured through 1970-01-01T00:00:01Z"
    assert "5ec4e7" not in line


def test_creating_a_change_stream_that_exists_needs_no_job(tmp_path, define_connection):
    define_connection("cdc_default", "cdc", state=str(tmp_path))
    ChangeStreams(str(tmp_path), Files()).create(a_change_stream(), None)
    given = {"change_stream": "CS", "tables": {"u": {"keys": ["k"]}}, "if_not_exists": True}

    found = CreateChangeStream(task_id="t", **given).execute({})

    assert (found["change_stream"], found["tables"], found["partitions"]) == ("cs", ["t"], 2)


def test_altering_a_change_stream_sends_only_what_is_given():
    operator = AlterChangeStream(
        task_id="t",
        change_stream="{{ v }}",
        tables={"t": {"keys": ["{{ v }}"]}},
        value_capture_type="{{ none }}",
        retention_period="{{ 36 }}h",
        exclude_delete="True",
        comment=None,
    )
    found = a_change_stream()
    operator.__dict__["hook"] = hook = Submitted(SimpleNamespace(change_stream=found))
    operator.render_template_fields({"v": "cs", "none": None})

    assert operator.execute({})["captured_through"] == "1970-01-01T00:00:01Z"

    (task,) = hook.tasks
    sent = from_json(to_json(Request("r", "/state", task)), Request).task
    assert (sent.job, sent.arguments) == (
        "alter_change_stream",
        {
            "tables": {"t": Watch(["cs"], ALL)},
            "retention_period": timedelta(hours=36),
            "exclude_delete": True,
            "comment": None,
        },
    )
    engine = create_autospec(Engine)
    engine.alter_change_stream.return_value = found
    assert change_stream_answer("r", sent, engine).change_stream is found
    engine.alter_change_stream.assert_called_once_with("cs", **sent.arguments)
    kept = AlterChangeStream(task_id="t", change_stream="cs")
    kept.__dict__["hook"] = hook
    kept.execute({})
    assert hook.tasks[-1].arguments == {}


def test_reading_a_partition_takes_statements_or_a_function():
    read = PartitionRead("tok", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z", True)
    given = {"task_id": "t", "change_stream": "cs", "token": "tok", "consumer": "c"}
    operator = ReadPartition(**given, work="mine.work:each")
    operator.__dict__["hook"] = hook = Submitted(SimpleNamespace(partition=read))

    found = operator.execute({})

    assert found == {
        "partition_token": "tok",
        "start_timestamp": "2026-01-01T00:00:00Z",
        "end_timestamp": "2026-01-01T01:00:00Z",
        "is_last": True,
    }
    assert hook.tasks == [change_stream_tasks.ReadPartition("cs", "c", "tok", (), "mine.work:each")]
    (line,) = answer_lines(Request("r", "/s", hook.tasks[0]), jobs.Answer("r", partition=read))
    assert line == "partition: read from 2026-01-01T00:00:00Z to 2026-01-01T01:00:00Z"
    for wrong in ({}, {"sql": "DELETE FROM t", "work": "mine.work:each"}):
        task = ReadPartition(**given, **wrong)
        task.__dict__["hook"] = Submitted(None)
        with pytest.raises(AirflowFailException, match="either statements or a function"):
            task.execute({})


@pytest.mark.parametrize("is_equal", [True, False])
def test_verification_fails_for_good_if_the_target_differs(is_equal):
    operator = VerifyTarget(task_id="t", stream="{{ v }}", target="t", key=["id"], heal="False")
    keys = () if is_equal else (KeyDifference('{"id":7}', DifferenceKind.MISSING),)
    through = 4 if is_equal else 3
    check = Verification("s", "t", 4, through, is_equal, len(keys), keys, True, 10, 100, 0.5)
    operator.__dict__["hook"] = hook = Submitted(SimpleNamespace(verification=check))
    operator.render_template_fields({"v": 1})

    if is_equal:
        found = operator.execute({})
        assert (found["verified_through"], found["is_healed"]) == (4, False)
    else:
        with pytest.raises(AirflowFailException, match="differs from its source in 1 key at"):
            operator.execute({})

    assert hook.tasks == [jobs.VerifyTarget("1", "t", ("id",), False, False)]
    answer = jobs.Answer("r", verification=check)
    assert from_json(to_json(answer), jobs.Answer) == answer
    lines = answer_lines(Request("r", "/state", hook.tasks[0]), answer)
    assert lines[1:] == (() if is_equal else ('missing: {"id":7}',))


def test_abort_without_an_open_consumption_starts_no_job():
    operator = AbortConsumption(task_id="t", stream="s")
    operator.__dict__["hook"] = hook = Submitted()
    hook.catalog = lambda: Streams(new_stream("s"))

    assert operator.execute({})["stream"] == "s"
    assert hook.tasks == []


@pytest.mark.parametrize(
    ("operator", "cause"),
    [
        (AbortConsumption(task_id="t", stream="s", keep=[1]), "found int 1"),
        (RewindStream(task_id="t", stream="s", to=None), "no point was given"),
        (RewindStream(task_id="t", stream="s", to={"version": -1}), "not a version of a table"),
        (AlterStream(task_id="t", stream="s", max_lag="10 minutes"), "not a length of time"),
        (AlterStream(task_id="t", stream="s", readers="bob"), "a list of texts"),
        (RecoverStream(task_id="t", stream="s", target="t", key=[1]), "found int 1"),
        (ConsumeStream(task_id="t", stream="s", sql=["INSERT", 1], consumer="c"), "found int 1"),
        (ConsumeStream(task_id="t", stream=5, sql="INSERT", consumer="c"), "found int 5"),
    ],
)
def test_invalid_list_or_point_fails_for_good(tmp_path, define_connection, operator, cause):
    define_connection("cdc_default", "cdc", state=str(tmp_path / "state"))

    with pytest.raises(AirflowFailException, match=cause):
        operator.execute({"ti": SimpleNamespace(dag_id="d", task_id="t", map_index=-1)})


@pytest.mark.parametrize(
    ("operator", "cause"),
    [
        (CreateStream(task_id="t", stream="s", on_table="t", or_replace="False"), "or_replace"),
        (RedriveChanges(task_id="t", table="t", late="yes"), "late"),
        (WriteChanges(task_id="t", table="t", query=["SELECT 1"]), "query"),
    ],
)
def test_argument_of_the_wrong_type_fails_for_good_before_a_job(
    tmp_path, define_connection, variables, operator, cause
):
    define_connection("cdc_default", "cdc", state=str(tmp_path / "state"))
    context = {"ti": SimpleNamespace(dag_id="d", task_id="t", map_index=-1, run_id="r")}

    with pytest.raises(AirflowFailException, match=f"of the wrong type.*{cause}"):
        operator.execute(context)


def test_maintenance_takes_lengths_of_any_kind_except_negative_ones():
    maintain = MaintainStreams(task_id="m", ahead=pendulum.duration(days=2, hours=1))
    maintain.__dict__["hook"] = hook = Submitted(SimpleNamespace(maintenance=None))
    with pytest.raises(CdcJobFailed, match="answered without a report"):
        maintain.execute({})
    assert [type(task.ahead) for task in hook.tasks] == [timedelta]
    assert json.loads(to_json(hook.tasks[0])) == {"job": "maintain_streams", "ahead": "P2DT3600S"}
    maintain.ahead = -timedelta(days=1)
    with pytest.raises(AirflowFailException, match="is not a length of time"):
        maintain.execute({})


@pytest.mark.parametrize(
    ("kind", "arguments", "cause"),
    [
        (ExportChanges, {"file_format": "xml"}, "'xml' is not a valid ExportFormat"),
        (
            ExportChanges,
            {"file_format": "csv", "mode": "append"},
            "would append the same rows again",
        ),
        (ExportChanges, {"at": {"version": -1}}, "is not a version of a table"),
        (
            ExportChanges,
            {"at": {"timestamp": str(NOON)}, "end": {"timestamp": str(NOON)}},
            "have the same start and end",
        ),
        (
            ExportChanges,
            {"before": {"version": 5}, "end": {"version": 4}},
            "cannot end before the beginning",
        ),
        (
            ExportChanges,
            {"at": {"timestamp": str(NOON)}, "end": {"timestamp": str(NOON - timedelta(hours=1))}},
            "cannot end before the beginning",
        ),
        (ExportTable, {"file_format": "xml"}, "'xml' is not a valid ExportFormat"),
        (ExportTable, {"file_format": "csv", "mode": "append"}, "would append the same rows again"),
    ],
)
def test_export_with_impossible_arguments_fails_for_good(kind, arguments, cause):
    context = {"ti": SimpleNamespace(dag_id="d", task_id="t", map_index=-1, run_id="r")}
    of = {"source": "t"} if kind is ExportChanges else {"table": "t"}
    export = kind(task_id="t", target="u", **of, **arguments)

    with pytest.raises(AirflowFailException, match=cause):
        export.execute(context)


def test_export_of_a_table_keeps_its_id_only_in_a_retry(monkeypatch):
    submitted = []

    def submit(_, task, context):
        submitted.append(task)
        return Answer("r")

    monkeypatch.setattr(CdcHook, "submit", submit)
    for run_id, target in (("r", "u"), ("r", "u"), ("s", "u"), ("r", "v")):
        ti = SimpleNamespace(dag_id="d", task_id="t", map_index=-1, run_id=run_id)
        ExportTable(task_id="t", table="t", target=target, mode="append").execute({"ti": ti})

    first, retry, *others = submitted
    assert first == retry
    assert first.export_id not in {other.export_id for other in others}
    request = Request("r", "/state", first)
    assert from_json(to_json(request), Request) == request


def test_consume_stream_within_impossible_bounds_fails_for_good():
    consume = ConsumeStream(task_id="consume", stream="s", sql="SELECT 1", max_commits=0)

    with pytest.raises(AirflowFailException, match="whole number, 1 or more"):
        consume.execute({})


@pytest.mark.parametrize(
    ("given", "found"), [("7", 7), (7, 7), ("", None), ("None", None), (None, None)]
)
def test_bounds_of_a_consumption_may_come_from_a_template(given, found):
    consume = ConsumeStream(
        task_id="c", stream="s", sql="q", max_commits="{{ given }}", max_bytes="{{ given }}"
    )
    consume.render_template_fields({"given": given})
    task = consume._task({"ti": SimpleNamespace(dag_id="d", task_id="t", map_index=-1)})
    assert (task.max_commits, task.max_bytes) == (found, found)


def test_lengths_of_time_of_a_stream_may_come_from_a_template():
    create = CreateStream(
        task_id="c", stream="s", on_table="t", max_data_extension="{{ keep }}", max_lag="{{ lag }}"
    )
    create.render_template_fields({"keep": "P3D", "lag": "INTERVAL 2 HOUR"})
    spec = create._task().spec
    assert (spec.max_data_extension, spec.max_lag) == (timedelta(days=3), timedelta(hours=2))
    create.max_lag = "soon"
    with pytest.raises(AirflowFailException, match="not a length of time"):
        create._task()


@pytest.mark.parametrize(("given", "found"), [("True", True), ("False", False), (True, True)])
def test_redrive_of_late_changes_may_come_from_a_template(monkeypatch, given, found):
    submitted = []

    def submit(_, task, context):
        submitted.append(task)
        return SimpleNamespace(redriven=3)

    monkeypatch.setattr(CdcHook, "submit", submit)
    redrive = RedriveChanges(task_id="r", table="t", late="{{ given }}")
    redrive.render_template_fields({"given": given})
    assert redrive.execute({}) == 3
    assert [task.late for task in submitted] == [found]


def test_consume_stream_by_a_function_hands_name_and_streams_to_the_job():
    consume = ConsumeStream(
        task_id="consume", stream=["s", "{{ other }}"], apply="{{ package }}.load:apply"
    )
    consume.render_template_fields({"other": "o", "package": "etl"})

    task = consume._task({"ti": SimpleNamespace(dag_id="d", task_id="t", map_index=-1)})

    assert task == jobs.ConsumeStream((), "d/t", apply="etl.load:apply", streams=("s", "o"))
    request = Request("r", "/state", task)
    assert from_json(to_json(request), Request) == request


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "found neither"),
        ({"sql": "INSERT INTO t SELECT * FROM s", "apply": "etl:load"}, "found both"),
        ({"apply": "etl.load"}, "expected package.module:function"),
        ({"apply": "etl:load()"}, "expected package.module:function"),
        ({"apply": "etl:load", "stream": []}, "has nothing to consume"),
    ],
)
def test_consume_stream_without_one_valid_sql_or_function_fails_for_good(arguments, message):
    consume = ConsumeStream(**{"task_id": "consume", "stream": "s", "consumer": "c"} | arguments)

    with pytest.raises(AirflowFailException, match=message):
        consume.execute({})


def test_outcome_for_xcom_is_plain_json():
    stream = StreamOutcome("1", "s", 4, 5, "file_difference", {"inserted": 1})
    statement = StatementOutcome(0, "t", StatementResult.APPLIED, 2, {"numOutputRows": 1})

    result = outcome_result(Outcome("2", "d.t", (stream,), (statement,), 1.5))

    assert result == json.loads(json.dumps(result))
    assert result["streams"][0]["through_version"] == 5
    assert result["statements"][0]["result"] == "applied"


def test_trigger_serialised_is_pinned():
    trigger = StreamHasDataTrigger(
        stream="s",
        conn_id="cdc_default",
        poll_interval=5.0,
        waiting_since="2026-01-01T00:00:00+00:00",
        after_version=7,
        offset_version=3,
        stream_id="an id",
        ends_task=True,
    )

    path, arguments = trigger.serialize()

    assert path == "airflow_provider_cdc.triggers.stream.StreamHasDataTrigger"
    assert arguments == {
        "stream": "s",
        "conn_id": "cdc_default",
        "poll_interval": 5.0,
        "waiting_since": "2026-01-01T00:00:00+00:00",
        "after_version": 7,
        "offset_version": 3,
        "stream_id": "an id",
        "ends_task": True,
    }
    assert StreamHasDataTrigger(**arguments).serialize() == (path, arguments)


class Submitted:
    """A hook that keeps its tasks instead of submitting them."""

    def __init__(self, answer=None):
        self.tasks = []
        self.answer = answer or SimpleNamespace(outcome=None)

    def catalog(self):
        return SimpleNamespace(list_streams=list, is_begun=True)

    def submit(self, task, *, context=None):
        self.tasks.append(task)
        return self.answer


class WithData(Submitted):
    """A hook whose stream ``s`` has data, or has none."""

    def __init__(self, answer, *, has_data):
        super().__init__(answer)
        probe = SimpleNamespace(may_have_data=has_data)
        found = SimpleNamespace(
            get_stream=lambda _: new_stream("s"),
            probe_of=lambda _: probe,
            registered=lambda names: (names, names),
            is_begun=True,
        )
        self.catalog = lambda: found


def test_applying_changes_submits_the_options_and_returns_the_outcome():
    operator = ApplyChanges(
        task_id="t",
        target="{{ v }}",
        keys=["id"],
        snapshot="lake.full",
        snapshot_at="{{ at }}",
        scd_type=2,
        tombstone_horizon="P9D",
        consumer="c",
    )
    statement = StatementOutcome(0, "t", StatementResult.APPLIED, 1, {"rowsWritten": 2})
    outcome = Outcome("id", "c", (), (statement,), 1.0)
    operator.__dict__["hook"] = hook = Submitted(Answer("r", outcome=outcome))
    operator.render_template_fields({"v": "copy", "at": NOON.isoformat()})

    found = operator.execute({"outlet_events": {}})

    assert found["statements"][0]["metrics"] == {"rowsWritten": 2}
    (task,) = hook.tasks
    request = task.request
    assert (request.target, request.snapshot, request.snapshot_at) == ("copy", "lake.full", NOON)
    assert (request.options.keys, request.options.scd_type) == (("id",), 2)
    assert request.options.tombstone_horizon == timedelta(days=9)
    assert from_json(to_json(task.request), type(request)) == request
    assert type(request).parsed(**request.arguments) == request


def test_rebuilding_submits_the_target_and_its_archive():
    operator = RebuildHistory(task_id="t", target="{{ v }}", archive="a", stream="s", consumer="c")
    outcome = Outcome("id", "c", (), (), 1.0)
    operator.__dict__["hook"] = hook = WithData(Answer("r", outcome=outcome), has_data=True)
    operator.render_template_fields({"v": "copy"})

    assert operator.execute({"outlet_events": {}})["consumption_id"] == "id"
    assert hook.tasks == [jobs.RebuildHistory("copy", "a", "s", "c")]


def test_applying_changes_without_data_starts_no_job():
    operator = ApplyChanges(task_id="t", target="copy", keys="id", stream="s", consumer="c")
    operator.__dict__["hook"] = hook = WithData(SimpleNamespace(outcome=None), has_data=False)

    assert operator.execute({}) is None
    assert hook.tasks == []


def test_write_keeps_one_id_in_every_attempt_that_no_other_write_has():
    hook = Submitted(SimpleNamespace(written=WriteResult(2, 1, 3, is_repeated=False)))

    def write(dag_id, task_id, run_id="r", query="SELECT 1", map_index=-1):
        operator = WriteChanges(task_id="write", table="t", query=query)
        operator.__dict__["hook"] = hook
        ti = SimpleNamespace(dag_id=dag_id, task_id=task_id, map_index=map_index, run_id=run_id)
        found = operator.execute({"ti": ti})
        assert found == {"changes": 2, "bad": 1, "version": 3, "is_repeated": False}
        return hook.tasks[-1].write_id

    first = write("sales", "eu.w")
    assert write("sales", "eu.w") == first
    others = [
        write("sales.eu", "w"),
        write("sales", "eu.w", run_id="next"),
        write("sales", "eu.w", query="SELECT 2"),
        write("sales", "eu.w", map_index=0),
    ]
    assert len({first, *others}) == 5


def test_apply_without_waiting_changes_returns_and_announces_nothing():
    operator = ApplyUpserts(task_id="apply", table="t")
    operator.__dict__["hook"] = hook = Submitted()

    assert operator.execute({}) is None
    assert [task.table for task in hook.tasks] == ["t"]
