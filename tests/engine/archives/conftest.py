"""Tables with and without an archive."""

from __future__ import annotations

from pathlib import Path

import pytest
from archive_lab import ArchiveLab
from pyspark.sql import SparkSession

TRACKED = "'delta.enableRowTracking' = 'true', 'delta.enableChangeDataFeed' = 'true'"
MAPPED = f"{TRACKED}, 'delta.columnMapping.mode' = 'name'"
ROWS = "INSERT INTO {t} SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a'), (2, 'b'), (3, 'c')"


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> ArchiveLab:
    """A table ``src`` of three rows at version 1."""
    lab = ArchiveLab(spark, tmp_path)
    lab.make("src", "id INT, v STRING", ROWS, properties=TRACKED)
    return lab


@pytest.fixture
def mapped(spark: SparkSession, tmp_path: Path) -> ArchiveLab:
    """The same with column mapping and type widening."""
    lab = ArchiveLab(spark, tmp_path)
    settings = f"{MAPPED}, 'delta.enableTypeWidening' = 'true'"
    lab.make("src", "id INT, v STRING", ROWS, properties=settings)
    return lab
