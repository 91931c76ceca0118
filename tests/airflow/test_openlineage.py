"""The lineage of consumptions, by Airflow's OpenLineage provider and the client of OpenLineage."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from airflow.providers.openlineage.extractors.manager import ExtractorManager
from airflow.providers.openlineage.plugins.adapter import OpenLineageAdapter
from airflow.utils.state import TaskInstanceState
from openlineage.client import OpenLineageClient
from openlineage.client.transport.file import FileConfig, FileTransport
from streams import NOON

from airflow_provider_cdc.engine.core.model.outcomes import (
    Outcome,
    StatementOutcome,
    StatementResult,
    StreamOutcome,
    TableOutcome,
)
from airflow_provider_cdc.operators import base
from airflow_provider_cdc.operators.openlineage import dataset_name
from airflow_provider_cdc.operators.stream import ConsumeStream

RUN_ID = "01890a5d-ac96-774b-bcce-b302099a8057"


def outcome() -> Outcome:
    table = TableOutcome("lake.orders", 3, 5, "file_difference", NOON, "s3a://bucket/lake/orders")
    stream = StreamOutcome("1", "s", 3, 5, "file_difference", {"inserted": 2}, (table,), NOON)
    statement = StatementOutcome(
        0, "/data/copy", StatementResult.APPLIED, 7, {"numOutputRows": 2}, None, "/data/copy"
    )
    return Outcome("c", "dag/task", (stream,), (statement,), 1.0)


def test_consumption_is_sent_as_an_event_with_its_tables_and_versions(
    monkeypatch, tmp_path
) -> None:
    monkeypatch.setattr(base, "announce", lambda *_, **__: None)
    task = ConsumeStream(task_id="t", stream="s", sql="INSERT INTO copy SELECT * FROM s")
    task.announced(outcome(), {})
    found = ExtractorManager().extract_metadata(
        SimpleNamespace(run_id="r"), task, TaskInstanceState.SUCCESS, SimpleNamespace()
    )
    file = tmp_path / "event.json"
    transport = FileTransport(FileConfig(log_file_path=str(file), append=True))
    adapter = OpenLineageAdapter(OpenLineageClient(transport=transport))
    adapter.complete_task(RUN_ID, "d.t", NOON.isoformat(), found, None, None, None, None, None)

    event = json.loads(file.read_text())
    (source,), (target,) = event["inputs"], event["outputs"]
    assert (source["namespace"], source["name"]) == ("s3://bucket", "lake/orders")
    assert source["facets"]["version"]["datasetVersion"] == "5"
    assert source["facets"]["symlinks"]["identifiers"][0]["name"] == "lake.orders"
    assert (target["namespace"], target["name"]) == ("file", "/data/copy")
    assert target["facets"]["version"]["datasetVersion"] == "7"
    assert target["outputFacets"]["outputStatistics"]["rowCount"] == 2


def test_task_that_consumed_nothing_has_no_lineage() -> None:
    task = ConsumeStream(task_id="t", stream="s", sql="INSERT INTO copy SELECT * FROM s")
    found = ExtractorManager().extract_metadata(
        SimpleNamespace(run_id="r"), task, TaskInstanceState.SUCCESS, SimpleNamespace()
    )
    assert (found.inputs, found.outputs) == ([], [])


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
