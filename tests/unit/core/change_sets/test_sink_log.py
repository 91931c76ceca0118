"""File lists: what Spark's file sinks write about the files of a folder."""

from __future__ import annotations

import json

from airflow_provider_cdc.engine.core.change_sets.sink_log import sink_log


def test_sink_log_has_a_version_and_a_numbered_line_for_each_file() -> None:
    version, *lines = sink_log([("file:///t/a%20b", 7), ("s3://b/c", 1 << 40)]).decode().split("\n")

    files = [json.loads(line) for line in lines]
    assert version == "v1"
    assert [(file["path"], file["size"], file["modificationTime"]) for file in files] == [
        ("file:///t/a%20b", 7, 0),
        ("s3://b/c", 1 << 40, 1),
    ]
    assert {(file["action"], file["isDir"]) for file in files} == {("add", False)}
