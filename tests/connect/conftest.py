"""Sessions on a real Spark Connect server.

A process that has a classic session can have no remote one, so these tests run in a process of
their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.connect.session import SparkSession as RemoteSession
from shared_jvm import CONNECT_ADDRESS, SHARED, shared_jvm
from stream_lab import StreamLab

NewSession = Callable[[], SparkSession]


@pytest.fixture(scope="session")
def connect_address() -> Iterator[str]:
    """The address of one server for all tests."""
    if SHARED:
        yield SHARED[CONNECT_ADDRESS]
    else:
        with shared_jvm() as names:
            yield names[CONNECT_ADDRESS]


@pytest.fixture(scope="session")
def new_session(connect_address: str) -> Iterator[NewSession]:
    """Makes sessions on one server, each isolated from the others."""
    sessions: list[SparkSession] = []

    def make() -> SparkSession:
        sessions.append(SparkSession.builder.remote(connect_address).create())
        return sessions[-1]

    yield make
    for session in sessions:
        session.stop()


@pytest.fixture(scope="session")
def remote(new_session: NewSession) -> SparkSession:
    session = new_session()
    assert isinstance(session, RemoteSession)
    return session


@pytest.fixture
def lab(remote: SparkSession, tmp_path: Path) -> StreamLab:
    return StreamLab(remote, tmp_path)
