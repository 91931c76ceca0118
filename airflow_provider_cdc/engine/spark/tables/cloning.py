"""Clones tables: finds the location of a clone, and checks the conditions for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import SparkSession

from ...core.delta.clones import check_apart, check_clonable, cloned_log
from ...core.delta.deletion_vectors import VectorFiles, is_vector_file
from ...core.delta.table_snapshot import TableSnapshot
from ...core.errors import InvalidRequest, NotADeltaTable, TableExists, TableNotFound
from ...core.model.tables import Table
from ...core.names import TableName, quote, spark_literal, table_name
from ...storage.delta.delta_log import DeltaLog, LogIncomplete
from ...storage.delta.table_snapshots import newest_snapshot
from ...storage.files.scratch import new_table_id
from ...storage.files.stores import Files
from ...storage.files.uris import encoded_uri, join
from ..session.session_settings import escaped_literals
from .delta_tables import Tables

_LOG = "_delta_log"


@dataclass(frozen=True, slots=True)
class Cloning:
    """Clones tables. A clone keeps the row ids of its source."""

    spark: SparkSession
    tables: Tables
    files: Files
    clock: Callable[[], datetime]

    def clone(self, source: str, target: str, location: str | None) -> int:
        """Clone a table; see ``Engine.clone_table``."""
        table = self.tables.get(table_name(source))
        wanted = table_name(target)
        root = _root(wanted, location)
        check_apart(_subject(wanted), encoded_uri(table.location), encoded_uri(root))
        self._check_free(wanted, root)
        snapshot = self._snapshot(table)
        check_clonable(f"table {table.name}", snapshot)
        # The clone's folder holds its deletion vectors, so that its VACUUM finds them. The engine
        # removes old files from the scratch folder.
        vectors = VectorFiles()
        log = cloned_log(snapshot, table.name, new_table_id(), self.clock(), vectors)
        written = self._write(root, vectors)
        # The new table's id makes the log unique.
        if not self.files.claim(join(root, _LOG, f"{0:020d}.json"), log):
            for uri in written:
                self.files.remove(uri)
            raise _taken(wanted, f"a table was created at {root} just now")
        if not wanted.is_path:
            with escaped_literals(self.spark):
                self.spark.sql(
                    f"CREATE TABLE {wanted.sql} USING delta LOCATION {spark_literal(root)}"
                )
        return snapshot.version

    def _write(self, root: str, vectors: VectorFiles) -> list[str]:
        written = []
        for name, content in vectors.contents():
            written.append(join(root, name))
            self.files.write(written[-1], content)
        return written

    def _snapshot(self, table: Table) -> TableSnapshot:
        try:
            return newest_snapshot(table.location, self.files)
        except LogIncomplete as error:
            raise InvalidRequest(
                f"table {table.name}",
                "cannot be cloned",
                cause=f"its log lacks version {error.missing_version}, and no checkpoint holds it",
                fix="repair its log, or restore the table from a copy",
            ) from None

    def _check_free(self, wanted: TableName, root: str) -> None:
        if not wanted.is_path:
            self._check_name(wanted)
        names = set(self.files.names(root)) if self.files.exists(root) else set()
        # A clone that was interrupted leaves a log without commits, and deletion vectors.
        others = {name for name in names - {_LOG} if not is_vector_file(name)}
        if others or (names and self._has_commits(root)):
            raise _taken(
                wanted, f"expected no folder {root} or an empty one, found {sorted(names)}"
            )

    def _has_commits(self, root: str) -> bool:
        try:
            DeltaLog(root, self.files).listing()
        except NotADeltaTable:
            return False
        return True

    def _check_name(self, wanted: TableName) -> None:
        schema = wanted.parts[:-1]
        if schema and not self.spark.catalog.databaseExists(".".join(map(quote, schema))):
            raise TableNotFound(
                _subject(wanted),
                "cannot be created",
                cause=f"expected a schema {'.'.join(schema)}, found none",
                fix="create that schema, or name another one",
            )
        if self.spark.catalog.tableExists(wanted.sql):
            raise _taken(wanted, "a table or a view has that name")


def _root(wanted: TableName, location: str | None) -> str:
    """The path of the clone ``wanted``."""
    given = None if location is None else table_name(location).path
    path = wanted.path if wanted.is_path else given
    if path is None or (wanted.is_path and location is not None):
        raise InvalidRequest(
            _subject(wanted),
            "cannot be created",
            cause="expected one path, as target or as location of a target in the catalog,"
            f" found the location {location!r}",
            fix='call clone_table(source, "/a/path") or clone_table(source, "schema.name",'
            ' location="/a/path")',
        )
    return path.rstrip("/")


def _subject(wanted: TableName) -> str:
    return f"table {wanted.sql}"


def _taken(wanted: TableName, cause: str) -> TableExists:
    return TableExists(
        _subject(wanted),
        "cannot be created",
        cause=cause,
        fix="choose another name and another path, or first drop what exists there",
    )
