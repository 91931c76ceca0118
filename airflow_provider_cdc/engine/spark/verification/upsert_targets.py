"""Upsert tables as targets of checks."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from ...core.arguments.one_or_several import one_or_several
from ...core.errors import InvalidRequest, StreamConflict
from ...core.model.sources import Offset
from ...core.model.tables import Table
from ...core.names import name_key, table_name
from ...core.upserts.definition import UpsertTable
from ..consumption.keyed_targets import KeyedTarget
from ..tables.delta_tables import Tables
from ..upserts.upsert_streams import UpsertStreams
from ..upserts.upsert_tables import UpsertTables, base_name


class UpsertTargets:
    """Finds upsert tables by the names of targets."""

    def __init__(
        self, spark: SparkSession, tables: Tables, found: UpsertTables, streams: UpsertStreams
    ) -> None:
        self._spark = spark
        self._tables = tables
        self._found = found
        self._streams = streams

    def table(self, name: str) -> Table:
        """The Delta table of a target: the base of an upsert table, or the target itself.

        :raises TableNotFound: there is no such table
        """
        named, based = table_name(name), base_name(name)
        base = None if named == based else self._tables.find(based)
        if base is not None and self.find(name, base, self._tables.newest_offset(base)):
            return base
        return self._tables.get(named)

    def find(self, name: str, table: Table, newest: Offset) -> UpsertTable | None:
        """The upsert table with that name or path; ``None``: the target is another kind of table.

        :param table: the Delta table of the target
        :param newest: its newest version
        """
        return self._found.described(name, table, newest.metadata)

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

    def keyed(
        self, table: UpsertTable, base: Table, key: str | Collection[str] | None
    ) -> KeyedTarget:
        """The data columns of ``table``, identified by its primary key.

        :param key: the primary key, or ``None``
        :raises InvalidRequest: another key
        """
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
        schema = self._spark.read.format("delta").load(base.location).schema
        columns = StructType([schema[column.name] for column in table.columns])
        return KeyedTarget(base, columns, names, "verified")
