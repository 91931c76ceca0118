"""How streams stand, as SHOW STREAMS tells it, without Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from streams import NOON, new_offset, new_stream

from airflow_provider_cdc.engine.core.model import Base, Source, Stream, StreamMode
from airflow_provider_cdc.engine.storage.files import Files
from airflow_provider_cdc.engine.storage.source_log import SourceLog
from airflow_provider_cdc.engine.stream_status import StreamStatus, shown, status_of

METADATA = {"id": "a-table-id", "configuration": {"delta.enableRowTracking": "true"}}


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    """A stream behind version 0, whose own commit was cleaned up."""
    folder = tmp_path / "_delta_log"
    folder.mkdir()
    commit(tmp_path, 1, added("a", 100), added("b", 20))
    commit(tmp_path, 2, removed("b", 20), added("c", 3))
    commit(tmp_path, 3, added("d", 7, data_change=False), removed("a", 100, data_change=False))
    source = Source("`lake`.`sales`.`orders`", str(tmp_path), "a-table-id")
    return new_stream("s", source=source, offset=new_offset(0, json.dumps(METADATA)))


def commit(root: Path, version: int, *actions: dict[str, Any]) -> None:
    for action in actions:
        if "add" in action:
            action["add"]["defaultRowCommitVersion"] = version
    timestamp = int((NOON + timedelta(hours=version)).timestamp() * 1000)
    info = {"timestamp": timestamp, "tags": {"delta.rowTracking.preserved": "true"}}
    actions = ({"commitInfo": info}, *actions)
    path = root / "_delta_log" / f"{version:020d}.json"
    path.write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")


def added(path: str, size: int, *, data_change: bool = True) -> dict[str, Any]:
    return {"add": {"path": path, "size": size, "dataChange": data_change, "baseRowId": 0}}


def removed(path: str, size: int, *, data_change: bool = True) -> dict[str, Any]:
    return {"remove": {"path": path, "size": size, "dataChange": data_change}}


def status(stream: Stream) -> StreamStatus:
    return status_of(stream, SourceLog(Files()), NOON)


def test_status_counts_versions_commits_and_bytes_behind(stream: Stream) -> None:
    found = status(stream)
    assert (found.versions_behind, found.commits_behind) == (3, 2)
    assert found.bytes_behind == 3 + 7
    assert (found.may_have_data, found.stale) == (True, False)


def test_status_of_an_append_only_stream_counts_the_bytes_of_inserted_rows(stream: Stream) -> None:
    found = status(replace(stream, mode=StreamMode.APPEND_ONLY))
    assert found.bytes_behind == 100 + 20 + 3


def test_status_of_a_stream_that_cannot_be_read_says_why_and_counts_nothing(
    stream: Stream,
) -> None:
    Path(stream.source.location, "_delta_log", f"{2:020d}.json").unlink()
    found = status(stream)
    assert (found.versions_behind, found.commits_behind, found.bytes_behind) == (None,) * 3
    assert (found.latest_version, found.may_have_data, found.stale) == (None, False, True)
    assert "version 2 is gone" in str(found.invalid_reason)


def test_status_of_a_stream_at_an_earlier_point_counts_from_its_first_commit(
    stream: Stream,
) -> None:
    young = replace(stream, created_at=NOON + timedelta(days=30))
    first = NOON + timedelta(hours=1)
    assert status(young).stale_after - first == status(stream).stale_after - stream.created_at


def test_status_is_stale_once_its_prediction_has_passed(stream: Stream) -> None:
    later = status(stream).stale_after
    assert status_of(stream, SourceLog(Files()), later - timedelta(seconds=1)).stale is False
    assert status_of(stream, SourceLog(Files()), later).stale is True


def test_show_tells_where_a_stream_stands_in_plain_values(stream: Stream) -> None:
    line = shown(status(replace(stream, comment="nightly", last_consumer="dag.task")))
    assert list(line)[:6] == ["created_on", "name", "catalog", "database", "table_on", "owner"]
    assert (line["catalog"], line["database"]) == ("lake", "sales")
    assert (line["mode"], line["type"], line["append_semantics"]) == ("standard", "DELTA", None)
    assert (line["offset"], line["commits_behind"], line["bytes_behind"]) == (0, 2, 10)
    assert (line["comment"], line["last_consumer"]) == ("nightly", "dag.task")
    assert {type(value) for value in line.values()} <= {str, int, bool, type(NOON), type(None)}


def test_show_of_a_source_that_is_a_path_names_no_database(stream: Stream) -> None:
    source = replace(stream.source, name="delta.`/data/orders`")
    bases = (Base(source, stream.offset),)
    line = shown(status(replace(stream, bases=bases, mode=StreamMode.APPEND_ONLY)))
    assert (line["catalog"], line["database"]) == (None, None)
    assert line["append_semantics"] == "inserted"
