"""Checks that Spark's driver and executors reach the same state folder."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from pyspark.sql import SparkSession

from ...core.findings import Finding
from ...storage.files.stores import Files
from ...storage.files.uris import join
from ...storage.state.folder_checks import PROBE, folder_finding

_DRIVER, _EXECUTORS = "state folder from the driver", "state folder from the executors"


def reached(state: str, spark: SparkSession, files: Files) -> tuple[Finding, ...]:
    """Check that the driver and the executors of ``spark`` read and write the same state folder.

    :param files: the store of the state folder as the driver reaches it
    """
    return (
        Finding("Spark session", f"version {spark.version}"),
        _made(_DRIVER, lambda: folder_finding(state, files, _DRIVER)),
        _made(_EXECUTORS, lambda: _executors(state, spark, files)),
    )


def _executors(state: str, spark: SparkSession, files: Files) -> Finding:
    probe = join(state, f"{PROBE}{uuid.uuid4().hex}")
    try:
        spark.range(1).write.parquet(probe)
        count = spark.read.parquet(probe).count()
        is_seen = files.exists(probe)
    finally:
        if files.exists(probe):
            files.remove_table(probe)
    if count == 1 and is_seen:
        return Finding(_EXECUTORS, f"{state} can be read and written")
    return Finding(
        _EXECUTORS,
        f"the driver does not see what the executors wrote to {state}",
        "let both reach the same folder by this name: the same store and endpoint, or the same"
        " mount on each machine",
    )


def _made(subject: str, check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except Exception as error:
        # The text of a store's error may hold an address with a token.
        return Finding(
            subject,
            f"cannot be read and written ({type(error).__name__})",
            "check the address and the credentials: storage_options for the driver, secret_conf and"
            " conf for the executors",
        )
