"""Temporary settings of a Spark session."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

_IS_BOUND_TO_RETENTION = (
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration"
)
SWITCH_OFF = "switch it off in this session; in Airflow, use the field conf of the connection"
"""What to do about a setting of the session under which the engine cannot work."""

_UNESCAPED = "spark.sql.parser.escapedStringLiterals"


@dataclass(slots=True)
class _Users:
    """How many blocks look up any version, and what the session had set before the first one."""

    count: int = 0
    before: str | None = None


_users: WeakKeyDictionary[SparkSession, _Users] = WeakKeyDictionary()
_locks: WeakKeyDictionary[SparkSession, threading.RLock] = WeakKeyDictionary()
_locks_guard = threading.Lock()


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str | None]) -> Iterator[None]:
    """Run under the settings ``values``, then restore those of the session.

    :param values: by their names; ``None``: the setting is not set

    The settings belong to the session, so only one thread at a time runs with changed settings.
    """
    with _lock_of(spark):
        before = {name: spark.conf.get(name, None) for name in values}
        try:
            for name, value in values.items():
                _set(spark, name, value)
            yield
        finally:
            for name, earlier in before.items():
                _set(spark, name, earlier)


@contextmanager
def escaped_literals(spark: SparkSession) -> Iterator[None]:
    """Run statements whose literals escape quotes and backslashes, even in a session that reads a
    backslash as an ordinary character. Some places of a statement accept only literals.
    """
    if not is_on(spark, _UNESCAPED):
        yield
        return
    with settings(spark, {_UNESCAPED: "false"}):
        yield


def is_on(spark: SparkSession, name: str) -> bool:
    """Whether a Boolean setting is true."""
    return str(spark.conf.get(name, "false")).strip().lower() == "true"


def may_broadcast(spark: SparkSession) -> bool:
    """Whether the session broadcasts small tables; a hint would broadcast them in any case."""
    return not str(spark.conf.get("spark.sql.autoBroadcastJoinThreshold")).startswith("-")


@contextmanager
def any_version(spark: SparkSession) -> Iterator[None]:
    """Look up, or restore, versions of tables of any age.

    Delta refuses versions that are older than ``delta.deletedFileRetentionDuration``, although all
    their files may exist. If a file is missing, reading and RESTORE fail anyway.

    No thread waits here for another thread, not even for one that writes, because all of them need
    the same setting.
    """
    with _locks_guard:
        user = _users.setdefault(spark, _Users())
        if not user.count:
            user.before = spark.conf.get(_IS_BOUND_TO_RETENTION, None)
            spark.conf.set(_IS_BOUND_TO_RETENTION, "false")
        user.count += 1
    try:
        yield
    finally:
        with _locks_guard:
            user.count -= 1
            if not user.count:
                _set(spark, _IS_BOUND_TO_RETENTION, user.before)


def _set(spark: SparkSession, name: str, value: str | None) -> None:
    if value is None:
        spark.conf.unset(name)
    else:
        spark.conf.set(name, value)


def _lock_of(spark: SparkSession) -> threading.RLock:
    with _locks_guard:
        return _locks.setdefault(spark, threading.RLock())
