"""The session settings under which Delta applies a write at most once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

_APP_ID = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"

_locks: WeakKeyDictionary[SparkSession, threading.RLock] = WeakKeyDictionary()
_locks_guard = threading.Lock()


@contextmanager
def idempotent_write(spark: SparkSession, app_id: str, version: int) -> Iterator[None]:
    """Write under ``app_id`` and ``version``; Delta skips what is recorded already.

    The settings belong to the session, so one write at a time runs under them. They are always
    cleared: a leaked one would silently skip later writes.
    """
    with _settings(spark, {_APP_ID: app_id, _VERSION: str(version)}):
        yield


@contextmanager
def marked_commit(spark: SparkSession, mark: str) -> Iterator[None]:
    """Commit with ``mark`` as user metadata, by which the engine finds its own commits again."""
    with _settings(spark, {_USER_METADATA: mark}):
        yield


@contextmanager
def _settings(spark: SparkSession, values: dict[str, str]) -> Iterator[None]:
    with _lock_of(spark):
        before = {name: _setting(spark, name) for name in values}
        try:
            for name, value in values.items():
                spark.conf.set(name, value)
            yield
        finally:
            for name, earlier in before.items():
                if earlier is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, earlier)


def _setting(spark: SparkSession, name: str) -> str | None:
    return spark.conf.get(name, None)


def _lock_of(spark: SparkSession) -> threading.RLock:
    with _locks_guard:
        return _locks.setdefault(spark, threading.RLock())
