"""The table of events that tests of history targets share."""

from __future__ import annotations

from pathlib import Path

import pytest
from history_lab import HistoryLab
from pyspark.sql import SparkSession


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> HistoryLab:
    return HistoryLab(spark, tmp_path)
