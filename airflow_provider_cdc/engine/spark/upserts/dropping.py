"""Drop upsert tables, and finish drops that were killed."""

from __future__ import annotations

from pyspark.sql import SparkSession

from ...core.names import table_name
from ...core.upserts.definition import UpsertTable
from ...storage.files.stores import Files
from .upsert_tables import base_name

# This file below a base marks a drop that is not finished.
_DROPPING = "_cdc/dropping"
# The other entries of the engine below ``_cdc``.
_OWN = frozenset({"changes", "quarantine", "deletes", "upkeep"})


class Dropping:
    """Drops upsert tables."""

    def __init__(self, spark: SparkSession, files: Files) -> None:
        self._spark = spark
        self._files = files

    def drop(self, table: UpsertTable) -> None:
        """Drop the view and the base of ``table``. If the table is at a path, remove its files."""
        if table.base.is_path:
            self._files.write(f"{table.location}/{_DROPPING}", b"")
            self._files.remove_log(table.location)
            self._remove_rest(table.location)
            return
        self._spark.sql(f"DROP VIEW IF EXISTS {table_name(table.name).sql}")
        self._spark.sql(f"DROP TABLE IF EXISTS {table.base.sql}")

    def is_half_dropped(self, name: str) -> bool:
        """Whether a path holds only the leftovers of a killed :meth:`drop`, and of other work that
        was done on the table at the same time.
        """
        path = base_name(name).path
        if path is None or not self._files.exists(f"{path}/_cdc"):
            return False
        log = f"{path}/_delta_log"
        names = self._files.names(log) if self._files.exists(log) else []
        if any(entry.endswith(".json") for entry in names):
            return False
        if self._files.exists(f"{path}/{_DROPPING}"):
            return True
        # The engine must not remove another folder of that name, or anything next to it.
        is_alone = {*self._files.names(path)} <= {"_cdc", "_delta_log"}
        return is_alone and {*self._files.names(f"{path}/_cdc")} <= _OWN

    def remove_rest(self, name: str) -> None:
        """Remove the leftovers of a drop at a path."""
        path = base_name(name).path
        if path is not None:
            self._remove_rest(path)

    def _remove_rest(self, path: str) -> None:
        """Remove everything at ``path``. The mark of the drop is removed last."""
        own, _, mark = _DROPPING.partition("/")
        self._files.remove_all_but(path, own)
        self._files.remove_all_but(f"{path}/{own}", mark)
        self._files.remove(path)
