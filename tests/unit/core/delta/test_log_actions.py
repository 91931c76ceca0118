"""The actions of a Delta log, as commits store them."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_provider_cdc.engine.core.delta.log_actions import (
    DataFile,
    DeletionVector,
    high_water_mark_of,
    parse_commit,
)

VECTOR = {
    "storageType": "u",
    "pathOrInlineDv": "vBn[lx{q8@P<9BNH/isA",
    "offset": 1,
    "sizeInBytes": 36,
    "cardinality": 2,
}
ADD = {
    "path": "p=a%20b/part-0.parquet",
    "partitionValues": {"p": "a b", "q": None},
    "size": 500,
    "modificationTime": 1,
    "dataChange": False,
    "stats": '{"numRecords":7,"minValues":{}}',
    "baseRowId": 0,
    "defaultRowCommitVersion": 3,
    "deletionVector": VECTOR,
}


def content(*actions: dict[str, Any]) -> bytes:
    return "\n".join(json.dumps(action) for action in actions).encode()


def row_ids(mark: int) -> dict[str, Any]:
    configuration = json.dumps({"rowIdHighWaterMark": mark})
    return {"domain": "delta.rowTracking", "configuration": configuration, "removed": False}


def test_parse_commit_keeps_what_change_sets_need() -> None:
    info = {
        "timestamp": 1_700_000_000_000,
        "inCommitTimestamp": 1_700_000_000_001,
        "operation": "MERGE",
        "operationParameters": {"predicate": "[]"},
        "operationMetrics": {"numTargetRowsInserted": "3", "ratio": "0.5"},
        "userMetadata": "note",
    }
    text = content(
        {"commitInfo": info},
        {"protocol": {"minReaderVersion": 3}},
        {"metaData": {"id": "t"}},
        {"txn": {"appId": "a", "version": 4}},
        {"domainMetadata": row_ids(41)},
        {"domainMetadata": {"domain": "delta.clustering", "configuration": "{}"}},
        {"add": ADD},
        {"remove": {"path": "old.parquet", "dataChange": True}},
        {"somethingNew": {}},
    )
    commit = parse_commit(12, text + b"\n\n")
    assert commit.version == 12
    assert commit.timestamp == datetime(2023, 11, 14, 22, 13, 20, 1000, tzinfo=UTC)
    assert commit.fingerprint == hashlib.sha256(text + b"\n\n").hexdigest()
    assert (commit.operation, commit.user_metadata) == ("MERGE", "note")
    assert commit.metrics == {"numTargetRowsInserted": 3}
    assert (commit.metadata, commit.protocol) == ({"id": "t"}, {"minReaderVersion": 3})
    assert (commit.transactions, commit.row_id_high_water_mark) == ({"a": 4}, 41)
    assert [file.path for file in commit.adds] == ["p=a%20b/part-0.parquet"]
    assert [file.path for file in commit.removes] == ["old.parquet"]
    assert commit.changes_data


def test_parse_commit_of_an_empty_commit_holds_nothing() -> None:
    commit = parse_commit(0, b"")
    assert (commit.adds, commit.removes, commit.metadata) == ((), (), None)
    assert commit.timestamp == datetime(1970, 1, 1, tzinfo=UTC)
    assert not commit.changes_data


def test_parse_commit_does_not_split_at_line_separators_in_strings() -> None:
    text = json.dumps({"txn": {"appId": "a\u2028b\x85c", "version": 1}}, ensure_ascii=False)
    assert parse_commit(1, text.encode()).transactions == {"a\u2028b\x85c": 1}


@pytest.mark.parametrize("odd", [b"NaN", rb'"\ud800"', b'"\xed\xa0\x80"'])
def test_parse_commit_accepts_the_lenient_json_of_other_writers(odd: bytes) -> None:
    text = content({"add": ADD})
    commit = parse_commit(
        1, b'{"commitInfo": {"operation": "WRITE", "odd": ' + odd + b"}}\n" + text
    )
    assert (commit.operation, commit.adds) == ("WRITE", (DataFile.of(ADD),))


def test_parse_commit_reads_null_as_missing() -> None:
    vector = {**VECTOR, "storageType": "i", "offset": None}
    bare = {"path": "x", "partitionValues": None, "size": None, "stats": None, "baseRowId": None}
    text = content(
        {"commitInfo": {"operation": "DELETE", "userMetadata": None}, "txn": None},
        {"remove": bare},
        {"add": ADD | {"deletionVector": vector}},
    )
    commit = parse_commit(1, text)
    assert commit.removes == (DataFile("x"),) == (DataFile.of(bare),)
    (added,) = commit.adds
    assert added.deletion_vector is not None
    assert added.deletion_vector.offset is None
    assert added.partition_values == {"p": "a b", "q": None}
    assert (commit.operation, commit.transactions) == ("DELETE", {})


def test_parse_commit_with_a_null_file_keeps_the_nulls_of_the_metadata() -> None:
    metadata = {"id": "t", "name": None}
    text = content({"metaData": metadata}, {"remove": {"path": "x", "size": None}}, {"add": None})
    commit = parse_commit(1, text)
    assert (commit.metadata, commit.removes, commit.adds) == (metadata, (DataFile("x"),), ())


def test_parse_commit_of_a_file_without_data_change_raises() -> None:
    with pytest.raises(ValueError, match="dataChange"):
        parse_commit(1, content({"add": ADD | {"dataChange": None}}))


def test_parse_commit_of_an_invalid_action_raises() -> None:
    with pytest.raises(ValueError, match="path"):
        parse_commit(1, content({"add": {"size": 1}}))
    with pytest.raises(ValueError, match="add"):
        parse_commit(1, content({"add": 5}))


def test_parse_commit_of_broken_json_raises() -> None:
    with pytest.raises(ValueError, match="Expecting"):
        parse_commit(1, b'{"add": ')


def test_data_file_of_an_add_keeps_its_vector_and_row_ids() -> None:
    file = DataFile.of(ADD)
    assert (file.base_row_id, file.default_row_commit_version) == (0, 3)
    assert file.partition_values == {"p": "a b", "q": None}
    assert file.record_count == 7
    assert file.data_change is False
    assert file.deletion_vector is not None
    assert file.deletion_vector.as_action() == VECTOR


def test_data_file_of_a_bare_remove_has_no_facts() -> None:
    file = DataFile.of({"path": "x", "dataChange": True})
    assert (file.partition_values, file.size_bytes, file.stats) == ({}, 0, None)
    assert (file.base_row_id, file.deletion_vector, file.record_count) == (None, None, None)
    assert DataFile.of({"path": "x", "stats": "{}"}).record_count is None


def test_inline_deletion_vector_has_no_offset() -> None:
    action = {key: value for key, value in VECTOR.items() if key != "offset"}
    vector = DeletionVector.of({**action, "storageType": "i"})
    assert vector is not None
    assert vector.offset is None
    assert "offset" not in vector.as_action()
    assert DeletionVector.of(None) is None


def test_high_water_mark_is_that_of_the_row_tracking_domain() -> None:
    assert high_water_mark_of(row_ids(0), None) == 0
    assert high_water_mark_of({"domain": "other", "configuration": "{}"}, 5) == 5


def test_high_water_mark_of_a_removed_domain_is_minus_one() -> None:
    assert high_water_mark_of({**row_ids(9), "removed": True}, 5) == -1
    commit = parse_commit(3, content({"domainMetadata": {**row_ids(9), "removed": True}}))
    assert commit.row_id_high_water_mark == -1
