"""A task ends with one of our errors, whatever an operator, a sensor or a factory gets."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from inspect import signature
from types import SimpleNamespace

import pytest
from absurd_values import ABSURD
from airflow.sdk import DAG, BaseOperator
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowNotFoundException,
    AirflowSkipException,
)
from history_options import APPLY_OPTIONS
from package_operators import package_operators
from streams import NOON, new_stream, register

from airflow_provider_cdc.assets.change_stream import change_stream_asset
from airflow_provider_cdc.assets.stream import (
    consumption_asset,
    stream_asset,
    upsert_table_asset,
)
from airflow_provider_cdc.dag_factories.change_streams import change_stream_dag
from airflow_provider_cdc.dag_factories.monitor import stale_stream_monitor, stream_maintenance
from airflow_provider_cdc.dag_factories.upserts import background_apply_dags
from airflow_provider_cdc.deadlines.stale import StreamStaleDeadline
from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.core.arguments.points import Version
from airflow_provider_cdc.engine.core.errors import CdcError
from airflow_provider_cdc.engine.core.model.serialization import UnreadableStream
from airflow_provider_cdc.hooks.cdc import CdcHook, request_for
from airflow_provider_cdc.hooks.failures import CdcJobFailed
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
from airflow_provider_cdc.operators.maintenance import MaintainStreams, RecoverStream
from airflow_provider_cdc.operators.monitor import CheckStreams
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

ENDS = (CdcError, CdcJobFailed, AirflowFailException, AirflowSkipException)
PEOPLE = {"readers": ["r"], "consumers": None}
LENGTHS = {"max_data_extension": "P1D", "max_lag": None}
# Good arguments of each operator.
GOOD = {
    CreateStream: {
        "stream": "new",
        "on_table": "/t",
        "on_view": None,
        "on_files": None,
        "file_format": None,
        "file_options": None,
        "file_schema": None,
        "mode": None,
        "append_semantics": "inserted",
        "column_style": "snowflake",
        "at": None,
        "before": None,
        "or_replace": False,
        "if_not_exists": False,
        "show_initial_rows": False,
        "comment": None,
        "stream_owner": None,
    }
    | PEOPLE
    | LENGTHS,
    ConsumeStream: {
        "stream": "s",
        "sql": "INSERT INTO t SELECT * FROM s",
        "apply": None,
        "consumer": "c",
        "max_commits": None,
        "max_bytes": None,
    },
    ConsumeStreams: {
        "consumptions": [{"stream": "s", "sql": "INSERT INTO t SELECT * FROM s"}],
        "parallelism": 4,
    },
    AdvanceStream: {"stream": "s"},
    DropStream: {"stream": "s", "if_exists": False},
    AbortConsumption: {"stream": "s", "keep": ()},
    RewindStream: {"stream": "s", "to": Version(0)},
    UndropStream: {"stream": "s"},
    EnableChangeTracking: {"table": "/t", "row_tracking": True, "change_feed": False},
    ApplyChanges: {"target": "/t", **APPLY_OPTIONS},
    RebuildHistory: {
        "target": "/t",
        "archive": "/a",
        "stream": "s",
        "query": None,
        "consumer": "c",
    },
    ArchiveChanges: {
        "table": "/t",
        "archive": "/u",
        "from_version": None,
        "from_timestamp": None,
        "bootstrap": True,
        "max_commits": None,
        "max_bytes": None,
    },
    CreateChangeStream: {
        "change_stream": "new",
        "tables": {"/t": {"keys": ["id"], "columns": "ALL"}},
        "value_capture_type": "NEW_ROW",
        "retention_period": "1d",
        "exclude_insert": False,
        "exclude_update": False,
        "exclude_delete": False,
        "partitions": 2,
        "int64_as": "string",
        "on_duplicate_key": "fail",
        "target_rows": 1000,
        "comment": None,
        "or_replace": False,
        "if_not_exists": False,
    },
    AlterChangeStream: {
        "change_stream": "cs",
        "tables": {"/t": {"keys": ["id"], "columns": "ALL"}},
        "value_capture_type": "NEW_ROW",
        "retention_period": "1d",
        "exclude_insert": False,
        "exclude_update": False,
        "exclude_delete": False,
        "int64_as": "string",
        "on_duplicate_key": "fail",
        "target_rows": 1000,
        "comment": None,
    },
    AdvanceChangeStream: {"change_stream": "cs"},
    DropChangeStream: {"change_stream": "cs", "if_exists": False},
    ListPartitions: {
        "change_stream": "cs",
        "consumer": "c",
        "start_timestamp": None,
        "end_timestamp": None,
        "lease": "PT1H",
        "limit": 5,
    },
    ReadPartition: {
        "change_stream": "cs",
        "token": "t",
        "sql": "INSERT INTO t SELECT * FROM mods",
        "work": None,
        "consumer": "c",
    },
    SettlePartitions: {"change_stream": "cs", "consumer": "c"},
    VerifyTarget: {"stream": "s", "target": "/t", "key": "id", "heal": False, "full": False},
    CloneStream: {"stream": "new", "of": "s", "comment": None},
    AlterStream: {"stream": "s", "comment": "c", "stream_owner": "somebody"} | PEOPLE | LENGTHS,
    MaintainStreams: {"ahead": "P2D"},
    RecoverStream: {"stream": "s", "target": "t", "key": "id"},
    CheckStreams: {"margin": "P2D"},
    ExportChanges: {
        "source": "t",
        "target": "u",
        "at": Version(1),
        "before": None,
        "end": None,
        "column_style": "snowflake",
        "information": "default",
        "file_format": "delta",
        "mode": "error",
    },
    CreateUpsertTable: {
        "table": "t",
        "schema": "id INT",
        "primary_key": "id",
        "max_staleness": None,
        "tombstone_horizon": "P2D",
        "cluster_by": None,
        "partial_changes": False,
        "if_not_exists": False,
    },
    AlterUpsertTable: {"table": "t", "max_staleness": None, "tombstone_horizon": "P2D"},
    AddColumns: {"table": "t", "schema": "phone STRING"},
    DropUpsertTable: {"table": "t", "if_exists": False},
    WriteChanges: {
        "table": "t",
        "query": "SELECT 1 AS id, 'DELETE' AS _CHANGE_TYPE",
        "on_bad_rows": "fail",
        "payload": None,
        "sequence_by": None,
        "unavailable_value": "__debezium_unavailable_value",
    },
    ApplyUpserts: {"table": "t"},
    RedriveChanges: {"table": "t", "late": False},
    ExportTable: {"table": "t", "target": "u", "file_format": "delta", "mode": "error"},
    StreamHasDataSensor: {"stream": "s", "exact": False},
    PartitionsReadySensor: {"change_stream": "cs", "consumer": "c", "start_timestamp": None},
}
# Every task has these; the DAG factory alone sets ``record_duration``.
OF_EVERY_TASK = {"self", "kwargs", "conn_id", "record_duration"}
NOT_TRIED = {
    CheckStreams: {"notifiers"},
    StreamHasDataSensor: {"deferrable"},
    PartitionsReadySensor: {"deferrable"},
}
CASES = [(operator, argument) for operator, given in GOOD.items() for argument in given]
CASES += [(operator, "conn_id") for operator in GOOD]


class Submitted(Exception):
    """A job would be submitted: a driver can read its request."""


@pytest.fixture
def catalog(define_connection, monkeypatch, tmp_path, variables) -> StreamCatalog:
    define_connection("cdc_default", "cdc", state=str(tmp_path))

    def submit(hook, task, *, context=None):
        request_for(hook.settings, task)
        raise Submitted

    monkeypatch.setattr(CdcHook, "submit", submit)
    for name in ("s", "good"):
        register(tmp_path, new_stream(name))
    return StreamCatalog(str(tmp_path), clock=lambda: NOON, principal="somebody")


def context():
    instance = SimpleNamespace(dag_id="d", task_id="t", map_index=-1, run_id="r", try_number=1)
    return {"ti": instance, "task_instance": instance, "dag": SimpleNamespace(dag_id="d")}


@pytest.mark.parametrize(
    ("operator", "argument"), CASES, ids=[f"{kind.__name__}-{name}" for kind, name in CASES]
)
def test_absurd_argument_of_an_operator_ends_in_our_error(catalog, operator, argument):
    extra = {"notifiers": []} if operator is CheckStreams else {}
    for number, value in enumerate(ABSURD):
        given = GOOD[operator] | {argument: value}
        task = operator(task_id=f"t{number}", **given, **extra)
        try:
            task.execute(context())
        except AirflowNotFoundException:
            assert argument == "conn_id"
        except (*ENDS, Submitted) as error:
            str(error).encode()
    found = catalog.list_streams_if_begun()
    assert not [each for each in found if isinstance(each, UnreadableStream)]
    catalog.describe_streams()


def test_every_argument_of_every_operator_is_tried():
    assert set(GOOD) == {*package_operators(), StreamHasDataSensor, PartitionsReadySensor}
    for operator, given in GOOD.items():
        left = own_arguments(operator) - given.keys() - OF_EVERY_TASK
        assert left == NOT_TRIED.get(operator, set()), operator


def own_arguments(operator: type[BaseOperator]) -> set[str]:
    """The arguments of an operator that are not Airflow's."""
    makers = (
        vars(kind)["__init__"]
        for kind in operator.__mro__
        if kind.__module__.startswith("airflow_provider_cdc") and "__init__" in vars(kind)
    )
    return {name for make in makers for name in signature(make).parameters}


