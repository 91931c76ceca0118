"""The log of a clone, and which tables can have one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from streams import NOON

from airflow_provider_cdc.engine.core.delta.clones import check_apart, check_clonable, cloned_log
from airflow_provider_cdc.engine.core.delta.deletion_vectors import VectorFiles
from airflow_provider_cdc.engine.core.delta.log_actions import ROW_ID_SETTING, ROW_VERSION_SETTING
from airflow_provider_cdc.engine.core.delta.table_snapshot import TableSnapshot
from airflow_provider_cdc.engine.core.errors import ChangeTrackingDisabled, InvalidRequest

SETTINGS = {
    "delta.enableRowTracking": "true",
    ROW_ID_SETTING: "_row-id-col-1",
    ROW_VERSION_SETTING: "_row-commit-version-col-1",
    "delta.appendOnly": "false",
}
FILE = {
    "path": "file:///source/a.parquet",
    "partitionValues": {"p": None},
    "size": 10,
    "modificationTime": 5,
    "dataChange": False,
    "stats": '{"numRecords":3}',
    "tags": {"ZCUBE_ID": "x"},
    "baseRowId": 7,
    "defaultRowCommitVersion": 3,
    "deletionVector": {
        "storageType": "p",
        "pathOrInlineDv": "file:///source/vectors.bin",
        "sizeInBytes": 40,
        "cardinality": 2,
        "offset": 1,
    },
    "clusteringProvider": "liquid",
}
DOMAINS = (
    {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark":9}'},
    {"domain": "delta.clustering", "configuration": "{}"},
)
SOURCE = TableSnapshot(
    4,
    {"minReaderVersion": 3, "minWriterVersion": 7, "writerFeatures": ["rowTracking"]},
    {"id": "t", "schemaString": "{}", "partitionColumns": ["p"], "configuration": SETTINGS},
    DOMAINS,
    (FILE,),
)


def source(settings: Mapping[str, str] = {}, **fields: Any) -> TableSnapshot:
    metadata = {**SOURCE.metadata, "configuration": {**SETTINGS, **settings}}
    return replace(SOURCE, metadata=metadata, **fields)


def log_of(snapshot: TableSnapshot) -> list[tuple[str, dict[str, Any]]]:
    lines = cloned_log(snapshot, "the source", "an-id", NOON, VectorFiles()).splitlines()
    return [next(iter(json.loads(line).items())) for line in lines]


def test_clone_is_another_table_with_the_row_ids_of_its_source() -> None:
    actions = log_of(SOURCE)

    assert [name for name, _ in actions] == [
        "commitInfo",
        "protocol",
        "metaData",
        "domainMetadata",
        "domainMetadata",
        "add",
    ]
    found = dict(actions)
    assert found["protocol"] == SOURCE.protocol
    assert found["metaData"] == {
        **SOURCE.metadata,
        "id": "an-id",
        "createdTime": int(NOON.timestamp() * 1000),
        "configuration": SETTINGS | {ROW_VERSION_SETTING: "_row-commit-version-col-an-id"},
    }
    assert [action for name, action in actions if name == "domainMetadata"] == list(DOMAINS)
    assert found["add"] == FILE | {"dataChange": True, "defaultRowCommitVersion": 0}


def test_clone_records_its_source_and_the_sources_version() -> None:
    info = log_of(SOURCE)[0][1]

    assert info["operation"] == "CLONE"
    assert info["operationParameters"] == {"source": "the source", "sourceVersion": "4"}
    assert info["timestamp"] == int(NOON.timestamp() * 1000)
    assert "inCommitTimestamp" not in info


def test_clone_of_a_table_with_in_commit_timestamps_starts_with_them() -> None:
    own_times = {
        "delta.enableInCommitTimestamps": "true",
        "delta.inCommitTimestampEnablementVersion": "2",
        "delta.inCommitTimestampEnablementTimestamp": "1",
    }

    found = dict(log_of(source(own_times)))

    assert found["commitInfo"]["inCommitTimestamp"] == int(NOON.timestamp() * 1000)
    settings = found["metaData"]["configuration"]
    assert [name for name in own_times if name in settings] == ["delta.enableInCommitTimestamps"]


def test_empty_table_can_be_cloned() -> None:
    check_clonable("table t", source(files=()))
    assert [name for name, _ in log_of(source(files=()))][-1] == "domainMetadata"


@pytest.mark.parametrize(
    ("snapshot", "cause"),
    [
        (source({"delta.enableRowTracking": "false"}), "row tracking is off"),
        (source(files=(FILE, {**FILE, "baseRowId": None})), "1 files without row ids"),
    ],
)
def test_clone_of_a_table_without_row_ids_is_refused(snapshot: TableSnapshot, cause: str) -> None:
    with pytest.raises(ChangeTrackingDisabled, match=rf"table t: .*{cause}.*ALTER TABLE"):
        check_clonable("table t", snapshot)


def test_clone_of_a_catalog_managed_table_is_refused() -> None:
    managed = {**SOURCE.protocol, "writerFeatures": ["catalogManaged", "rowTracking"]}

    with pytest.raises(InvalidRequest, match="newest commits: catalogManaged"):
        check_clonable("table t", source(protocol=managed))


@pytest.mark.parametrize("target", ["file:///a/t", "file:///a/t/", "file:///a/t/c", "file:///a"])
def test_clone_within_or_around_its_source_is_refused(target: str) -> None:
    with pytest.raises(InvalidRequest, match="table c: cannot be in this folder"):
        check_apart("table c", "file:///a/t", target)


def test_clone_beside_its_source_is_accepted() -> None:
    check_apart("table c", "file:///a/t", "file:///a/t2")
