"""Find upsert tables, and check that their parts fit together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from ...core.delta.columns import Column
from ...core.delta.log_actions import TableState
from ...core.delta.table_snapshot import TableSnapshot
from ...core.errors import CdcError, InvalidRequest, StreamConflict, TableNotFound
from ...core.model.tables import Table
from ...core.names import TableName, name_key, table_name
from ...core.upserts.definition import (
    UpsertTable,
    is_reserved,
    is_upsert_table,
    with_properties,
)
from ...storage.delta.delta_log import DeltaLog, LogIncomplete
from ...storage.delta.table_snapshots import newest_snapshot
from ...storage.files.stores import Files
from ..tables.delta_tables import Tables
from ..tables.shown_views import ShownViews
from ..tables.sql_types import columns_of

"""The property of a view that names the base whose rows it shows."""


class UpsertTables:
    """Finds upsert tables by name."""

    def __init__(self, spark: SparkSession, tables: Tables, files: Files) -> None:
        self._spark = spark
        self._tables = tables
        self._files = files
        # The key is the id of a base. The columns are those for which its parts agreed.
        self._checked: dict[str, tuple[Column, ...]] = {}

    def get(self, name: str) -> UpsertTable:
        """The upsert table of that name.

        :raises TableNotFound: there is no such table
        :raises InvalidRequest: it is not an upsert table, its creation was not finished, or one of
            its parts was altered
        """
        found = self.whole(name)
        self._check_columns(found)
        return found

    def whole(self, name: str) -> UpsertTable:
        """Like :meth:`get`, but without the check of the columns of its parts."""
        found = self.find(name)
        # If the table of changes is missing, a write would create a wrong table there.
        if not DeltaLog(found.changes, self._files).is_begun:
            raise InvalidRequest(
                f"upsert table {name}",
                "is not complete",
                cause=f"expected the table of its changes at {found.changes}, found none",
                fix="call create_upsert_table again, with if_not_exists=True",
            )
        return found

    def confirm(self, table: UpsertTable) -> None:
        """Check that ``table`` still has the columns that it had when it was looked up.

        :raises StreamConflict: it has other columns
        """
        found = self.columns_at(table.location)
        if found != table.columns:
            raise StreamConflict(
                f"upsert table {table.name}",
                "was altered before its changes could be applied; nothing was applied",
                cause=f"it had {len(table.columns)} columns when it was looked up, and has"
                f" {len(found)} now",
                fix="apply again",
            )

    def snapshot(self, table: UpsertTable) -> TableSnapshot:
        """The newest version of the base of ``table``."""
        return newest_snapshot(table.location, self._files)

    def find(self, name: str) -> UpsertTable:
        """Like :meth:`whole`, but without a check of its other parts."""
        base = base_name(name)
        table = self._tables.find(base)
        if table is None:
            raise self._missing(name, base)
        return _described(name, table, self._state(table.location).metadata)

    def described(self, name: str, base: Table, metadata: Mapping[str, Any]) -> UpsertTable | None:
        """The upsert table ``name`` with that ``base``; ``None``: it is another kind of table.

        :param metadata: the ``metaData`` action of the base
        """
        return _described(name, base, metadata) if is_upsert_table(_properties(metadata)) else None

    def _missing(self, name: str, base: TableName) -> CdcError:
        """The error to raise if the ``base`` of the table ``name`` does not exist."""
        named = table_name(name)
        if named.path is not None:
            return TableNotFound(
                f"upsert table {name}",
                "does not exist",
                cause=f"expected an upsert table at {named.path}, found nothing there",
                fix="check the path, or create it with create_upsert_table",
            )
        is_there = self._spark.catalog.tableExists(named.sql)
        if is_there and not ShownViews(self._spark).is_view_of(named, base.sql):
            return InvalidRequest(
                f"table {name}",
                "is not an upsert table",
                cause=f"expected its rows in a table {base.sql}, found none",
                fix="write to it and read it with Spark, or create an upsert table under another"
                " name with create_upsert_table",
            )
        return TableNotFound(
            f"upsert table {name}",
            "does not exist",
            cause=f"expected its rows in a table {base.sql}, found none"
            + (", only its view is left" if is_there else ""),
            fix="drop the view, or create the table again with create_upsert_table"
            if is_there
            else "check the spelling and the session's current catalog and schema",
        )

    def columns_at(self, location: str) -> tuple[Column, ...]:
        """The columns of the Delta table at ``location`` that the engine does not reserve."""
        return _data_columns(self._state(location).metadata)

    def _state(self, location: str) -> TableState:
        return DeltaLog(location, self._files).newest_state()

    def _check_columns(self, table: UpsertTable) -> None:
        """Refuse a table if one of its parts was altered without the engine."""
        if self._checked.get(table.table_id) == table.columns:
            return
        try:
            found = self.columns_at(table.changes)
        except LogIncomplete:
            return  # A read of the changes reports what is missing.
        changes = {name_key(column.name): column.type for column in found}
        differing = [
            column.name
            for column in table.columns
            if changes.get(name_key(column.name)) != column.type
        ]
        if differing:
            raise InvalidRequest(
                f"upsert table {table.name}",
                "was altered without the engine",
                cause=f"its base {table.location} and its changes {table.changes} do not have the"
                f" same {', '.join(differing)}",
                fix="call add_columns with the columns of the base, which adds them to the other"
                " parts; or drop columns of the base with ALTER TABLE ... DROP COLUMN",
            )
        self._checked[table.table_id] = table.columns


def base_name(name: str) -> TableName:
    """The table that holds the rows of the upsert table ``name``.

    The name itself belongs to a view that does not show the engine's column. A table at a path has
    no view.

    :raises InvalidName: ``name`` is not the name of a table
    """
    found = table_name(name)
    if found.is_path:
        return found
    return TableName((*found.parts[:-1], f"{found.parts[-1]}__base"))


def _properties(metadata: Mapping[str, Any]) -> Mapping[str, str]:
    found: Mapping[str, str] = metadata.get("configuration") or {}
    return found


def _described(name: str, table: Table, metadata: Mapping[str, Any]) -> UpsertTable:
    columns = _data_columns(metadata)
    found = UpsertTable(name, base_name(name), table.location, metadata["id"], columns, ())
    return with_properties(found, _properties(metadata))


def _data_columns(metadata: Mapping[str, Any]) -> tuple[Column, ...]:
    """The columns that the engine does not reserve."""
    schema = StructType.fromJson(json.loads(metadata["schemaString"]))
    fields = [field for field in schema.fields if not is_reserved(field.name)]
    return columns_of(StructType(fields))
