"""RESTORE of plain tables by delta-rs, in milliseconds: a commit like the one that Spark makes in
seconds.
"""

from __future__ import annotations

from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import DeltaError

from airflow_provider_cdc.engine.spark.consumption.targets import Targets

by_spark = Targets._restore
# Up to this writer version, delta-rs writes the commits of a table as Delta does.
_PLAIN = 2


def restore(targets: Targets, location: str, version: int, mark: str) -> None:
    """Undo as ``Targets._restore`` does; by Spark if the table has features or files are missing.

    :param mark: the user metadata of the commit
    """
    table = DeltaTable(location)
    if table.protocol().min_writer_version > _PLAIN:
        by_spark(targets, location, version, mark)
        return
    try:
        table.restore(
            version, commit_properties=CommitProperties(custom_metadata={"userMetadata": mark})
        )
    except DeltaError:
        by_spark(targets, location, version, mark)
