"""A server that speaks S3, on loopback, for all tests of this folder."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from cdc_stack.local_stack import local_stack
from cdc_stack.settings import BUCKET


@pytest.fixture(scope="session")
def options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Storage options for the server, which is another process: delta-rs blocks Python's threads
    while it waits for answers.
    """
    with local_stack(tmp_path_factory.mktemp("store"), spark=False) as stack:
        yield stack.storage_options


@pytest.fixture(params=["s3", "s3a"])
def root(request: pytest.FixtureRequest) -> str:
    """A folder for one test only."""
    return f"{request.param}://{BUCKET}/{uuid.uuid4().hex}/täble 1"
