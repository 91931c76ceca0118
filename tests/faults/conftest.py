"""One workshop for all fault tests."""

from __future__ import annotations

import pytest
from drivers import Workshop
from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def workshop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(spark, tmp_path_factory)
