"""Folders of files as sources of streams: checks the request, and finds the columns."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrameReader, SparkSession
from pyspark.sql.types import StructType

from ...core.delta.file_paths import folder_uri, path_key
from ...core.errors import InvalidRequest
from ...core.folders.file_options import (
    CORRUPT_RECORD,
    file_options,
    has_headers,
    option,
    whole_rows,
)
from ...core.folders.folder_log import FolderState
from ...core.model.sources import Base, FileFormat, Folder, Source
from ...storage.files.csv_heads import BrokenHead
from ...storage.files.stores import Files
from ...storage.files.uris import join
from ...storage.sources.folder_logs import FolderLogs, log_location
from ...storage.sources.source_log import SourceLog
from ..change_sets.file_headers import headers
from ..session.failures import reason
from .found_sources import FoundSource

_FILES_TO_INFER_FROM = 1000
_CORRUPT_RECORD_OF_THE_SESSION = "spark.sql.columnNameOfCorruptRecord"
_NO_COLUMNS = "expected columns, found none"
_IS_CHAR = "UNSUPPORTED_CHAR_OR_VARCHAR_AS_STRING"
_IS_BROKEN = "FAILED_READ_FILE"


@dataclass(frozen=True, slots=True)
class FileSources:
    """Opens folders for new streams.

    :param state: the state folder, below which the listings are kept
    """

    spark: SparkSession
    state: str
    files: Files
    logs: FolderLogs
    sources: SourceLog

    def open(
        self,
        subject: str,
        path: str,
        file_format: str | None,
        options: Mapping[str, Any] | None,
        schema: str | None,
    ) -> FoundSource:
        """List the folder ``path`` and find its columns.

        :param schema: the columns in DDL; ``None``: Spark infers them from the newest files
        :raises InvalidRequest: Spark cannot read these files in this way, or there are no files to
            infer the columns from
        :raises StreamUnusable: there is no such folder
        """
        uri = folder_uri(path)
        self._check_place(subject, uri)
        kind = _format(subject, file_format)
        known = file_options(subject, kind, options)
        folder = Folder(uri, kind, known.reader, "", known.name_glob)
        location = log_location(self.state, uri, known.name_glob)
        state = self.logs.open(location, folder)
        columns = self._columns(subject, folder, state, schema)
        offset = self.sources.newest_offset(location)
        source = Source(uri, location, offset.table_id)
        folder = replace(folder, schema=columns.json(), options=self._options(folder, columns))
        return FoundSource((Base(source, offset),), (), None, folder)

    def _check_place(self, subject: str, uri: str) -> None:
        """Refuse a Delta table, and a folder that contains the state folder: a stream would return
        the wrong files.
        """
        cause = None
        if f"{path_key(self.state)}/".startswith(f"{path_key(uri)}/"):
            cause = "the state folder is in it, and every check of the stream writes a file there"
        elif self.files.exists(join(uri, "_delta_log")):
            cause = "it is a Delta table, whose log lists the files that belong to it"
        if cause is not None:
            raise InvalidRequest(
                subject,
                f"cannot be on the files of {uri}",
                cause=cause,
                fix="name another folder, or name a table with on_table",
            )

    def _columns(
        self, subject: str, folder: Folder, state: FolderState, schema: str | None
    ) -> StructType:
        files = sorted(state.files.values(), key=lambda file: file.modified_ns, reverse=True)
        if schema is None and not files:
            raise InvalidRequest(
                subject,
                "has no columns",
                cause=f"expected files in {folder.uri} to infer them from, found none",
                fix='pass file_schema, such as "id INT, name STRING"',
            )
        if schema is not None and not schema.strip():
            raise _refused(subject, folder, _NO_COLUMNS, "")
        paths = [join(folder.uri, file.path) for file in files[:_FILES_TO_INFER_FROM]]
        try:
            if schema is None:
                found = self._inferred(folder, paths)
            else:
                reader = self._reader(folder).options(recursiveFileLookup="true")
                found = reader.schema(schema).load(paths[:1] or [folder.uri]).schema
            # Spark checks the options only when it reads. The filter keeps it from opening a file.
            reader = self._reader(folder).options(**whole_rows(folder.file_format))
            reader = reader.options(recursiveFileLookup="true", pathGlobFilter=uuid.uuid4().hex)
            reader.schema(found).load(paths[:1] or [folder.uri]).collect()
        except BrokenHead as error:
            raise _refused(subject, folder, f"{error.uri}: {error.reason}", _IS_BROKEN) from None
        except Exception as error:  # the JVM's own errors have no class in pyspark
            cause = reason(error).partition("\n")[0].rstrip(".")
            condition = error.getCondition() if isinstance(error, PySparkException) else None
            raise _refused(subject, folder, cause, condition or cause) from None
        if not found.fields:
            raise _refused(subject, folder, _NO_COLUMNS, "")
        return found

    def _reader(self, folder: Folder) -> DataFrameReader:
        reader = self.spark.read.format(folder.file_format.value).options(**folder.options)
        return reader.options(__globPaths__="false")

    def _inferred(self, folder: Folder, paths: Sequence[str]) -> StructType:
        """The columns of files. The ``paths`` start with the newest file.

        Files with another header than the newest file are left out, because Spark matches the
        columns of all files by position.
        """
        if has_headers(folder.file_format, folder.options):
            found = headers(self.spark, self.files, folder, paths)
            newest = next(filter(None, map(found.get, paths)), ())
            paths = [path for path in paths if found[path] == newest]
        return self._reader(folder).options(basePath=folder.uri).load(list(paths)).schema

    def _options(self, folder: Folder, columns: StructType) -> Mapping[str, str]:
        """The folder's options. If the stream has the column that gets malformed rows in this
        session, the options include its name, because other sessions may use another name.
        """
        name = str(self.spark.conf.get(_CORRUPT_RECORD_OF_THE_SESSION))
        is_read = any(column.name.lower() == name.lower() for column in columns)
        if not is_read or option(folder.options, CORRUPT_RECORD) is not None:
            return folder.options
        return {**folder.options, CORRUPT_RECORD: name}


def _refused(subject: str, folder: Folder, cause: str, condition: str) -> InvalidRequest:
    return InvalidRequest(
        subject,
        f"cannot read {folder.uri} as {folder.file_format.value}",
        cause=cause,
        fix=_fix_for(folder.file_format, condition),
    )


def _fix_for(file_format: FileFormat, condition: str) -> str:
    """The advice for an error of ``condition``."""
    if _IS_CHAR in condition:
        return "use STRING: the files do not store the length of a CHAR or a VARCHAR"
    if _IS_BROKEN in condition:
        return (
            "correct file_format, or remove the file, or hide it by a name that begins with a dot,"
            " or pass file_schema, so that no file is read now"
        )
    if file_format is FileFormat.AVRO:
        return (
            "add the package org.apache.spark:spark-avro_2.13 of Spark's own version to the"
            " session, or correct file_options and file_schema"
        )
    return "correct file_format, file_options or file_schema"


def _format(subject: str, name: str | None) -> FileFormat:
    try:
        return FileFormat(str(name).lower())
    except ValueError:
        unknown = f"{name!r} is not a file format"
        raise InvalidRequest(
            subject,
            "has no valid file_format",
            cause="expected a file_format with on_files, found none" if name is None else unknown,
            fix=f"pass file_format, one of {', '.join(FileFormat)}",
        ) from None
