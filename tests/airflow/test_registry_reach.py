"""Workers that cannot reach a folder in which a monitor has seen streams."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException
from streams import NOON

from airflow_provider_cdc.hooks.failures import CdcJobFailed
from airflow_provider_cdc.hooks.stale_after_variable import write_stale_after
from airflow_provider_cdc.operators.maintenance import MaintainStreams
from airflow_provider_cdc.operators.stream import AdvanceStream, ConsumeStream, DropStream
from airflow_provider_cdc.operators.upserts import ApplyUpserts
from airflow_provider_cdc.sensors.stream import StreamHasDataSensor

RUN = {"ti": SimpleNamespace(dag_id="d", task_id="t", map_index=-1, run_id="r")}
MERGE = "INSERT INTO t SELECT * FROM s"


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, define_connection, variables):
    """A state folder without a registry."""
    define_connection("cdc_default", "cdc", state=str(tmp_path / "state"))


def seen() -> None:
    """The record that the monitor writes when it sees a stream."""
    write_stale_after("cdc_default", {"s": NOON}, is_whole=True)


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (ConsumeStream, {"stream": "s", "sql": MERGE}),
        (AdvanceStream, {"stream": "s"}),
        (DropStream, {"stream": "s"}),
        (DropStream, {"stream": "s", "if_exists": True}),
        (MaintainStreams, {}),
        (ApplyUpserts, {"table": "/lake/t"}),
    ],
)
def test_task_that_does_not_reach_the_registry_may_be_tried_again(kind, arguments):
    seen()
    with pytest.raises(CdcJobFailed, match="are missing"):
        kind(task_id="t", **arguments).execute(RUN)


def test_sensor_that_does_not_reach_the_registry_keeps_waiting():
    seen()
    assert not StreamHasDataSensor(task_id="t", stream="s").poke(RUN).is_done


def test_stream_that_the_monitor_never_saw_is_missing_for_good():
    for operator in (
        ConsumeStream(task_id="t", stream="s", sql=MERGE),
        AdvanceStream(task_id="t", stream="s"),
        DropStream(task_id="t", stream="s"),
    ):
        with pytest.raises(AirflowFailException, match="expected a registry"):
            operator.execute(RUN)
    DropStream(task_id="t", stream="s", if_exists=True).execute(RUN)
    with pytest.raises(AirflowFailException, match="expected a registry"):
        StreamHasDataSensor(task_id="t", stream="s").poke(RUN)
