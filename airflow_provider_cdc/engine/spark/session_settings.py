"""Settings of a Spark session that hold for a moment."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

_locks: WeakKeyDictionary[SparkSession, threading.RLock] = WeakKeyDictionary()
_locks_guard = threading.Lock()


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Run under the settings ``values``, and leave those of the session as they were.

    They belong to the session, so one thread at a time runs under its own.
    """
    with _lock_of(spark):
        before = {name: spark.conf.get(name, None) for name in values}
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


def is_on(spark: SparkSession, name: str) -> bool:
    """Whether a setting that is true or false is true."""
    return str(spark.conf.get(name, "false")).strip().casefold() == "true"


def alone(spark: SparkSession) -> AbstractContextManager[None]:
    """Run while no other thread of this process runs the session under settings of its own."""
    return settings(spark, {})


def _lock_of(spark: SparkSession) -> threading.RLock:
    with _locks_guard:
        return _locks.setdefault(spark, threading.RLock())
