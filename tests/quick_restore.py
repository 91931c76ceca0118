"""RESTORE of plain tables by delta-rs, in milliseconds: a commit like the one that Spark makes in
seconds.
"""

from __future__ import annotations

import delta_rs
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from airflow_provider_cdc.engine.spark.consumption.statement_writer import SparkWriter

by_spark = SparkWriter.restore
# Up to this writer version, delta-rs writes the commits of a table as Delta does.
_PLAIN = 2


def restore(writer: SparkWriter, location: str, version: int, mark: str) -> None:
    """Restore as Spark does; by Spark itself if the table has features or files are missing.

    :param mark: the user metadata of the commit
    """
    table = DeltaTable(location)
    if table.protocol().min_writer_version > _PLAIN:
        by_spark(writer, location, version, mark)
        return
    try:
        delta_rs.restore(table, version, mark)
    except DeltaError:
        by_spark(writer, location, version, mark)
