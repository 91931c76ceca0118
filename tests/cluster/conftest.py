"""An S3 store and, for most tests, a Spark cluster whose tables are on it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest
from cdc_stack.local_stack import LocalStack, local_stack
from cdc_stack.settings import BUCKET
from cluster_lab import ClusterLab
from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """An S3 store without a Spark cluster."""
    with local_stack(tmp_path_factory.mktemp("store"), spark=False) as stack:
        yield stack


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """A cluster of two workers, a Spark Connect server on it, and an S3 store."""
    with local_stack(tmp_path_factory.mktemp("stack")) as stack:
        yield stack


@pytest.fixture(scope="session")
def connected(stack: LocalStack) -> Iterator[Callable[[], SparkSession]]:
    """Makes sessions on the Spark Connect server."""
    sessions: list[SparkSession] = []

    def make() -> SparkSession:
        sessions.append(SparkSession.builder.remote(stack.connect_url).create())
        return sessions[-1]

    yield make
    for session in sessions:
        session.client.close()


@pytest.fixture
def lab(stack: LocalStack, connected: Callable[[], SparkSession]) -> ClusterLab:
    """An engine over Spark Connect, with a folder on S3 for one test."""
    return ClusterLab(stack, connected(), f"s3a://{BUCKET}/{uuid.uuid4().hex}")
