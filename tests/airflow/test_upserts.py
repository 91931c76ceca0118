"""DAGs and tasks that apply the changes of upsert tables, without a scheduler."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException
from airflow.sdk.observability import stats
from airflow.serialization.serialized_objects import DagSerialization
from streams import NOON, add_file, new_stream, offset_at, quiet_stream, register

from airflow_provider_cdc.dag_factories import apply_plan
from airflow_provider_cdc.dag_factories.upserts import background_apply_dags
from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.core.delta.columns import Column
from airflow_provider_cdc.engine.core.model.json_text import from_json, to_json
from airflow_provider_cdc.engine.core.model.outcomes import (
    Outcome,
    StatementOutcome,
    StatementResult,
    StreamOutcome,
)
from airflow_provider_cdc.engine.core.model.sources import Source
from airflow_provider_cdc.engine.core.names import table_name
from airflow_provider_cdc.engine.core.upserts.definition import (
    TOMBSTONE_HORIZON,
    UpsertTable,
)
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.state.apply_times import ApplyTimes
from airflow_provider_cdc.hooks.cdc import CdcHook, request_for
from airflow_provider_cdc.hooks.failures import CdcJobFailed
from airflow_provider_cdc.jobs import upsert_tasks as jobs
from airflow_provider_cdc.jobs.model import Answer, Request, StreamHasData
from airflow_provider_cdc.operators.upsert_tables import (
    AddColumns,
    AlterUpsertTable,
    CreateUpsertTable,
    DropUpsertTable,
)
from airflow_provider_cdc.operators.upserts import ApplyUpserts

MINUTE = timedelta(minutes=1)
APPLIED = Outcome(
    "an-id",
    "apply.upserts_1",
    (StreamOutcome("1", "upserts_1", 0, 1, "file_difference", {"inserted": 4}),),
    (
        StatementOutcome(
            0, "orders", StatementResult.APPLIED, 1, {"heldChanges": 3, "lateChanges": 1}
        ),
    ),
    1.5,
)


@pytest.fixture
def state(tmp_path, define_connection, monkeypatch):
    """The state folder of ``cdc_default``, before anything is stored in it."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "home"))
    define_connection("cdc_default", "cdc", state=str(tmp_path / "state"))
    return tmp_path / "state"


def add_table(state, name, max_staleness=10 * MINUTE, **fields):
    """Register the stream of an upsert table whose changes are ``<location>/_cdc/changes``."""
    changes = state.parent / "tables" / str(abs(hash(name))) / "_cdc" / "changes"
    add_file(changes, 0, NOON, data_change=False)
    source = Source(str(changes), str(changes), "a-table-id")
    offset = offset_at(changes, 0)
    stream = new_stream(
        f"upserts_{abs(hash(name))}",
        source=source,
        offset=offset,
        created_at=NOON,
        upsert_table=name,
        max_lag=max_staleness,
        **fields,
    )
    return register(state, stream)


def location_of(stream):
    return stream.source.location.removesuffix("/_cdc/changes")


def schedules(**options):
    dags = background_apply_dags(refresh=timedelta(0), **options)
    return {name: dag.schedule for name, dag in dags.items()}


def test_each_upsert_table_has_a_dag_but_other_streams_have_none(state):
    add_table(state, "sales.orders")
    add_table(state, "sales.refunds", None)
    quiet_stream(state, state.parent / "t", "no_upserts")

    assert schedules(default_interval=3 * MINUTE) == {
        "apply_upserts.sales.orders": 5 * MINUTE,
        "apply_upserts.sales.refunds": 3 * MINUTE,
    }


def test_dag_applies_its_own_table_and_starts_unpaused_one_run_at_a_time(state):
    stream = add_table(state, "orders")

    (dag,) = background_apply_dags(pool="p").values()
    restored = DagSerialization.from_dict(DagSerialization.to_dict(dag))

    assert (restored.max_active_runs, restored.is_paused_upon_creation) == (1, False)
    (task,) = dag.tasks
    assert (task.table, task.pool, task.retries) == (location_of(stream), "p", 0)


def test_schedule_follows_apply_durations_and_an_altered_max_staleness(state):
    stream = add_table(state, "orders")
    times = ApplyTimes(str(state), Files(), lambda: datetime.now(UTC))
    times.note(stream.stream_id, MINUTE)
    assert schedules() == {"apply_upserts.orders": timedelta(minutes=8, seconds=20)}

    streams = StreamCatalog(str(state), principal=stream.owner).for_upserts()
    streams.alter_stream(stream.name, max_lag=2 * MINUTE)
    assert schedules() == {"apply_upserts.orders": MINUTE}


