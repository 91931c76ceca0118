"""Shared by all tests: one Spark session for each process, Hypothesis profiles, marks by folder."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from shared_jvm import SHARED, session_builder, shared_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest_plugins = ("airflow_fixtures",)

# Airflow reads its home on first import, which may happen while tests are collected.
if "AIRFLOW_HOME" not in os.environ:
    os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="airflow-home")
    atexit.register(shutil.rmtree, os.environ["AIRFLOW_HOME"], ignore_errors=True)
os.environ.setdefault("AIRFLOW__CORE__LOAD_EXAMPLES", "False")

settings.register_profile("ci", deadline=None, derandomize=False, print_blob=True)
settings.load_profile("ci")

TESTS = Path(__file__).parent
FOLDER_MARKS = {
    "engine": ("spark",),
    "faults": ("spark", "fault"),
    "stateful": ("stateful",),
    "airflow": ("airflow",),
    "cluster": ("cluster",),
}


# The engine's longest modules: two processes finish soonest if they finish together.
LONG_FOLDERS = ("upserts", "consumption")
LONG_MODULES = (
    "test_view_streams.py",
    "test_recovery.py",
    "test_snowflake_streams.py",
    "test_clone_table.py",
    "test_changes_from_the_beginning.py",
    "test_changes_beside_the_feed.py",
    "test_retention.py",
    "test_streams.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by their folder, so that each test belongs to a layer of the Makefile, and put the
    engine's long tests before its short ones.
    """
    items.sort(key=_rank)
    for item in items:
        if _is_thorough(item):
            item.add_marker("thorough")
        folder = item.path.relative_to(TESTS).parts[0]
        for mark in FOLDER_MARKS.get(folder, ()):
            item.add_marker(mark)


def _is_thorough(item: pytest.Item) -> bool:
    """Whether CI leaves a variant of a test to ``make test-thorough``: ``in_ci`` names those that
    it runs, by patterns of the ids of their parameters.
    """
    mark = item.get_closest_marker("in_ci")
    if mark is None:
        return False
    variant = item.name.partition("[")[2].removesuffix("]")
    return not any(fnmatchcase(variant, pattern) for pattern in mark.args)


def _rank(item: pytest.Item) -> bool:
    """Whether the test comes after the others."""
    is_long = item.path.parent.name in LONG_FOLDERS or item.path.name in LONG_MODULES
    return item.path.relative_to(TESTS).parts[0] == "engine" and not is_long


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("numprocesses", None):
        # The workers find the JVM by this environment.
        os.environ.update(SHARED)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The Spark session of the process; its JVM starts with the first test that uses it."""
    if SHARED:
        session = shared_session()
    else:
        session = session_builder(tmp_path_factory.mktemp("warehouse")).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    if not SHARED:
        session.stop()
    # py4j's connections close when they are collected, and log to streams that are closed by then.
    logging.getLogger("py4j").setLevel(logging.ERROR)
