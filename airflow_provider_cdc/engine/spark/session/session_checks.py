"""Checks whether the engine can work with a session."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakSet

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ...core.errors import UnsupportedEnvironment
from ...core.requirements import DELTA_PACKAGE, DELTA_SETTINGS, SPARK, check_settings, check_version

# A statement that only Delta knows, on a table that does not exist.
_PROBE = "DESCRIBE DETAIL delta.`/airflow_provider_cdc/no/table`"
_UNKNOWN_STATEMENT = "PARSE_SYNTAX_ERROR"
_NOT_LOADED = "DATA_SOURCE_NOT_FOUND"
# The client of Spark Connect logs each error of a server, also one that is expected.
_CLIENT_LOGGER = "pyspark.sql.connect.logging"
_checked: WeakSet[SparkSession] = WeakSet()


def check_session(spark: SparkSession) -> None:
    """Refuse a session of an older Spark, or without Delta; each session is checked once.

    :raises UnsupportedEnvironment: names what is missing, and what to set
    """
    if spark in _checked:
        return
    check_version(
        "Spark",
        spark.version,
        SPARK,
        "use a session of that release; over Spark Connect, the server has to be of that release",
    )
    check_settings({name: spark.conf.get(name, None) or "" for name in DELTA_SETTINGS})
    try:
        with _quiet_client():
            spark.sql(_PROBE).collect()
    except PySparkException as error:
        # Any other error comes from Delta: there is no such table.
        if (error.getCondition() or "").startswith((_UNKNOWN_STATEMENT, _NOT_LOADED)):
            raise UnsupportedEnvironment(
                "Spark session",
                "lacks Delta's jar",
                cause="expected a session that knows Delta's statements, found only its settings",
                fix=f"set spark.jars.packages={DELTA_PACKAGE} before the session starts, or create"
                " it with airflow_provider_cdc.engine.local_session()",
            ) from None
    _checked.add(spark)


@contextmanager
def _quiet_client() -> Iterator[None]:
    logger = logging.getLogger(_CLIENT_LOGGER)
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)
