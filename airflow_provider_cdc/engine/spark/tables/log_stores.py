"""Checks whether the store of a table's log lets one driver overwrite the commit of another."""

from __future__ import annotations

import logging

from pyspark.sql import SparkSession

from ... import log_store

log = logging.getLogger(__name__)

_OF_ONE_DRIVER = ("s3", "s3a", "s3n")
_OF_ALL = "spark.delta.logStore.class"
_warned: set[str] = set()


def warn_of_one_driver(spark: SparkSession, location: str) -> None:
    """Warn once for each scheme if Delta would write the log of ``location`` through a store that
    separates only the drivers of one JVM. Delta does so on S3 unless another store is configured.
    Whether that other store separates drivers is up to the user.

    Fences and application ids work only if each version of a log is written once. Otherwise a
    driver that was given up but still runs can overwrite the commit of the next driver.
    """
    scheme = location.partition(":")[0]
    if scheme not in _OF_ONE_DRIVER or scheme in _warned:
        return
    setting = f"spark.delta.logStore.{scheme}.impl"
    if spark.conf.get(setting, None) or spark.conf.get(_OF_ALL, None):
        return
    _warned.add(scheme)
    log.warning(
        "Table %s: two drivers may write the same version of its log. Then changes of one of them"
        " may be lost or applied twice. Cause: Delta's default log store for %s:// separates only"
        " the drivers of one JVM. Fix: start Spark with the jar that airflow_provider_cdc.engine"
        ".log_store.jar() names and with %s=%s; or let only one driver at a time write to it, and"
        " make sure that the driver of a killed task has ended before its retry.",
        location,
        scheme,
        setting,
        log_store.CLASS,
    )