def test_tables_with_similar_names_have_dags_of_their_own(state):
    for name in ("/lake/orders", "lake orders", "lake_orders", "größe"):
        add_table(state, name)

    names = sorted(schedules())

    assert len(names) == 4
    assert all(
        name.startswith(("apply_upserts.lake_orders.", "apply_upserts.gr_")) for name in names
    )
    assert all(name.isascii() for name in names)


def test_dags_are_shown_by_the_names_of_their_tables(state, define_connection):
    tables = ("/tmp/w/flight_board", "/lake/a/orders", "/lake/b/orders", "sales.refunds")
    for name in tables:
        add_table(state, name)

    dags = background_apply_dags(refresh=timedelta(0)).values()

    assert {dag.dag_display_name for dag in dags} == {
        "Apply upserts to flight_board",
        "Apply upserts to /lake/a/orders",
        "Apply upserts to /lake/b/orders",
        "Apply upserts to sales.refunds",
    }
    define_connection("lake", "cdc", state=str(state))
    others = background_apply_dags("lake", refresh=timedelta(0)).values()
    assert "Apply upserts to flight_board of lake" in {dag.dag_display_name for dag in others}


def test_registry_is_read_only_once_within_the_refresh_interval(state, monkeypatch):
    add_table(state, "orders")
    reads = []
    show = StreamCatalog.list_streams_if_begun

    def counted(catalog):
        reads.append(1)
        return show(catalog)

    monkeypatch.setattr(StreamCatalog, "list_streams_if_begun", counted)
    for _ in range(3):
        assert set(background_apply_dags(refresh=MINUTE)) == {"apply_upserts.orders"}
    assert len(reads) == 1
    background_apply_dags(refresh=timedelta(0))
    assert len(reads) == 2


def test_registry_that_is_unreachable_removes_no_dag(state, monkeypatch, caplog):
    add_table(state, "orders")
    background_apply_dags()

    def unreachable(catalog):
        raise OSError("no route to the store")

    monkeypatch.setattr(StreamCatalog, "list_streams_if_begun", unreachable)
    assert set(schedules()) == {"apply_upserts.orders"}
    assert "cannot be read" in caplog.text
    with pytest.raises(OSError, match="no route"):
        background_apply_dags(default_interval=MINUTE)


def test_registry_that_does_not_answer_removes_no_dag(state, monkeypatch, caplog):
    add_table(state, "orders")
    background_apply_dags()
    released = Event()
    monkeypatch.setattr(StreamCatalog, "list_streams_if_begun", lambda _: released.wait(60))
    monkeypatch.setattr(apply_plan, "_PATIENCE_SECONDS", 0.2)

    try:
        assert set(schedules()) == {"apply_upserts.orders"}
    finally:
        released.set()
    assert "did not end within" in caplog.text


def test_plan_file_that_is_truncated_is_ignored(state):
    add_table(state, "orders")
    background_apply_dags()
    (kept,) = (state.parent / "home" / "cdc").iterdir()
    kept.write_bytes(kept.read_bytes()[:-3])

    assert set(background_apply_dags(refresh=MINUTE)) == {"apply_upserts.orders"}


def test_connection_that_is_missing_is_reported(state):
    with pytest.raises(AirflowNotFoundException, match="nowhere"):
        background_apply_dags("nowhere")


