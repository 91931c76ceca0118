"""Finds the Delta table of a name or a path."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from ...core.delta.table_features import check_readable
from ...core.errors import InvalidName, InvalidRequest, NotADeltaTable, TableNotFound
from ...core.model.sources import Offset
from ...core.model.tables import Table
from ...core.names import TableName, quote, spark_literal, stream_name
from ...storage.delta.delta_log import DeltaLog, LogIncomplete
from ...storage.files.schemes import read_allowed
from ...storage.files.stores import Files
from ...storage.sources.source_log import SourceLog
from ..session.failures import first_line, protocol_refusal
from ..session.session_settings import escaped_literals

_CONVERT = "name a Delta table, or convert it with CONVERT TO DELTA"
_VIEW = "for a stream on a view, pass on_view; otherwise name a Delta table"
_OTHER = (
    "name a Delta table, such as one that CREATE TABLE ... USING delta AS creates; for a stream on"
    " a folder of files, pass on_files"
)
_CONVERTED = ("parquet", "iceberg")
_PARQUET = ".parquet"
_CUT_OFF = (
    "name another path; or remove that folder, if it holds only the remains of an interrupted"
    " attempt to create a table"
)
# The folders that a refused creation of a table leaves at a path.
_EMPTY_LOG = ("_delta_log", "_staged_commits")
_MISSING = ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND", "DELTA_TABLE_NOT_FOUND")


class Tables:
    """Resolves tables through Spark's catalog; paths need no catalog."""

    def __init__(self, spark: SparkSession, files: Files) -> None:
        self._spark = spark
        self._files = files

    def find(self, name: TableName) -> Table | None:
        """The Delta table ``name``; ``None``: there is no such table.

        :raises NotADeltaTable: something else has that name
        :raises InvalidRequest: this Delta or this process cannot read it
        """
        if name.path is not None:
            return self._at_path(name, name.path)
        with _named_refusal(name.sql):
            try:
                detail = self._spark.sql(f"DESCRIBE DETAIL {name.sql}").first()
            except AnalysisException as error:
                condition = error.getCondition() or ""
                if condition.startswith(_MISSING):
                    return None
                found = condition or first_line(error)
                raise _not_delta(name, found, _VIEW if "VIEW" in condition else _OTHER) from None
        if detail is None or detail["format"] != "delta":
            kind = str(detail["format"]) if detail else "unknown"
            fix = _CONVERT if kind in _CONVERTED else _OTHER
            raise _not_delta(name, f"its format is {kind}", fix)
        return Table(name.sql, name.sql, detail["location"])

    def get(self, name: TableName) -> Table:
        """The Delta table ``name``.

        :raises TableNotFound: there is no such table
        :raises NotADeltaTable: something else has that name
        """
        table = self.find(name)
        if table is None:
            raise _missing(name)
        return table

    def check_free(self, name: str) -> None:
        """Refuse the name of a stream if a table or a view of the session's schema has it: a
        statement could mean either.

        :raises InvalidName: it is not a valid name of a stream, or is taken
        """
        if self._spark.catalog.tableExists(quote(stream_name(name))):
            raise InvalidName(
                f"stream name {name!r}",
                "is taken",
                cause="a table or a view in the current schema has that name",
                fix="choose another name, or another current schema",
            )

    def set_properties(self, table: str, properties: Mapping[str, str | None]) -> None:
        """Set table properties that the engine chooses, and unset those that are ``None``.

        :param table: its name as SQL
        :raises InvalidRequest: Delta does not write to a table with these features
        """
        given = {name: value for name, value in properties.items() if value is not None}
        unset = [spark_literal(name) for name, value in properties.items() if value is None]
        with escaped_literals(self._spark), _named_refusal(table):
            if given:
                self._spark.sql(f"ALTER TABLE {table} SET {table_properties(given)}")
            if unset:
                self._spark.sql(
                    f"ALTER TABLE {table} UNSET TBLPROPERTIES IF EXISTS ({', '.join(unset)})"
                )

    def create_at(
        self, location: str, columns: Sequence[str], properties: Mapping[str, str]
    ) -> None:
        """Create a Delta table at ``location`` if no table exists there.

        :param columns: the columns, as SQL
        """
        if DeltaLog(location, self._files).is_begun:
            return
        self.remove_unfinished(location)
        self._spark.sql(
            f"CREATE TABLE IF NOT EXISTS delta.{quote(location)} ({', '.join(columns)})"
            f" USING delta {table_properties(properties)}"
        )

    def remove_unfinished(self, path: str | None) -> None:
        """Remove what a killed creation left at a path.

        :param path: the path of the table; ``None``: it has a name in the catalog
        """
        if path is not None:
            DeltaLog(path.rstrip("/"), self._files).remove_unfinished()

    def creation_mark(self, table: Table) -> str | None:
        """The user metadata of the commit that created the table; ``None``: it has no user
        metadata, or the commit is missing.
        """
        try:
            return DeltaLog(table.location, self._files).commit(0).user_metadata
        except LogIncomplete:
            return None

    def newest_offset(self, table: Table) -> Offset:
        """The offset at the table's newest version.

        :raises InvalidRequest: the log does not show all changes of the table to this engine
        """
        found = SourceLog(self._files).newest_offset(table.location)
        check_readable(f"table {table.name}", "cannot be read by its log", found.protocol)
        return found

    def _at_path(self, name: TableName, path: str) -> Table | None:
        root = path.rstrip("/")
        with read_allowed(root):
            if DeltaLog(root, self._files).is_begun:
                return Table(name.sql, name.sql, root)
            found = self._left(root, _EMPTY_LOG) or self._left(f"{root}/_delta_log", _EMPTY_LOG)
        if found:
            fix = _CONVERT if any(each.endswith(_PARQUET) for each in found) else _OTHER
            if self._files.exists(f"{root}/_delta_log"):
                fix = _CUT_OFF
            raise _not_delta(name, f"{found[0]}, and no commit in a folder _delta_log", fix)
        return None

    def _left(self, folder: str, names: Collection[str]) -> list[str]:
        """What a folder holds besides ``names``; empty if there is no folder."""
        try:
            return [name for name in self._files.names(folder) if name not in names]
        except FileNotFoundError:
            return []


