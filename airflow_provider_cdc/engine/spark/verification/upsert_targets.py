"""Upsert tables as targets of checks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from ...core.arguments.one_or_several import one_or_several
from ...core.errors import InvalidRequest, StreamConflict
from ...core.model.tables import Table
from ...core.names import name_key
from ...core.upserts.definition import UpsertTable
from ..consumption.keyed_targets import KeyedTarget
from ..tables.delta_tables import Tables
from ..upserts.upsert_streams import UpsertStreams
from ..upserts.upsert_tables import UpsertTables, base_name


@dataclass(frozen=True, slots=True)
class UpsertTarget:
    """An upsert table, and its base as a Delta table."""

    table: UpsertTable
    base: Table


class UpsertTargets:
    """Finds upsert tables by the names of targets."""

    def __init__(
        self, spark: SparkSession, tables: Tables, found: UpsertTables, streams: UpsertStreams
    ) -> None:
        self._spark = spark
        self._tables = tables
        self._found = found
        self._streams = streams

    def find(self, name: str) -> UpsertTarget | None:
        """The upsert table with that name or path; ``None``: the target is another table."""
        base = self._tables.find(base_name(name))
        table = None if base is None else self._found.described(name, base)
        return None if base is None or table is None else UpsertTarget(table, base)

    def check_applied(self, table: UpsertTable) -> None:
        """Refuse a table with changes that are not applied yet.

        :raises StreamConflict: changes wait
        :raises StreamStale: the waiting changes can no longer be determined
        """
        status = self._streams.status(table, self._streams.get(table))
        if status.behind_since is None:
            return
        raise StreamConflict(
            f"target {table.name}",
            "cannot be compared with its source now",
            cause=f"changes written since {status.behind_since:%Y-%m-%d %H:%M:%S} UTC wait to be"
            " applied",
            fix="run apply_upserts, or run the check when its DAG has applied them",
        )

    def keyed(self, target: UpsertTarget, key: str | Collection[str] | None) -> KeyedTarget:
        """The data columns of ``target``, identified by its primary key.

        :param key: the primary key, or ``None``
        :raises InvalidRequest: another key
        """
        table = target.table
        names = table.primary_key
        subject = f"target {table.name}"
        given = names if key is None else one_or_several(subject, "key", key)
        if set(map(name_key, given)) != set(map(name_key, names)):
            raise InvalidRequest(
                subject,
                "cannot be verified by this key",
                cause=f"expected its primary key {', '.join(names)}, found {', '.join(given)}",
                fix="leave out the key",
            )
        schema = self._spark.read.format("delta").load(target.base.location).schema
        columns = StructType([schema[column.name] for column in table.columns])
        return KeyedTarget(target.base, columns, names, "verified")
