from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException
from airflow.serialization.serialized_objects import DagSerialization

from airflow_provider_cdc.engine.core.model import (
    Outcome,
    StatementOutcome,
    StatementResult,
    StreamOutcome,
    from_json,
    to_json,
)
from airflow_provider_cdc.engine.core.names import consumer_name
from airflow_provider_cdc.engine.core.points import OffsetOf
from airflow_provider_cdc.jobs.model import JobKind, Request
from airflow_provider_cdc.operators.outcome import outcome_result
from airflow_provider_cdc.operators.stream import (
    AdvanceStream,
    ConsumeStream,
    CreateStream,
    DropStream,
    default_consumer,
)
from airflow_provider_cdc.sensors.stream import StreamHasDataSensor
from airflow_provider_cdc.triggers.stream import StreamHasDataTrigger


def operators():
    return [
        CreateStream(task_id="create", stream="s", on_table="t", if_not_exists=True),
        StreamHasDataSensor(task_id="wait", stream="s", deferrable=True),
        ConsumeStream(task_id="consume", stream="s", sql=["INSERT INTO t SELECT * FROM s"]),
        AdvanceStream(task_id="advance", stream="s"),
        DropStream(task_id="drop", stream="s", if_exists=True),
    ]


@pytest.mark.parametrize("operator", operators(), ids=lambda item: type(item).__name__)
def test_operator_template_fields_are_attributes(operator):
    assert all(hasattr(operator, name) for name in operator.template_fields)
    assert {"stream", "conn_id"} <= set(operator.template_fields)


def test_operators_in_a_dag_survive_its_serialisation():
    with DAG("cdc") as dag:
        operators()

    restored = DagSerialization.from_dict(DagSerialization.to_dict(dag))

    assert set(restored.task_ids) == {"create", "wait", "consume", "advance", "drop"}


def test_operator_templates_are_rendered_in_lists():
    consume = ConsumeStream(
        task_id="consume", stream=["{{ ds }}"], sql=["INSERT INTO t_{{ ds }} SELECT 1"]
    )

    consume.render_template_fields({"ds": "2013"})

    assert (consume.stream, consume.sql) == (["2013"], ["INSERT INTO t_2013 SELECT 1"])


@pytest.mark.parametrize(("map_index", "consumer"), [(-1, "d.t"), (None, "d.t"), (3, "d.t.3")])
def test_consumer_by_default_is_the_task_in_every_run(map_index, consumer):
    instance = SimpleNamespace(dag_id="d", task_id="t", map_index=map_index, run_id="r")

    assert default_consumer({"ti": instance}) == consumer


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
    assert (task.at, task.before, task.or_replace) == ({"version": 12}, None, True)
    assert given._task().before == {"offset_of": "o"}
    request = Request("r", "/state", JobKind.CREATE_STREAM, create_stream=task)
    assert from_json(to_json(request), Request) == request


@pytest.mark.parametrize("point", [{"versions": 1}, {"version": -1}, {"timestamp": "noon"}])
def test_create_stream_at_what_is_no_point_fails_for_good(point):
    create = CreateStream(task_id="create", stream="s", on_table="t", at=point)

    with pytest.raises(AirflowFailException, match="cannot be created"):
        create.execute({})


def test_consume_stream_within_impossible_bounds_fails_for_good():
    consume = ConsumeStream(task_id="consume", stream="s", sql="SELECT 1", max_commits=0)

    with pytest.raises(AirflowFailException, match="whole number from 1 on"):
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
    )

    path, arguments = trigger.serialize()

    assert path == "airflow_provider_cdc.triggers.stream.StreamHasDataTrigger"
    assert arguments == {
        "stream": "s",
        "conn_id": "cdc_default",
        "poll_interval": 5.0,
        "waiting_since": "2026-01-01T00:00:00+00:00",
        "after_version": 7,
    }
    assert StreamHasDataTrigger(**arguments).serialize() == (path, arguments)