def test_parsing_imports_neither_spark_nor_pandas():
    code = (
        "import sys, airflow_provider_cdc.dag_factories.upserts;"
        "sys.exit(str({'pyspark', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.stderr.strip() == "set()"


class Submitted:
    """The hook of a state folder, which keeps its tasks instead of submitting them."""

    def __init__(self, outcome=None):
        self.tasks = []
        self.outcome = outcome
        self.hook = CdcHook()
        self.settings = self.hook.settings
        self.conn_id = self.hook.conn_id

    def catalog(self):
        return self.hook.catalog()

    def submit(self, task, *, context=None):
        self.tasks.append(task)
        return SimpleNamespace(outcome=self.outcome)


def applying(table, outcome=None, **fields):
    operator = ApplyUpserts(task_id="apply", table=table, **fields)
    operator.__dict__["hook"] = hook = Submitted(outcome)
    operator.__dict__["announced"] = lambda answer, *_, **__: {"announced": answer.outcome}
    return operator, hook


def context_of(due, started=None):
    return {"dag_run": SimpleNamespace(run_after=due, start_date=started or datetime.now(UTC))}


def test_table_without_waiting_changes_starts_no_job(state):
    stream = add_table(state, "orders")
    operator, hook = applying(location_of(stream))

    assert operator.execute({}) is None
    assert hook.tasks == []

    add_file(state.parent / stream.source.location, 1, NOON)
    assert operator.execute({}) is None
    assert [task.table for task in hook.tasks] == [location_of(stream)]


def test_table_given_by_name_is_checked_only_by_the_job(state):
    add_table(state, "orders")
    operator, hook = applying("orders")

    assert operator.execute({}) is None
    assert [task.table for task in hook.tasks] == ["orders"]


def test_stream_whose_changes_are_missing_fails_before_a_job(state):
    stream = add_table(state, "orders")
    for version in (2, 3):
        add_file(state.parent / stream.source.location, version, NOON)
    operator, hook = applying(location_of(stream))

    with pytest.raises(AirflowFailException, match="version 1"):
        operator.execute({})
    assert hook.tasks == []


@pytest.mark.parametrize("record_duration", [True, False])
def test_background_apply_records_its_duration_since_it_was_due(state, record_duration):
    stream = add_table(state, "orders")
    add_file(state.parent / stream.source.location, 1, NOON)
    operator, _ = applying(location_of(stream), outcome=APPLIED, record_duration=record_duration)
    due = datetime.now(UTC) - MINUTE

    assert operator.execute(context_of(due))["announced"] is APPLIED

    found = CdcHook().settings.apply_times().read([stream.stream_id])[stream.stream_id]
    assert len(found) == record_duration
    assert all(MINUTE <= took < 2 * MINUTE for took in found)


@pytest.mark.parametrize(
    ("max_staleness", "late", "notes"),
    [
        (10 * MINUTE, 9 * MINUTE, 1),
        (10 * MINUTE, 11 * MINUTE, 0),
        (None, 59 * MINUTE, 1),
        (None, 61 * MINUTE, 0),
    ],
)
def test_old_run_that_is_cleared_records_no_apply_duration(state, max_staleness, late, notes):
    stream = add_table(state, "orders", max_staleness)
    add_file(state.parent / stream.source.location, 1, NOON)
    operator, _ = applying(location_of(stream), outcome=APPLIED, record_duration=True)
    before = schedules()

    operator.execute(context_of(datetime.now(UTC) - late))

    found = CdcHook().settings.apply_times().read([stream.stream_id])[stream.stream_id]
    assert len(found) == notes
    assert notes or schedules() == before


def test_run_whose_task_waits_long_for_a_slot_records_its_duration(state):
    stream = add_table(state, "orders", 10 * MINUTE)
    add_file(state.parent / stream.source.location, 1, NOON)
    operator, _ = applying(location_of(stream), outcome=APPLIED, record_duration=True)
    due = datetime.now(UTC) - 30 * MINUTE

    operator.execute(context_of(due, started=due + MINUTE))

    (took,) = CdcHook().settings.apply_times().read([stream.stream_id])[stream.stream_id]
    assert 30 * MINUTE <= took < 31 * MINUTE


def test_quarantine_that_is_emptied_is_measured_without_waiting_changes(state, monkeypatch):
    stream = add_table(state, "orders")
    quarantine = Path(location_of(stream), "_cdc", "quarantine")
    add_file(quarantine, 0, NOON)
    operator, hook = applying(location_of(stream))
    gauges = {}
    with monkeypatch.context() as patch:
        patch.setattr(stats, "gauge", gauges.__setitem__)
        operator.execute({})
    # The file has no statistics, so the number of changes in it is unknown.
    assert gauges == {}
    removal = {"remove": {"path": "f0", "dataChange": True}}
    (quarantine / "_delta_log" / f"{1:020d}.json").write_text(json.dumps(removal))
    monkeypatch.setattr(stats, "gauge", gauges.__setitem__)

    assert operator.execute({}) is None

    assert hook.tasks == []
    assert set(gauges.values()) == {0}
    assert len(gauges) == 2


def test_apply_returns_and_measures_the_quarantined_changes(state, monkeypatch):
    stream = add_table(state, "orders")
    add_file(state.parent / stream.source.location, 1, NOON)
    operator, _ = applying(location_of(stream), outcome=APPLIED)
    gauges = {}
    monkeypatch.setattr(stats, "gauge", gauges.__setitem__)

    found = operator.execute({})

    assert (found["held_changes"], found["late_changes"]) == (3, 1)
    assert gauges == {
        "cdc.stream.cdc_default.upserts_1.held_changes": 3,
        "cdc.stream.cdc_default.upserts_1.late_changes": 1,
    }


def test_jobs_of_a_pool_have_its_spark_settings(define_connection, tmp_path):
    define_connection(
        "cdc_default",
        "cdc",
        state=tmp_path.as_uri(),
        conf={"spark.cores.max": "8", "spark.a": "1"},
        pool_conf={"cdc_background": {"spark.cores.max": 2}},
    )
    define_connection("spark_default", "spark", "local[2]")
    hook = CdcHook()
    found = []
    hook.submission = _submission(hook, found)

    for pool in ("cdc_background", "default_pool"):
        hook.submit(StreamHasData("s"), context={"task": SimpleNamespace(pool=pool)})

    background, other = (submission.spark_hook._conf for submission in found)
    assert (background["spark.cores.max"], background["spark.a"]) == ("2", "1")
    assert other["spark.cores.max"] == "8"


def _submission(hook, found):
    """Like the hook's own method, but keeps the submission instead of running it."""

    def submission(request, context):
        made = CdcHook.submission(hook, request, context)
        found.append(made)
        return SimpleNamespace(run=lambda: SimpleNamespace(error=None))

    return submission


def test_secret_in_the_settings_of_a_pool_is_refused(define_connection, tmp_path):
    define_connection(
        "cdc_default", "cdc", state=str(tmp_path), pool_conf={"p": {"spark.my.password": "x"}}
    )
    found, message = CdcHook().test_connection()
    assert not found
    assert "spark.my.password" in message


def test_tables_of_two_connections_have_dags_of_their_own(state, define_connection, tmp_path):
    add_table(state, "orders")
    define_connection("cdc_other", "cdc", state=str(tmp_path / "state"))

    assert set(background_apply_dags()) == {"apply_upserts.orders"}
    assert set(background_apply_dags("cdc_other")) == {"apply_upserts-cdc_other.orders"}


def test_dags_of_different_connections_have_different_ids(state, define_connection, tmp_path):
    for number, conn_id in enumerate(["a", "a.b", "a_b", "a/b"]):
        define_connection(conn_id, "cdc", state=str(tmp_path / f"state-{number}"))
        add_table(tmp_path / f"state-{number}", "orders")
        add_table(tmp_path / f"state-{number}", "b.orders")
    add_table(state, "a.orders")

    conn_ids = ["cdc_default", "a", "a.b", "a_b", "a/b"]
    dag_ids = [dag_id for conn_id in conn_ids for dag_id in background_apply_dags(conn_id)]
    assert len(set(dag_ids)) == len(dag_ids) == 9


def test_state_folder_that_disappears_removes_no_dag(state, caplog):
    add_table(state, "orders")
    background_apply_dags()
    state.rename(state.with_name("unmounted"))

    assert set(schedules()) == {"apply_upserts.orders"}
    assert "there is no registry" in caplog.text


def test_apply_times_that_cannot_be_read_or_written_cause_no_error(state):
    stream = add_table(state, "orders")
    notes = state / "applies" / f"{stream.stream_id}.json"
    notes.parent.mkdir()
    notes.write_text("nonsense")
    assert schedules() == {"apply_upserts.orders": 5 * MINUTE}

    CdcHook().settings.apply_times().note(stream.stream_id, MINUTE)
    assert schedules() == {"apply_upserts.orders": timedelta(minutes=8, seconds=20)}
    notes.unlink()
    notes.mkdir()
    CdcHook().settings.apply_times().note(stream.stream_id, MINUTE)


def test_state_folder_that_never_existed_is_reported(state, caplog):
    assert schedules() == {}
    assert f"There is no registry in {state}" in caplog.text

    caplog.clear()
    quiet_stream(state, state.parent / "t", "no_upserts")
    assert schedules() == {}
    assert caplog.text == ""


ORDERS = UpsertTable(
    "orders",
    table_name("orders__base"),
    location="/lake/orders__base",
    table_id="an-id",
    columns=(Column("id", "int"), Column("name", "string")),
    primary_key=("id",),
    max_staleness=10 * MINUTE,
)


def operating(kind, answer, **arguments):
    """An operator whose hook keeps its tasks and answers with ``answer``."""
    operator = kind(task_id="t", table="{{ t }}", **arguments)
    operator.render_template_fields({"t": "orders", "minutes": 10, "key": "id"})
    operator.__dict__["hook"] = hook = Submitted()
    hook.submit = lambda task, context: hook.tasks.append(task) or answer
    return operator, hook


def test_table_is_created_as_its_templates_say(variables, state):
    create, hook = operating(
        CreateUpsertTable,
        from_json(to_json(Answer("r", upsert_table=ORDERS)), Answer),
        schema="id INT, name STRING",
        primary_key=["{{ key }}"],
        max_staleness="INTERVAL {{ minutes }} MINUTE",
        tombstone_horizon="P1D",
        cluster_by="{{ key }}",
        partial_changes=True,
        if_not_exists=True,
    )

    assert create.execute({}) == {
        "table": "orders",
        "location": "/lake/orders__base",
        "stream": "upserts_an_id",
        "primary_key": ["id"],
        "max_staleness": 600.0,
    }
    (task,) = hook.tasks
    schema = "id INT, name STRING"
    day = timedelta(days=1)
    assert task == jobs.CreateUpsertTable(
        "orders",
        schema,
        ("id",),
        10 * MINUTE,
        day,
        ("id",),
        partial_changes=True,
        if_not_exists=True,
    )
    request = request_for(hook.settings, task)
    assert from_json(to_json(request), Request) == request


def test_table_is_created_without_max_staleness_unless_one_is_given(variables, state):
    create, hook = operating(CreateUpsertTable, Answer("r"), schema="id INT", primary_key="id")

    with pytest.raises(CdcJobFailed, match="answered without a table"):
        create.execute({})
    assert hook.tasks == [jobs.CreateUpsertTable("orders", "id INT", ("id",))]


@pytest.mark.parametrize(
    ("given", "length"),
    [
        ("PT{{ minutes }}M", 10 * MINUTE),
        (MINUTE, MINUTE),
        (None, None),
        ("{{ missing or None }}", None),
        ("", None),
    ],
    ids=["text", "duration", "none", "none from a template", "empty"],
)
def test_staleness_is_altered_as_given(state, given, length):
    alter, hook = operating(AlterUpsertTable, Answer("r"), max_staleness=given)

    assert alter.execute({}) is None
    assert hook.tasks == [jobs.AlterUpsertTable("orders", length)]
    request = request_for(hook.settings, hook.tasks[0])
    assert from_json(to_json(request), Request) == request


def test_horizon_is_altered_without_changing_max_staleness(state):
    alter, hook = operating(AlterUpsertTable, Answer("r"), tombstone_horizon="P{{ minutes }}D")

    alter.execute({})
    (task,) = hook.tasks
    assert task.keeps_max_staleness
    assert task.tombstone_horizon == timedelta(days=10)
    request = request_for(hook.settings, task)
    assert from_json(to_json(request), Request) == request


def test_horizon_that_a_template_leaves_empty_is_unchanged(state):
    alter, hook = operating(
        AlterUpsertTable, Answer("r"), tombstone_horizon="{{ missing or None }}"
    )

    alter.execute({})
    (task,) = hook.tasks
    assert task.tombstone_horizon is None


@pytest.mark.parametrize(
    ("given", "horizon"),
    [("{{ missing or None }}", TOMBSTONE_HORIZON), ("PT0S", timedelta(0))],
    ids=["open", "zero"],
)
def test_table_is_created_with_a_horizon_from_a_template(state, given, horizon):
    create, hook = operating(
        CreateUpsertTable,
        Answer("r"),
        schema="id INT",
        primary_key="id",
        tombstone_horizon=given,
    )

    with pytest.raises(CdcJobFailed, match="answered without a table"):
        create.execute({})
    assert hook.tasks[0].tombstone_horizon == horizon


def test_columns_are_added_and_tables_are_dropped_as_templates_say(state):
    answer = from_json(to_json(Answer("r", upsert_table=ORDERS)), Answer)
    add, adding = operating(AddColumns, answer, schema="{{ key }} INT")
    drop, dropping = operating(DropUpsertTable, Answer("r"), if_exists=True)

    assert add.execute({})["stream"] == "upserts_an_id"
    assert drop.execute({}) is None
    assert adding.tasks == [jobs.AddColumns("orders", "id INT")]
    assert dropping.tasks == [jobs.DropUpsertTable("orders", if_exists=True)]
    for hook in (adding, dropping):
        request = request_for(hook.settings, hook.tasks[0])
        assert from_json(to_json(request), Request) == request


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (AlterUpsertTable, {"max_staleness": "soon"}),
        (AlterUpsertTable, {"tombstone_horizon": "soon"}),
        (CreateUpsertTable, {"schema": "id INT", "primary_key": "id", "max_staleness": "P1M"}),
        (CreateUpsertTable, {"schema": "id INT", "primary_key": "id", "tombstone_horizon": "day"}),
    ],
)
def test_invalid_length_of_time_fails_before_a_job(state, kind, arguments):
    operator, hook = operating(kind, Answer("r"), **arguments)

    with pytest.raises(AirflowFailException, match="is not a length of time"):
        operator.execute({})
    assert hook.tasks == []