def table_properties(given: Mapping[str, str]) -> str:
    """``TBLPROPERTIES (...)`` as SQL; needs ``escaped_literals`` if a value may hold a quote."""
    pairs = (f"{spark_literal(name)} = {spark_literal(value)}" for name, value in given.items())
    return f"TBLPROPERTIES ({', '.join(pairs)})"


def _missing(name: TableName) -> TableNotFound:
    if name.is_path:
        return TableNotFound(
            f"table {name.sql}",
            "does not exist",
            cause=f"expected a Delta table at {name.path}, found nothing there",
            fix="check the path: this process and Spark must reach the table under the same path",
        )
    return TableNotFound(
        f"table {name.sql}",
        "does not exist",
        cause="expected a Delta table of that name, found none",
        fix="check the spelling and the session's current catalog and schema",
    )


@contextmanager
def _named_refusal(table: str) -> Iterator[None]:
    """Report that Delta does not support a feature of ``table``.

    :raises InvalidRequest: Delta refused the table because of its protocol
    """
    try:
        yield
    except Exception as error:  # pyspark has no classes for errors of the JVM
        cause = protocol_refusal(error)
        if cause is None:
            raise
        raise InvalidRequest(
            f"table {table}",
            "cannot be used by this Delta",
            cause=cause,
            fix="remove that feature with ALTER TABLE ... DROP FEATURE, or run a release of Delta"
            " that knows it",
        ) from error


def _not_delta(name: TableName, found: str, fix: str) -> NotADeltaTable:
    return NotADeltaTable(
        f"table {name.sql}",
        "is not a Delta table",
        cause=f"expected the format delta, found: {found}",
        fix=fix,
    )
