"""The lineage of tasks, by Airflow's OpenLineage provider and the client of OpenLineage."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.openlineage.extractors.manager import ExtractorManager
from airflow.providers.openlineage.plugins.adapter import OpenLineageAdapter
from airflow.utils.state import TaskInstanceState
from openlineage.client import OpenLineageClient
from openlineage.client.transport.file import FileConfig, FileTransport
from streams import NOON

from airflow_provider_cdc.engine.core.archives.archive_outcome import ArchiveOutcome
from airflow_provider_cdc.engine.core.arguments.points import Version
from airflow_provider_cdc.engine.core.model.outcomes import (
    Outcome,
    StatementOutcome,
    StatementResult,
    StreamOutcome,
    TableOutcome,
)
from airflow_provider_cdc.hooks.cdc import CdcHook
from airflow_provider_cdc.hooks.connection import CdcConnection
from airflow_provider_cdc.jobs import model as jobs
from airflow_provider_cdc.operators import base
from airflow_provider_cdc.operators.archives import ArchiveChanges
from airflow_provider_cdc.operators.base import StreamOperator
from airflow_provider_cdc.operators.changes import ExportChanges
from airflow_provider_cdc.operators.consumptions import ConsumeStreams
from airflow_provider_cdc.operators.history import ApplyChanges, RebuildHistory
from airflow_provider_cdc.operators.maintenance import RecoverStream
from airflow_provider_cdc.operators.openlineage import dataset_name
from airflow_provider_cdc.operators.stream import ConsumeStream
from airflow_provider_cdc.operators.upserts import ApplyUpserts, ExportTable

RUN_ID = "01890a5d-ac96-774b-bcce-b302099a8057"


COLUMNS = jobs.Lineage(
    {"s": ("id", "v", "qty"), "refunds": ("id", "amount")},
    {"/data/copy": ("id", "v", "total"), "/data/other": ("id",)},
)
MERGE = """
    MERGE INTO copy AS t USING (
      SELECT id, v, sum(qty) AS total FROM s JOIN lake.customers AS c ON c.id = s.id GROUP BY id, v
    ) AS n ON t.id = n.id
    WHEN MATCHED AND n.v <> 'x' THEN UPDATE SET total = t.total + n.total
    WHEN NOT MATCHED THEN INSERT (id, v, total) VALUES (n.id, upper(n.v), n.total)
