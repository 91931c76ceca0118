"""Folders of files as sources of streams: what is asked for, and the columns that it leads to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from ..core.errors import InvalidRequest
from ..core.file_options import file_options
from ..core.file_paths import folder_uri, path_key
from ..core.folder_log import FolderState
from ..core.model import Base, FileFormat, Folder, Source
from ..storage.files import Files, join
from ..storage.folders import FolderLogs, log_location
from ..storage.source_log import SourceLog
from .failures import reason
from .sources import FoundSource

_FILES_TO_INFER_FROM = 1000


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
        """List the folder ``path`` and find out its columns.

        :param schema: the columns in DDL; ``None``: inferred by Spark from the newest files
        :raises InvalidRequest: Spark cannot read these files like that, or there are none to infer
            the columns from
        :raises StreamUnusable: there is no such folder
        """
        uri = folder_uri(path)
        self._check_place(subject, uri)
        known = file_options(subject, options)
        folder = Folder(uri, _format(subject, file_format), known.reader, "", known.name_glob)
        location = log_location(self.state, uri, known.name_glob)
        state = self.logs.open(location, folder)
        columns = self._columns(subject, folder, state, schema)
        offset = self.sources.newest_offset(location)
        source = Source(uri, location, str(json.loads(offset.metadata)["id"]))
        return FoundSource(
            (Base(source, offset),), (), None, replace(folder, schema=columns.json())
        )

    def _check_place(self, subject: str, uri: str) -> None:
        """Refuse a folder whose files are not those that a stream would return."""
        cause = None
        if f"{path_key(self.state)}/".startswith(f"{path_key(uri)}/"):
            cause = "the state folder lies in it, and every look at the stream writes a file there"
        elif self.files.exists(join(uri, "_delta_log")):
            cause = "it is a Delta table, whose log says which of its files count"
        if cause is not None:
            raise InvalidRequest(
                subject,
                f"cannot be on the files of {uri}",
                cause=cause,
                fix="name another folder, or a table by on_table",
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
                fix='say file_schema, such as "id INT, name STRING"',
            )
        paths = [join(folder.uri, file.path) for file in files[:_FILES_TO_INFER_FROM]]
        reader = self.spark.read.format(folder.file_format.value).options(**folder.options)
        reader = reader.options(basePath=folder.uri, __globPaths__="false")
        try:
            if schema is None:
                found = reader.load(paths).schema
            else:
                found = self.spark.createDataFrame([], schema).schema
                # Says whether the session knows the format, and can read such columns in it.
                _ = reader.schema(found).load(paths[:1] or [folder.uri]).schema
        except Exception as error:  # the JVM's own errors have no class in pyspark
            raise InvalidRequest(
                subject,
                f"cannot read {folder.uri} as {folder.file_format.value}",
                cause=reason(error).partition("\n")[0].rstrip("."),
                fix=_fix_for(folder.file_format),
            ) from None
        return found


def _fix_for(file_format: FileFormat) -> str:
    if file_format is FileFormat.AVRO:
        return (
            "give the session the package org.apache.spark:spark-avro_2.13 of Spark's own version,"
            " or correct file_options and file_schema"
        )
    return "correct file_format, file_options or file_schema"


def _format(subject: str, name: str | None) -> FileFormat:
    try:
        return FileFormat(str(name).lower())
    except ValueError:
        unknown = f"{name!r} is no file format"
        raise InvalidRequest(
            subject,
            "cannot read files as asked",
            cause="expected a file_format with on_files, found none" if name is None else unknown,
            fix=f"give file_format, one of {', '.join(FileFormat)}",
        ) from None
