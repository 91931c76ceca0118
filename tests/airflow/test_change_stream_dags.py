"""The factory of DAGs that read a change stream by partition."""

from __future__ import annotations

import pytest
from airflow.sdk import AssetOrTimeSchedule, CronTriggerTimetable
from airflow.serialization.serialized_objects import DagSerialization

from airflow_provider_cdc.assets.change_stream import change_stream_asset
from airflow_provider_cdc.dag_factories.change_streams import change_stream_dag
from airflow_provider_cdc.engine.core.errors import InvalidName, InvalidRequest

TABLES = {"lake.accounts": {"keys": ["id"], "columns": ["balance"]}}
SQL = "INSERT INTO lake.audit SELECT keys FROM mods"


def made(**given):
    return change_stream_dag("reads", "cs", **{"schedule": "@hourly", "sql": SQL} | given)


def test_factory_makes_a_dag_that_creates_advances_reads_and_settles():
    dag = made(tables=TABLES, partitions=8, max_parallel=4, pool="readers", conn_id="lake")

    restored = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    edges = {task.task_id: task.downstream_task_ids for task in restored.tasks}
    assert edges == {
        "create": {"advance"},
        "advance": {"partitions"},
        "partitions": {"read", "settle"},
        "read": {"settle"},
        "settle": set(),
    }
    assert (dag.max_active_runs, dag.catchup) == (1, False)
    create, read = dag.get_task("create"), dag.get_task("read")
    assert (create.tables, create.partitions, create.if_not_exists) == (TABLES, 8, True)
    assert (read.max_active_tis_per_dagrun, read.pool) == (4, "readers")
    assert {dag.get_task(name).conn_id for name in ("create", "advance", "settle")} == {"lake"}
    consumers = {dag.get_task(name).consumer for name in ("partitions", "settle")}
    assert consumers | {read.partial_kwargs["consumer"]} == {"reads"}


def test_factory_makes_a_dag_whose_run_fails_if_a_reader_fails():
    """The last task is a teardown, so the state of the readers decides."""
    dag = made()

    settle, partitions = dag.get_task("settle"), dag.get_task("partitions")
    assert (settle.is_teardown, settle.on_failure_fail_dagrun) == (True, False)
    assert partitions.is_setup


@pytest.mark.parametrize(
    "schedule",
    [
        [change_stream_asset("cs")],
        AssetOrTimeSchedule(
            assets=[change_stream_asset("cs")],
            timetable=CronTriggerTimetable("0 4 * * *", timezone="UTC"),
        ),
    ],
)
def test_factory_without_advance_takes_the_asset_as_its_schedule(schedule):
    dag = made(sql=None, work="mine.work:each", advance=False, schedule=schedule, consumer="c")

    assert set(dag.task_ids) == {"partitions", "read", "settle"}
    assert dag.get_task("partitions").consumer == "c"
    assert DagSerialization.to_dict(dag)["dag"]["timetable"]["__type"].endswith(
        ("AssetTriggeredTimetable", "AssetOrTimeSchedule")
    )


@pytest.mark.parametrize(
    ("given", "kind", "text"),
    [
        ({"sql": None}, InvalidRequest, "either statements or a function, found neither"),
        ({"work": "mine.work:each"}, InvalidRequest, "found both"),
        ({"sql": None, "work": "mine"}, InvalidRequest, "mine"),
        ({"partitions": 4}, InvalidRequest, "no tables are given"),
        ({"tables": ["lake.accounts"]}, InvalidRequest, "argument tables"),
        ({"tables": {"t": {"key": "id"}}}, InvalidRequest, "cannot watch these tables"),
        ({"max_parallel": 0}, InvalidRequest, "no reader could run"),
        ({"schedule": 5}, InvalidRequest, "5 is not a valid schedule"),
        ({"consumer": ""}, InvalidName, "consumer name"),
    ],
)
def test_factory_refuses_arguments_that_make_no_dag(given, kind, text):
    with pytest.raises(kind, match=text):
        made(**given)
