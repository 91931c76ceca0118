"""An S3 store and, for most tests, a Spark cluster whose tables are on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cdc_stack.local_stack import LocalStack, local_stack


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """An S3 store without a Spark cluster."""
    with local_stack(tmp_path_factory.mktemp("store"), spark=False) as stack:
        yield stack
