"""The operator and the DAG that send alerts of streams to Airflow's own notifiers."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from airflow.sdk import BaseNotifier
from airflow.sdk.observability import stats
from airflow.serialization.serialized_objects import DagSerialization
from streams import add_file, new_offset, new_stream, register
from structlog.testing import capture_logs

from airflow_provider_cdc.dag_factories.monitor import stale_stream_monitor, stream_maintenance
from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.core.errors import InvalidRequest
from airflow_provider_cdc.engine.core.model.sources import Source
from airflow_provider_cdc.engine.storage.state import sent_alerts
from airflow_provider_cdc.hooks.cdc import CdcHook
from airflow_provider_cdc.hooks.failures import CdcJobFailed
from airflow_provider_cdc.notifications.log import LogNotifier
from airflow_provider_cdc.operators.monitor import CheckStreams
from airflow_provider_cdc.operators.stream import CreateStream
from airflow_provider_cdc.operators.upsert_tables import CreateUpsertTable

METADATA = {"id": "a-table-id", "configuration": {"delta.enableRowTracking": "true"}}


class Recorder(BaseNotifier):
    """Keeps its messages; each call renders the template again."""

    template_fields = ("message",)

    def __init__(self, message, sent, **kwargs):
        super().__init__(**kwargs)
        self.message = message
        self.sent = sent

    def notify(self, context):
        if context["stream"] == "unlucky":
            raise ConnectionError("no route to the pager")
        self.sent.append(self.message)


class Patient(Recorder):
    """A notifier that never fails."""

    def notify(self, context):
        self.sent.append(self.message)


@pytest.fixture
def streams(tmp_path, define_connection, variables):
    """A connection whose streams lag: ``s`` by thirteen days, ``t`` by fifteen."""

    def make(*names, **fields):
        for name, days in names:
            root = tmp_path / name
            then = datetime.now(UTC) - timedelta(days=days)
            add_file(root, 1, then)
            stream = new_stream(
                name,
                source=Source(f"lake.{name}", str(root), "a-table-id"),
                offset=new_offset(0, METADATA),
                created_at=then,
                **fields,
            )
            register(tmp_path / "state", stream)
        define_connection("cdc_default", "cdc", state=str(tmp_path / "state"))

    return make


def test_alert_reaches_every_notifier_once_with_its_own_values(streams):
    streams(("s", 13), ("t", 15))
    sent, others = [], []
    check = CheckStreams(
        task_id="check",
        notifiers=[
            Recorder("{{ stream }} {{ alert.kind }} {{ lag_commits }} {{ source }}", sent),
            Recorder("{{ reason }} {{ last_consumer }}", others),
        ],
    )
    found = check.execute({})
    assert sent == ["s warning 1 lake.s", "t breach 1 lake.t"]
    assert others[0].startswith("it goes stale after")
    assert others[1].startswith("stale_after has passed")
    assert [alert["kind"] for alert in found] == ["warning", "breach"]
    assert json.loads(json.dumps(found)) == found
    assert check.execute({}) == []
    assert len(sent) == len(others) == 2


def test_notifier_that_fails_blocks_no_other_alert_but_fails_the_task(streams):
    streams(("s", 13), ("unlucky", 15))
    sent = []
    check = CheckStreams(task_id="check", notifiers=[Recorder("{{ stream }}", sent)])
    with pytest.raises(CdcJobFailed, match="no route to the pager"):
        check.execute({})
    assert sent == ["s"]


def test_notifier_that_fails_blocks_no_other_and_only_it_is_called_again(streams, monkeypatch):
    streams(("s", 13), ("unlucky", 15))
    sent, others = [], []
    check = CheckStreams(
        task_id="check",
        notifiers=[
            Recorder("{{ stream }}", sent),
            Patient("{{ stream }}", others),
            Patient("again {{ stream }}", others),
        ],
    )
    refusal = r"no route to the pager'\) \(Recorder 1, staleness breach of stream unlucky\)"
    for _ in range(2):
        with pytest.raises(CdcJobFailed, match=refusal):
            check.execute({})
        assert (sent, others) == (["s"], ["s", "again s", "unlucky", "again unlucky"])
        monkeypatch.setattr(sent_alerts, "_LONGEST_SENDING", timedelta())


def test_notifier_field_shadows_a_context_value_that_alert_still_has(streams):
    streams(("s", 13))
    sent = []

    class Pager(Patient):
        template_fields = ("message", "source")
        source = "the pager's own"

    pager = Pager("{{ source }}, {{ alert.source }}", sent)
    CheckStreams(task_id="check", notifiers=[pager]).execute({})

    assert sent == ["the pager's own, lake.s"]


def test_unreachable_registry_is_not_read_as_a_folder_without_streams(streams, tmp_path, variables):
    streams(("s", 13))
    check = CheckStreams(task_id="check", notifiers=[])
    check.execute({})
    known = dict(variables)
    (tmp_path / "state").rename(tmp_path / "away")

    with pytest.raises(CdcJobFailed, match="now the state folder holds no registry"):
        check.execute({})

    assert variables == known
    assert "s" in known["cdc_stale_after.cdc_default"]


@pytest.mark.parametrize(
    "creation",
    [
        CreateStream(task_id="create", stream="t", on_table="t", if_not_exists=True),
        CreateUpsertTable(
            task_id="make", table="t", schema="id INT", primary_key="id", if_not_exists=True
        ),
    ],
    ids=["stream", "upsert table"],
)
def test_unreachable_registry_is_not_created_again(
    streams, tmp_path, variables, monkeypatch, creation
):
    submitted = []
    monkeypatch.setattr(CdcHook, "submit", lambda *task, **_: submitted.append(task))
    streams(("s", 13))
    CheckStreams(task_id="check", notifiers=[]).execute({})
    (tmp_path / "state").rename(tmp_path / "away")

    with pytest.raises(CdcJobFailed, match="now the state folder holds no registry"):
        creation.execute({})

    assert submitted == []


def test_monitor_that_hangs_is_ended_by_an_execution_timeout():
    def ends_after(**given):
        (check,) = stale_stream_monitor([], **given).tasks
        return check.execution_timeout

    assert ends_after() == timedelta(minutes=10)
    assert ends_after(every=timedelta(hours=1)) == timedelta(hours=1)
    chosen = timedelta(minutes=2)
    assert ends_after(default_args={"execution_timeout": chosen}) == chosen


def test_check_of_an_empty_folder_or_of_only_dropped_streams_succeeds(streams, tmp_path, variables):
    streams()
    check = CheckStreams(task_id="check", notifiers=[])
    assert check.execute({}) == []
    streams(("s", 1))
    check.execute({})
    StreamCatalog(str(tmp_path / "state"), principal="somebody").drop_stream("s")

    assert check.execute({}) == []
    assert variables == {"cdc_stale_after.cdc_default": "{}"}


def test_check_sets_the_metrics_of_every_stream(streams, monkeypatch):
    streams(("s", 13), ("ünï", 15))
    gauges = {}
    monkeypatch.setattr(stats, "gauge", gauges.__setitem__)
    CheckStreams(task_id="check", notifiers=[]).execute({})
    day = 86_400
    found = {name.removeprefix("cdc.stream.cdc_default."): value for name, value in gauges.items()}
    assert found["s.lag_seconds"] == pytest.approx(13 * day, abs=60)
    assert found["s.stale_in_seconds"] == pytest.approx(day, abs=60)
    assert found["_n_.stale_in_seconds"] == pytest.approx(-day, abs=60)
    assert (found["s.has_data"], found["s.lag_commits"]) == (1, 1)


def test_log_notifier_writes_the_reason_lag_and_consumer_of_an_alert(streams, capsys):
    streams(("t", 15))
    CheckStreams(task_id="check", notifiers=[LogNotifier()]).execute({})
    printed = capsys.readouterr().out
    assert "LogNotifier gets the staleness breach of stream t" in printed
    assert "staleness breach of stream t on lake.t: stale_after has passed" in printed
    assert "1 commit with 1 byte wait, the oldest for 2 weeks 1 day; stale after" in printed
    assert "not consumed yet" in printed
    assert "Alert(" not in printed


def test_log_notifier_warns_of_staleness_but_logs_a_recovery_as_info(streams, tmp_path):
    streams(("s", 13))
    check = CheckStreams(task_id="check", notifiers=[LogNotifier()])

    def levels():
        with capture_logs() as logs:
            check.execute({})
        return [line["log_level"] for line in logs if "of stream s on" in line["event"]]

    assert levels() == ["warning"]
    StreamCatalog(str(tmp_path / "state"), principal="somebody").advance_stream("s")
    assert levels() == ["info"]


def test_log_notifier_names_the_upsert_table(streams, capsys):
    streams(("t", 15), upsert_table="orders")
    sent = CheckStreams(task_id="check", notifiers=[LogNotifier()]).execute({})
    assert {alert["upsert_table"] for alert in sent} == {"orders"}
    printed = capsys.readouterr().out
    assert "lag breach of upsert table orders: the oldest change of upsert table orders" in printed


def test_factories_make_dags_that_run_one_at_a_time_on_a_timer():
    monitor = stale_stream_monitor([LogNotifier()], conn_id="other", every=timedelta(minutes=1))
    maintenance = stream_maintenance(every=timedelta(hours=6))
    for dag in (monitor, maintenance):
        assert (dag.max_active_runs, dag.catchup) == (1, False)
    assert monitor.get_task("check_streams").conn_id == "other"
    assert maintenance.get_task("maintain_streams").ahead == timedelta(hours=12)


def test_factories_pass_default_args_to_their_tasks():
    given = {"pool": "cdc", "owner": "data", "retries": 5}

    (check,) = stale_stream_monitor([], default_args=given).tasks
    (maintain,) = stream_maintenance(default_args=given).tasks
    (plain,) = stream_maintenance().tasks

    assert (check.pool, check.owner, check.retries) == ("cdc", "data", 0)
    assert (maintain.pool, maintain.owner, maintain.retries) == ("cdc", "data", 5)
    assert (plain.retries, plain.retry_delay) == (2, timedelta(minutes=5))


def test_factories_make_dags_that_start_unpaused():
    for dag in (stale_stream_monitor([]), stream_maintenance()):
        restored = DagSerialization.from_dict(DagSerialization.to_dict(dag))
        assert restored.is_paused_upon_creation is False


@pytest.mark.parametrize(
    ("conn_id", "suffix"),
    [("cdc_default", ""), ("cdc_other", "-cdc_other"), ("cdc/größe", "-cdc_gr_e-9177c8f8")],
)
def test_factories_without_a_dag_id_name_the_dag_by_its_connection(conn_id, suffix):
    found = {
        stale_stream_monitor([], conn_id=conn_id).dag_id,
        stream_maintenance(conn_id=conn_id).dag_id,
        stale_stream_monitor([], conn_id=conn_id, dag_id="mine").dag_id,
        stream_maintenance(conn_id=conn_id, dag_id="mine_too").dag_id,
    }

    assert found == {
        f"stale_stream_monitor{suffix}",
        f"stream_maintenance{suffix}",
        "mine",
        "mine_too",
    }


def test_maintenance_checks_the_targets_that_are_named():
    copy = {"stream": "s", "target": "lake.copy", "key": "id", "heal": True}
    dag = stream_maintenance(verify=[copy, {"stream": "a", "target": "lake.archive"}])

    maintain, *checks = dag.tasks
    assert [task.task_id for task in checks] == ["verify_target_1", "verify_target_2"]
    assert all(task.upstream_task_ids == {maintain.task_id} for task in checks)
    assert (checks[0].target, checks[0].key, checks[0].heal) == ("lake.copy", "id", True)


@pytest.mark.parametrize("verify", [[{"stream": "s"}], [{"stream": "s", "target": "t", "x": 1}]])
def test_maintenance_refuses_a_check_with_other_arguments(verify):
    with pytest.raises(InvalidRequest, match="cannot check this target"):
        stream_maintenance(verify=verify)
