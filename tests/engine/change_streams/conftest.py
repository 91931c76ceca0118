"""Change streams on small tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from change_stream_lab import ChangeStreamLab
from pyspark.sql import SparkSession

TRACKED = "'delta.enableRowTracking' = 'true'"
ROWS = "INSERT INTO {t} SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a', 10), (2, 'b', 20)"


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> ChangeStreamLab:
    """A table ``src`` of two rows (id, v, n)."""
    lab = ChangeStreamLab(spark, tmp_path)
    lab.make("src", "id INT, v STRING, n BIGINT", ROWS, properties=TRACKED)
    return lab
