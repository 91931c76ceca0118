"""The table that tests of upserts share."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from quarantine_lab import QuarantineLab


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> QuarantineLab:
    return QuarantineLab.created(spark, tmp_path)
