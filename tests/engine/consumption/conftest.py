"""Streams with something to consume."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from scenes import (
    TRACKED,
)
from stream_lab import StreamLab
from table_copies import copy_later_commits, copy_tables


@pytest.fixture(scope="module")
def template(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> StreamLab:
    lab = StreamLab(spark, tmp_path_factory.mktemp("template"))
    lab.make("src", "id INT, v STRING", properties=TRACKED)
    lab.make("log", "id INT, v STRING, action STRING")
    lab.make("other", "id INT, v STRING, action STRING")
    lab.make("sums", "k INT, total BIGINT")
    lab.make("numbers", "n INT")
    lab.make("dim", "id INT, n INT", properties=TRACKED)
    lab.sql(
        "INSERT INTO {src} VALUES (1, '10'), (2, '20')",
        "INSERT INTO {src} VALUES (3, 'x')",
        "INSERT INTO {log} VALUES (0, 'kept', 'x')",
        "INSERT INTO {sums} VALUES (0, 1000), (1, 2000)",
        "INSERT INTO {dim} VALUES (1, 100)",
    )
    return lab


@pytest.fixture
def lab(template: StreamLab, tmp_path: Path) -> StreamLab:
    """Streams ``s`` on ``src`` with two rows and ``d`` on ``dim`` with one row to consume, and the
    empty targets ``log`` and ``other``.
    """
    lab = StreamLab(template.spark, tmp_path)
    copy_tables(template.root, tmp_path, {"src": 0, "dim": 0, "log": 0, "other": 0})
    lab.engine.create_stream("s", on_table=lab.path("src"))
    lab.engine.create_stream("d", on_table=lab.path("dim"))
    copy_later_commits(template.root, tmp_path, "src", 1)
    copy_later_commits(template.root, tmp_path, "dim", 1)
    return lab


@pytest.fixture
def three(lab: StreamLab, template: StreamLab) -> StreamLab:
    """Targets that hold rows already, and a value in ``src`` that is not a number."""
    copy_tables(template.root, lab.root, {"sums": 1, "numbers": 0})
    copy_later_commits(template.root, lab.root, "src", 2)
    copy_later_commits(template.root, lab.root, "log", 1)
    return lab
