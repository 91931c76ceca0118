"""The Delta tables of archives: finding, creating and altering them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructField, StructType, TimestampNTZType

from ...core.archives.definition import (
    ARCHIVE_COLUMNS,
    COMMIT_DATE,
    STREAM,
    STREAM_ID,
    Archive,
    Era,
    identity,
    reserved,
)
from ...core.archives.evolution import Add, Rename, Step, Widen, columns_of, evolution
from ...core.archives.foreign_changes import ForeignChanges
from ...core.delta.table_schema import MAPPING_MODE, Layout
from ...core.errors import InvalidRequest, StreamConflict
from ...core.model.stream import Stream
from ...core.model.tables import Table
from ...core.names import TableName, quote
from ...storage.delta.commit_times import CommitTimes
from ...storage.delta.delta_log import DeltaLog, LogIncomplete
from ...storage.files.stores import Files
from ..change_sets.columns import parts_of, spark_fields
from ..session.failures import first_line, has_ended
from ..session.session_settings import escaped_literals
from ..tables.delta_tables import Tables, table_properties
from ..tables.sql_types import sql_type

_APPEND_ONLY = "delta.appendOnly"
_TYPE_WIDENING = "delta.enableTypeWidening"
_NTZ_FEATURE = "delta.feature.timestampNtz"
# How Delta's error conditions for concurrent commits begin.
_CONCURRENT = "DELTA_CONCURRENT_"


@dataclass(frozen=True, slots=True)
class ArchiveTables:
    """The archives of one session."""

    spark: SparkSession
    tables: Tables
    files: Files

    def find(self, name: TableName) -> Archive | None:
        """The archive of that name; ``None``: there is no table of that name.

        :raises InvalidRequest: the table is not an archive
        """
        table = self.tables.find(name)
        if table is None:
            return None
        archive = self._at(table)
        if archive is None:
            raise InvalidRequest(
                f"table {table.name}",
                "is not an archive",
                cause="archive_changes did not create it",
                fix="name another table; archive_changes creates it",
            )
        return archive

    def get(self, name: TableName) -> Archive:
        """The archive of that name.

        :raises TableNotFound: there is no such table
        :raises InvalidRequest: the table is not an archive
        """
        found = self.find(name)
        if found is None:
            self.tables.get(name)
            raise AssertionError(f"{name.sql} appeared meanwhile")
        return found

    def create(self, name: TableName, stream: Stream) -> Archive:
        """Create the archive that ``stream`` fills.

        :raises InvalidRequest: the source has a column of an archive, or Spark refuses the name or
            a type
        """
        subject, layout = f"archive {name.sql}", Layout.of(stream.offset.metadata)
        _check_columns(subject, layout)
        columns = [f"{quote(column)} {kind}" for column, kind in ARCHIVE_COLUMNS.items()]
        fields = spark_fields(layout.fields)
        columns.extend(f"{quote(field.name)} {sql_type(field.dataType)}" for field in fields)
        begun = CommitTimes(self._log_of(stream)).of_offset(stream.offset)
        given = {_APPEND_ONLY: "true", **identity(stream, begun)}
        if _needs_mapping(fields):
            given[MAPPING_MODE] = "name"
        with escaped_literals(self.spark):
            self._run(
                subject,
                f"CREATE TABLE {name.sql} ({', '.join(columns)}) USING delta"
                f" PARTITIONED BY ({COMMIT_DATE}) {table_properties(given)}",
            )
        return self.begun(self.get(name), stream)

    def begun(self, archive: Archive, stream: Stream) -> Archive:
        """The archive with its first era; a killed call may have left it without."""
        if archive.eras:
            return archive
        offset = stream.offset
        return self._with_era(
            archive, offset.metadata, 0, max(offset.version, 0), archive.after_timestamp
        )

    def evolve(
        self,
        archive: Archive,
        metadata: Mapping[str, Any],
        origin: int,
        version: int,
        timestamp: datetime,
    ) -> Archive:
        """Begin a new era: let the archive hold rows of a source with this ``metaData`` action.

        :param origin: the index of the era whose columns it took over
        :param version: the version of the source that has it
        :param timestamp: the time of that version
        :raises InvalidRequest: the source has a column of an archive, or Spark refuses a type
        """
        layout = Layout.of(metadata)
        _check_columns(archive.subject, layout)
        for step in evolution(archive, origin, layout, version):
            self._apply(archive, step)
        return self._with_era(self._again(archive), metadata, origin, version, timestamp)

    def _with_era(
        self,
        archive: Archive,
        metadata: Mapping[str, Any],
        origin: int,
        version: int,
        timestamp: datetime,
    ) -> Archive:
        layout = Layout.of(metadata)
        era = Era(version, timestamp, origin, layout, columns_of(archive, layout))
        key, value = era.as_property(metadata)
        self._set(archive, {key: value})
        return self._again(archive)

    def _log_of(self, stream: Stream) -> DeltaLog:
        return DeltaLog(stream.source.location, self.files)

    def adopt(self, archive: Archive, stream: str, stream_id: str) -> Archive:
        """Record that another stream fills the archive from now on."""
        self._set(archive, {STREAM: stream, STREAM_ID: stream_id})
        return self._again(archive)

    def check_untouched(self, archive: Archive) -> None:
        """Refuse an archive to which somebody else wrote after the last own write.

        :raises InvalidRequest: names the version
        """
        log, found = DeltaLog(archive.location, self.files), ForeignChanges()
        newest = log.listing().latest_version
        # Older commits may be cleaned up. Then nothing was archived for a long time.
        with suppress(LogIncomplete):
            for commit in log.newest_first(after=-1, through=newest):
                if not found.take(commit):
                    break
        if found.version is not None:
            raise InvalidRequest(
                archive.subject,
                "was changed by hand",
                cause=f"version {found.version} ({found.operation}) changed rows, and"
                " archive_changes did not write it",
                fix=f"switch {_APPEND_ONLY} off, RESTORE TABLE {archive.sql} TO VERSION AS OF"
                f" {found.restorable}, and switch it on again",
            )

    def _again(self, archive: Archive) -> Archive:
        found = self._at(archive)
        assert found is not None
        return found

    def _at(self, table: Table | Archive) -> Archive | None:
        metadata = DeltaLog(table.location, self.files).newest_state().metadata
        return Archive.of(table.name, table.sql, table.location, metadata)

    def _apply(self, archive: Archive, step: Step) -> None:
        match step:
            case Rename(column, name):
                self._map(archive)
                change = f"RENAME COLUMN {quote(column)} TO {quote(name)}"
            case Add(path, kind):
                field = _field(path[-1], kind)
                if _needs_mapping([field]):
                    self._map(archive)
                self._allow(archive, field.dataType)
                place = ".".join(map(quote, path))
                change = f"ADD COLUMNS ({place} {sql_type(field.dataType)})"
            case Widen(column, kind):
                self._set(archive, {_TYPE_WIDENING: "true"})
                wider = _field(column, kind).dataType
                self._allow(archive, wider)
                change = f"ALTER COLUMN {quote(column)} TYPE {sql_type(wider)}"
        self._run(archive.subject, f"ALTER TABLE {archive.sql} {change}")

    def _map(self, archive: Archive) -> None:
        """Let columns have any name, and another one later."""
        if not self._again(archive).layout.is_mapped:
            self._set(archive, {MAPPING_MODE: "name"})

    def _allow(self, archive: Archive, kind: DataType) -> None:
        """Switch on what a type needs; a new table has it by itself."""
        if any(isinstance(part, TimestampNTZType) for part in parts_of(kind)):
            self._set(archive, {_NTZ_FEATURE: "supported"})

    def _run(self, subject: str, statement: str) -> None:
        with _refused_by_spark(subject):
            self.spark.sql(statement)

    def _set(self, archive: Archive, properties: Mapping[str, str]) -> None:
        with _refused_by_spark(archive.subject):
            self.tables.set_properties(archive.sql, properties)


@contextmanager
def _refused_by_spark(subject: str) -> Iterator[None]:
    """Turn Spark's refusal to create or alter an archive into an error of the engine.

    :raises StreamConflict: another call altered it at the same time
    :raises InvalidRequest: Spark cannot do it
    """
    try:
        yield
    except Exception as error:  # pyspark has no classes for errors of the JVM
        if not has_ended(error):
            raise
        cause = first_line(error)
        if _CONCURRENT in cause:
            raise StreamConflict(
                subject,
                "was altered at the same time by another call",
                cause=cause,
                fix="run one call at a time",
            ) from error
        raise InvalidRequest(
            subject,
            "cannot have the columns of its source",
            cause=cause,
            fix="give the archive a name or a path that Spark can write, and change the type"
            " of a column that Delta cannot store",
        ) from error


def _needs_mapping(fields: Iterable[StructField]) -> bool:
    """Whether only a table with column mapping may have columns with these names."""
    names = StructType([*fields])
    found = (
        name for part in parts_of(names) if isinstance(part, StructType) for name in part.names
    )
    return any(character in name for name in found for character in " ,;{}()\n\t=")


def _field(name: str, kind: Any) -> StructField:
    """A column whose type is in the JSON form of schemas."""
    return spark_fields([{"name": name, "type": kind, "nullable": True, "metadata": {}}])[0]


def _check_columns(subject: str, layout: Layout) -> None:
    taken: str | None = reserved(layout.column_names)
    if taken is not None:
        raise InvalidRequest(
            subject,
            "cannot have the columns of its source",
            cause=f"the source has a column {taken}, and every archive has a column of that name",
            fix="rename that column of the source",
        )
