from __future__ import annotations

import json
import tracemalloc

from airflow_provider_cdc.engine.core.change_sets.crafted_log import (
    ListedFile,
    Side,
    crafted_log,
)
from airflow_provider_cdc.engine.core.delta.deletion_vectors import VectorFiles
from airflow_provider_cdc.engine.core.delta.log_actions import DataFile
from airflow_provider_cdc.engine.core.delta.table_schema import Layout

METADATA = {
    "schemaString": '{"type": "struct", "fields": []}',
    "partitionColumns": [],
    "configuration": {},
}
STATS = '{"numRecords":1000,"minValues":{"id":1},"maxValues":{"id":1000}}'


def listed(count: int) -> list[ListedFile]:
    return [
        ListedFile(
            Side.NEW,
            DataFile(
                f"file:///lake/t/part-{number:05d}.parquet",
                size_bytes=1000,
                stats=STATS,
                base_row_id=number * 1000,
                default_row_commit_version=number,
            ),
        )
        for number in range(count)
    ]


def log_of(files: list[ListedFile]) -> bytes:
    return crafted_log(Layout.of(METADATA), {}, files, "id", VectorFiles("file:///vectors"))


def test_crafted_log_has_a_line_for_each_action() -> None:
    first, second, *adds = map(json.loads, log_of(listed(3)).splitlines())

    assert [*first, *second] == ["protocol", "metaData"]
    assert [each["add"]["path"][-10:] for each in adds] == [
        "00.parquet",
        "01.parquet",
        "02.parquet",
    ]
    assert adds[2]["add"]["baseRowId"] == 2000
    assert adds[2]["add"]["stats"] == STATS


def test_crafted_log_of_many_files_holds_little_more_than_itself() -> None:
    files = listed(20_000)
    tracemalloc.start()
    try:
        log = log_of(files)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 1.5 * len(log)
