"""The operator and the DAG that tell of streams, with notifiers that are Airflow's own."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from airflow.sdk import BaseNotifier
from airflow.sdk.observability import stats
from airflow.serialization.serialized_objects import DagSerialization
from streams import add_file, new_offset, new_stream, register

from airflow_provider_cdc.dag_factories.monitor import stale_stream_monitor, stream_maintenance
from airflow_provider_cdc.engine.core.model import Source
from airflow_provider_cdc.hooks.failures import CdcJobFailed
from airflow_provider_cdc.notifications.log import LogNotifier
from airflow_provider_cdc.operators.monitor import CheckStreams

METADATA = {"id": "a-table-id", "configuration": {"delta.enableRowTracking": "true"}}


class Recorder(BaseNotifier):
    """Keeps what it is told; each call renders the template anew."""

    template_fields = ("message",)

    def __init__(self, message, told, **kwargs):
        super().__init__(**kwargs)
        self.message = message
        self.told = told

    def notify(self, context):
        if context["stream"] == "unlucky":
            raise ConnectionError("no route to the pager")
        self.told.append(self.message)


@pytest.fixture
def streams(tmp_path, define_connection, variables):
    """A connection whose streams lag: ``s`` by thirteen days, ``t`` by fifteen."""

    def make(*names):
        for name, days in names:
            root = tmp_path / name
            then = datetime.now(UTC) - timedelta(days=days)
            add_file(root, 1, then)
            stream = new_stream(
                name,
                source=Source(f"lake.{name}", str(root), "a-table-id"),
                offset=new_offset(0, json.dumps(METADATA)),
                created_at=then,
            )
            register(tmp_path / "state", stream)
        define_connection("cdc_default", "cdc", state=str(tmp_path / "state"))

    return make


def test_each_alert_is_told_once_to_every_notifier_with_its_own_values(streams):
    streams(("s", 13), ("t", 15))
    told, others = [], []
    check = CheckStreams(
        task_id="check",
        notifiers=[
            Recorder("{{ stream }} {{ alert.kind }} {{ lag_commits }} {{ source }}", told),
            Recorder("{{ reason }} {{ last_consumer }}", others),
        ],
    )
    found = check.execute({})
    assert told == ["s warning 1 lake.s", "t miss 1 lake.t"]
    assert others[0].startswith("it goes stale after")
    assert others[1].startswith("stale_after has passed")
    assert [alert["kind"] for alert in found] == ["warning", "miss"]
    assert json.loads(json.dumps(found)) == found
    assert check.execute({}) == []
    assert len(told) == len(others) == 2


def test_notifier_that_fails_keeps_no_other_alert_back_and_fails_the_task(streams):
    streams(("s", 13), ("unlucky", 15))
    told = []
    check = CheckStreams(task_id="check", notifiers=[Recorder("{{ stream }}", told)])
    with pytest.raises(CdcJobFailed, match="no route to the pager"):
        check.execute({})
    assert told == ["s"]


def test_each_look_sets_the_metrics_of_every_stream(streams, monkeypatch):
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


def test_log_notifier_writes_all_that_an_operator_needs(streams, capsys):
    streams(("t", 15))
    CheckStreams(task_id="check", notifiers=[LogNotifier()]).execute({})
    printed = capsys.readouterr().out
    assert "staleness miss: stream t on lake.t, stale_after has passed" in printed
    assert "1 commits, 1 bytes and 129" in printed


def test_factories_make_dags_that_run_one_at_a_time_on_a_timer():
    monitor = stale_stream_monitor([LogNotifier()], conn_id="other", every=timedelta(minutes=1))
    maintenance = stream_maintenance(every=timedelta(hours=6))
    for dag in (monitor, maintenance):
        assert (dag.max_active_runs, dag.catchup) == (1, False)
    assert monitor.get_task("check_streams").conn_id == "other"
    assert maintenance.get_task("maintain_streams").ahead == timedelta(hours=12)


def test_factories_make_dags_that_nobody_has_to_switch_on():
    for dag in (stale_stream_monitor([]), stream_maintenance()):
        restored = DagSerialization.from_dict(DagSerialization.to_dict(dag))
        assert restored.is_paused_upon_creation is False


@pytest.mark.parametrize(
    ("conn_id", "suffix"),
    [("cdc_default", ""), ("cdc_other", ".cdc_other"), ("cdc/größe", ".cdc_gr_e")],
)
def test_factories_name_a_dag_by_its_connection_where_nobody_names_it(conn_id, suffix):
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