READS = {
    "dag_id": "d",
    "change_stream": "cs",
    "schedule": None,
    "sql": "DELETE FROM t",
    "work": None,
    "tables": {"t": {"keys": ["id"]}},
    "partitions": 2,
    "target_rows": 1000,
    "advance": True,
    "consumer": "c",
    "max_parallel": 4,
    "pool": None,
    "conn_id": "cdc_default",
    "default_args": None,
}


@pytest.mark.parametrize("value", ABSURD, ids=lambda value: type(value).__name__)
def test_absurd_argument_of_a_factory_is_refused(catalog, value):
    calls = [
        lambda: stale_stream_monitor([], every=value),
        lambda: stale_stream_monitor([], margin=value),
        lambda: stream_maintenance(every=value),
        lambda: stream_maintenance(verify=value),
        lambda: stream_asset("s", poll_interval=value),
        lambda: stream_asset("s", repeat_after=value),
        lambda: stream_asset(value),
        lambda: stream_asset("s", conn_id=value),
        lambda: consumption_asset("s", conn_id=value),
        lambda: upsert_table_asset("t", conn_id=value),
        lambda: consumption_asset(value),
        lambda: change_stream_asset(value),
        lambda: change_stream_asset("cs", conn_id=value),
        lambda: upsert_table_asset(value),
        lambda: background_apply_dags(default_interval=value),
        lambda: background_apply_dags(refresh=value),
        lambda: StreamStaleDeadline(value).serialize_reference(),
        *(partial(change_stream_dag, **READS | {name: value}) for name in READS),
    ]
    assert set(READS) == set(signature(change_stream_dag).parameters)
    for call in calls:
        try:
            call()
        except CdcError as error:
            str(error).encode()


def test_factories_take_lengths_of_time_as_text():
    monitor = stale_stream_monitor([], every="INTERVAL 10 MINUTE", margin="P1D")
    maintenance = stream_maintenance(every="PT6H")
    assert isinstance(monitor, DAG)
    assert monitor.get_task("check_streams").margin == timedelta(days=1)
    assert maintenance.get_task("maintain_streams").ahead == timedelta(hours=12)