"""


def outcome(*targets: str, streams: tuple[str, ...] = ("s",)) -> Outcome:
    table = TableOutcome("lake.orders", 3, 5, "file_difference", NOON, "s3a://bucket/lake/orders")
    taken = tuple(
        StreamOutcome("1", name, 3, 5, "file_difference", {"inserted": 2}, (table,), NOON)
        for name in streams
    )
    statements = tuple(
        StatementOutcome(
            index, target, StatementResult.APPLIED, 7, {"numOutputRows": 2}, None, target
        )
        for index, target in enumerate(targets or ("/data/copy",))
    )
    return Outcome("c", "dag/task", taken, statements, 1.0)


@pytest.fixture
def event(monkeypatch, tmp_path) -> Callable[..., dict[str, Any]]:
    """Runs a task whose job gives an answer, and returns the event that the client sends."""

    def sent(task: StreamOperator, **answer: Any) -> dict[str, Any]:
        monkeypatch.setattr(base, "announce", lambda *_, **__: None)
        monkeypatch.setattr(CdcHook, "submit", lambda *_, **__: jobs.Answer("r", **answer))
        monkeypatch.setattr(CdcHook, "settings", SimpleNamespace(state="/state", store_options={}))
        monkeypatch.setattr(type(task), "_check", lambda *_: None, raising=False)
        monkeypatch.setattr(type(task), "_has_data", lambda *_: True, raising=False)
        instance = SimpleNamespace(dag_id="d", task_id="t", map_index=-1, run_id="r")
        task.execute({"ti": instance})
        found = ExtractorManager().extract_metadata(
            SimpleNamespace(run_id="r"), task, TaskInstanceState.SUCCESS, SimpleNamespace()
        )
        file = tmp_path / "event.json"
        transport = FileTransport(FileConfig(log_file_path=str(file), append=True))
        adapter = OpenLineageAdapter(OpenLineageClient(transport=transport))
        adapter.complete_task(RUN_ID, "d.t", NOON.isoformat(), found, None, None, None, None, None)
        decoded: dict[str, Any] = json.loads(file.read_text())
        return decoded

    return sent


def origins(facet: dict[str, Any], column: str | None = None) -> set[str]:
    """The columns that a column comes from, or those that decide about rows, with their uses."""
    fields = facet["dataset"] if column is None else facet["fields"][column]["inputFields"]
    return {
        f"{each['namespace']} {each['name']} {each['field']}: {use['type']} {use['subtype']}"
        for each in fields
        for use in each["transformations"]
    }


ORDERS = "s3://bucket lake/orders"
CUSTOMERS = "spark_catalog lake.customers"


def test_consumption_is_sent_as_an_event_with_its_tables_and_versions(event) -> None:
    task = ConsumeStream(task_id="t", stream="s", sql="INSERT INTO copy SELECT * FROM s")
    found = event(task, outcome=outcome())
    (source,), (target,) = found["inputs"], found["outputs"]
    assert (source["namespace"], source["name"]) == ("s3://bucket", "lake/orders")
    assert source["facets"]["version"]["datasetVersion"] == "5"
    assert source["facets"]["symlinks"]["identifiers"][0]["name"] == "lake.orders"
    assert (target["namespace"], target["name"]) == ("file", "/data/copy")
    assert target["facets"]["version"]["datasetVersion"] == "7"
    assert target["outputFacets"]["outputStatistics"]["rowCount"] == 2
    assert "columnLineage" not in target["facets"]


def test_event_has_the_columns_that_each_column_comes_from(event) -> None:
    task = ConsumeStream(task_id="t", stream="s", sql=MERGE.replace("copy", "delta.`/data/copy`"))
    found = event(task, outcome=outcome(), lineage=COLUMNS)
    assert {(each["namespace"], each["name"]) for each in found["inputs"]} == {
        ("s3://bucket", "lake/orders"),
        ("spark_catalog", "lake.customers"),
    }
    facet = found["outputs"][0]["facets"]["columnLineage"]
    assert facet["_schemaURL"].endswith("#/$defs/ColumnLineageDatasetFacet")
    assert origins(facet, "total") == {
        f"{ORDERS} qty: DIRECT AGGREGATION",
        "file /data/copy total: DIRECT TRANSFORMATION",
    }
    assert origins(facet, "v") == {f"{ORDERS} v: DIRECT TRANSFORMATION"}
    assert origins(facet) >= {
        f"{CUSTOMERS} id: INDIRECT JOIN",
        f"{ORDERS} id: INDIRECT JOIN",
        f"{ORDERS} v: INDIRECT GROUP_BY",
        f"{ORDERS} v: INDIRECT FILTER",
    }


def test_statements_of_one_consumption_each_have_their_columns(event) -> None:
    task = ConsumeStream(
        task_id="t",
        stream="s",
        sql=[
            "INSERT INTO delta.`/data/copy` (id) SELECT id FROM s",
            "INSERT INTO delta.`/data/other` (id) SELECT total FROM delta.`/data/copy`",
            "INSERT INTO delta.`/data/copy` (v) SELECT v FROM s",
        ],
    )
    done = outcome("/data/copy", "/data/other", "/data/copy")
    found = event(task, outcome=done, lineage=COLUMNS)
    copy, other = (each["facets"]["columnLineage"] for each in found["outputs"])
    assert [each["name"] for each in found["inputs"]] == ["lake/orders"]
    assert origins(copy, "id") == {f"{ORDERS} id: DIRECT IDENTITY"}
    assert origins(copy, "v") == {f"{ORDERS} v: DIRECT IDENTITY"}
    assert origins(other, "id") == {"file /data/copy total: DIRECT IDENTITY"}


@pytest.mark.parametrize(
    "task",
    [
        RecoverStream(task_id="t", stream="s", target="/data/copy", key="id"),
        ApplyUpserts(task_id="t", table="/data/copy"),
        ApplyChanges(task_id="t", target="/data/copy", keys="id", stream="s"),
        ApplyChanges(
            task_id="t",
            target="/data/copy",
            keys="id",
            stream="s",
            query="SELECT id, v, qty AS other FROM s",
        ),
        ApplyChanges(
            task_id="t",
            target="/data/copy",
            keys="id",
            sequence_by="v",
            query="SELECT o.id, o.v FROM delta.`s3://bucket/lake/orders` AS o",
        ),
    ],
)
def test_copies_have_the_columns_of_their_sources(event, monkeypatch, task) -> None:
    catalog = SimpleNamespace(registered=lambda _: None, list_streams=list)
    monkeypatch.setattr(CdcHook, "catalog", lambda _: catalog)
    monkeypatch.setattr("airflow_provider_cdc.operators.upserts.check_reach", lambda _: None)
    found = event(task, outcome=outcome(), lineage=COLUMNS)
    facet = found["outputs"][0]["facets"]["columnLineage"]
    assert set(facet["fields"]) == {"id", "v"}
    assert origins(facet, "v") == {f"{ORDERS} v: DIRECT IDENTITY"}


@pytest.mark.parametrize(
    "task",
    [
        RebuildHistory(task_id="t", target="/data/copy", archive="lake.kept", stream="s"),
        ApplyChanges(task_id="t", target="/data/copy", keys="id", snapshot="lake.kept"),
    ],
)
def test_archives_and_snapshots_that_fill_a_target_are_inputs(event, monkeypatch, task) -> None:
    catalog = SimpleNamespace(registered=lambda _: None)
    monkeypatch.setattr(CdcHook, "catalog", lambda _: catalog)
    found = event(task, outcome=outcome(), lineage=COLUMNS)
    assert ("spark_catalog", "lake.kept") in {
        (each["namespace"], each["name"]) for each in found["inputs"]
    }
    assert "columnLineage" not in found["outputs"][0]["facets"]


def test_archive_has_the_columns_of_its_table_from_each_batch(event) -> None:
    batch = outcome()
    archived = ArchiveOutcome("a", "lake.orders", "s", 3, 5, NOON, (batch, batch), has_more=False)
    found = event(
        ArchiveChanges(task_id="t", table="lake.orders", archive="/data/copy"),
        archived=archived,
        lineage=COLUMNS,
    )
    facet = found["outputs"][0]["facets"]["columnLineage"]
    assert origins(facet, "id") == {f"{ORDERS} id: DIRECT IDENTITY"}


def test_each_of_many_consumptions_has_its_statements_and_columns(event, monkeypatch) -> None:
    module = "airflow_provider_cdc.operators.consumptions"
    for name in ("check_reach", "remove_answer"):
        monkeypatch.setattr(f"{module}.{name}", lambda *_: None)
    for name in ("_without_spark", "_earlier"):
        monkeypatch.setattr(ConsumeStreams, name, lambda *_: {})
    sql = {
        "/data/copy": "INSERT INTO delta.`/data/copy` (total) SELECT qty FROM s",
        "/data/other": "INSERT INTO delta.`/data/other` SELECT amount FROM refunds",
    }
    given = [("s", "/data/copy"), ("refunds", "/data/other")]
    task = ConsumeStreams(
        task_id="t",
        consumptions=[
            {"stream": name, "sql": sql[target], "consumer": name} for name, target in given
        ],
    )
    results = tuple(
        jobs.ConsumptionResult(name, (name,), outcome(target, streams=(name,)), lineage=COLUMNS)
        for name, target in given
    )
    found = event(task, consumptions=results)
    copy, other = (each["facets"]["columnLineage"] for each in found["outputs"])
    assert origins(copy, "total") == {f"{ORDERS} qty: DIRECT IDENTITY"}
    assert origins(other, "id") == {f"{ORDERS} amount: DIRECT IDENTITY"}


@pytest.mark.parametrize(
    "task",
    [
        ConsumeStream(task_id="t", stream="s", apply="a.b:c"),
        ConsumeStream(task_id="t", stream="s", sql="INSERT INTO copy SELECT s.* FROM s, other"),
        ApplyChanges(task_id="t", target="/data/copy", keys="id", stream="s", payload="debezium"),
    ],
)
def test_task_whose_columns_are_not_known_has_its_tables_only(event, task) -> None:
    found = event(task, outcome=outcome(), lineage=COLUMNS)
    assert found["inputs"][0]["name"] == "lake/orders"
    assert "columnLineage" not in found["outputs"][0]["facets"]


def test_stream_that_the_outcome_does_not_list_is_not_taken_for_a_table(event) -> None:
    task = ConsumeStream(
        task_id="t", stream="s", sql="INSERT INTO delta.`/data/copy` (id) SELECT s.id FROM s"
    )
    found = event(task, outcome=outcome(streams=()), lineage=COLUMNS)
    assert found["inputs"] == []
    assert "columnLineage" not in found["outputs"][0]["facets"]


def test_failure_to_trace_columns_keeps_the_tables(event, monkeypatch) -> None:
    def fails(*_: object) -> None:
        raise KeyError("v")

    monkeypatch.setattr("airflow_provider_cdc.operators.openlineage.column_lineage", fails)
    task = ConsumeStream(task_id="t", stream="s", sql="INSERT INTO copy (id) SELECT id FROM s")
    found = event(task, outcome=outcome(), lineage=COLUMNS)
    assert (found["inputs"][0]["name"], found["outputs"][0]["name"]) == (
        "lake/orders",
        "/data/copy",
    )


def test_export_is_sent_with_its_source_its_target_and_columns(event) -> None:
    task = ExportChanges(
        task_id="t",
        source="lake.orders",
        target="s3a://user:secret@bucket/out",
        at=Version(3),
        end=Version(5),
        file_format="parquet",
    )
    known = jobs.Lineage(
        tables={"s3a://bucket/lake/orders": ("id", "v")},
        source="s3a://bucket/lake/orders",
        target="s3a://user:secret@bucket/out",
    )
    found = event(task, lineage=known)
    (source,), (target,) = found["inputs"], found["outputs"]
    assert (source["name"], target["name"]) == ("lake/orders", "out")
    assert source["facets"]["version"]["datasetVersion"] == "5"
    assert "version" not in target["facets"]
    facet = target["facets"]["columnLineage"]
    assert origins(facet, "id") == {f"{ORDERS} id: DIRECT IDENTITY"}
    assert "secret" not in json.dumps(found)


def test_export_without_an_answer_about_lineage_has_its_names(event) -> None:
    found = event(ExportTable(task_id="t", table="lake.orders", target="/data/out"))
    assert [each["name"] for each in found["inputs"]] == ["lake.orders"]
    assert [each["name"] for each in found["outputs"]] == ["/data/out"]


def test_task_that_consumed_nothing_has_no_lineage() -> None:
    for task in (
        ConsumeStream(task_id="t", stream="s", sql="INSERT INTO copy SELECT * FROM s"),
        ExportTable(task_id="t", table="lake.orders", target="/data/out"),
    ):
        found = ExtractorManager().extract_metadata(
            SimpleNamespace(run_id="r"), task, TaskInstanceState.SUCCESS, SimpleNamespace()
        )
        assert (found.inputs, found.outputs) == ([], [])


@pytest.mark.parametrize("url", [None, "http://localhost:5000"])
def test_jobs_are_asked_for_lineage_only_if_events_are_sent(monkeypatch, url) -> None:
    asked = []

    def submission(_, request, context):
        asked.append(request.wants_lineage)
        return SimpleNamespace(run=lambda: jobs.Answer("r"))

    monkeypatch.setattr(CdcHook, "submission", submission)
    monkeypatch.setattr(CdcHook, "settings", CdcConnection("c", "file:///s"))
    if url is None:
        monkeypatch.delenv("OPENLINEAGE_URL", raising=False)
    else:
        monkeypatch.setenv("OPENLINEAGE_URL", url)
    CdcHook("c").submit(jobs.StreamHasData("s"))
    assert asked == [url is not None]


@pytest.mark.parametrize(
    ("location", "namespace", "name"),
    [
        ("/data/t", "file", "/data/t"),
        ("file:///data/t", "file", "/data/t"),
        ("s3a://bucket/a/b", "s3://bucket", "a/b"),
        ("s3://user:secret@bucket/a", "s3://bucket", "a"),
        ("gs://bucket/a/", "gs://bucket", "a"),
        ("abfss://container@account/a", "abfss://container@account", "a"),
        ("lake.orders", "spark_catalog", "lake.orders"),
    ],
)
def test_dataset_is_named_by_its_location(location, namespace, name) -> None:
    assert dataset_name(location) == (namespace, name)
