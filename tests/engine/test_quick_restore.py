"""The RESTORE by which most tests undo commits what Spark's RESTORE commits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import quick_restore
from pyspark.sql import SparkSession
from stream_lab import StreamLab
from table_copies import copy_tables

from airflow_provider_cdc.engine.spark.consumption.statement_writer import SparkWriter
from airflow_provider_cdc.engine.storage.files.stores import Files


def last_commit(lab: StreamLab) -> dict[str, Any]:
    """What the newest commit of ``table`` does, as far as the engine reads it."""
    log = Path(lab.path("table"), "_delta_log")
    lines = max(log.glob("*.json")).read_text().splitlines()
    actions = [next(iter(json.loads(line).items())) for line in lines]
    found: dict[str, Any] = {
        kind: {(file["path"], file["dataChange"]) for name, file in actions if name == kind}
        for kind in ("add", "remove")
    }
    (info,) = (action for name, action in actions if name == "commitInfo")
    asked = str(info["operationParameters"]["version"])
    return found | {"info": (info["operation"], asked, info["userMetadata"])}


@pytest.mark.in_ci("1")
@pytest.mark.parametrize("version", [1, 3])
def test_quick_restore_commits_the_same_files_and_mark_as_spark(
    spark: SparkSession, tmp_path: Path, version: int
) -> None:
    lab = StreamLab(spark, tmp_path / "made")
    lab.make("table", "id INT, v STRING")
    lab.sql(
        "INSERT INTO {table} SELECT /*+ COALESCE(1) */ id, 'a' FROM range(4)",
        "DELETE FROM {table} WHERE id = 1",
        "INSERT INTO {table} VALUES (5, 'e')",
        "DELETE FROM {table} WHERE id > 2",
    )
    commits, rows = [], []
    for name, restore in ("spark", quick_restore.by_spark), ("quick", quick_restore.restore):
        copy_tables(lab.root, tmp_path / name, {"table": 4})
        copied = StreamLab(spark, tmp_path / name)
        restore(SparkWriter(spark, Files()), copied.path("table"), version, "the mark")
        commits.append(last_commit(copied))
        rows.append(sorted(map(tuple, spark.table(copied.name("table")).collect())))

    assert commits[0] == commits[1]
    assert rows[0] == rows[1]
    assert commits[1]["info"] == ("RESTORE", str(version), "the mark")
