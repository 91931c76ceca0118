"""The Delta tables of archives: finding, creating and altering them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import SparkSession

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
from ...core.archives.evolution import columns_of, evolution
from ...core.archives.foreign_changes import ForeignChanges
from ...core.delta.table_schema import MAPPING_MODE, Layout
from ...core.errors import InvalidRequest
from ...core.model.stream import Stream
from ...core.model.tables import Table
from ...core.names import TableName, quote
from ...storage.delta.commit_times import CommitTimes
from ...storage.delta.delta_log import DeltaLog, LogIncomplete
from ...storage.files.stores import Files
from ..change_sets.columns import spark_fields
from ..session.session_settings import escaped_literals
from ..tables.altering import Altered, alter, needs_mapping, refused_by_spark
from ..tables.delta_tables import Tables, table_properties
from ..tables.sql_types import sql_type

_APPEND_ONLY = "delta.appendOnly"


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
        if needs_mapping(fields):
            given[MAPPING_MODE] = "name"
        self.tables.remove_unfinished(name.path)
        with escaped_literals(self.spark), refused_by_spark(subject):
            self.spark.sql(
                f"CREATE TABLE {name.sql} ({', '.join(columns)}) USING delta"
                f" PARTITIONED BY ({COMMIT_DATE}) {table_properties(given)}"
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
            alter(self.spark, self.tables, self.files, _altered(archive), step)
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

    def _set(self, archive: Archive, properties: Mapping[str, str]) -> None:
        with refused_by_spark(archive.subject):
            self.tables.set_properties(archive.sql, properties)


def _altered(archive: Archive) -> Altered:
    return Altered(archive.subject, archive.sql, archive.location)


def _check_columns(subject: str, layout: Layout) -> None:
    taken: str | None = reserved(layout.column_names)
    if taken is not None:
        raise InvalidRequest(
            subject,
            "cannot have the columns of its source",
            cause=f"the source has a column {taken}, and every archive has a column of that name",
            fix="rename that column of the source",
        )
