"""Groups of files that are read in one way: with the same columns in the same positions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from ...core.delta.file_paths import partition_values, uri_as_spark_shows
from ...core.delta.log_actions import DataFile
from ...core.folders.csv_headers import header_fault
from ...core.folders.file_faults import unreadable
from ...core.folders.file_options import (
    CORRUPT_RECORD,
    WHOLE_FILES,
    has_headers,
    is_multi_line,
    option,
    takes_columns_from_folders,
)
from ...core.folders.folder_log import FolderFile
from ...core.model.sources import FileFormat, Folder
from ...core.model.stream import Stream
from ...core.names import name_key, quote
from ...storage.files.csv_heads import BrokenHead
from ...storage.files.stores import Files
from ...storage.files.uris import join
from .file_headers import headers

_WITH_CORRUPT_RECORDS = (FileFormat.CSV, FileFormat.JSON)
_DEFAULT_CORRUPT_RECORD = "spark.sql.columnNameOfCorruptRecord"
_BY_PLACE = "; or set enforceSchema=True in file_options to match columns by position"
_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files whose columns are in the same positions.

    ``keys`` are the columns whose values come from the paths, in lower case. ``schema`` is for
    Spark's reader. ``row`` holds the expression of each other column of the stream.
    """

    files: Sequence[DataFile]
    keys: frozenset[str]
    schema: StructType
    row: Mapping[str, str]


class FileGroups:
    """The groups of the files of one stream.

    :param stream: a stream on a folder
    """

    def __init__(self, spark: SparkSession, files: Files, stream: Stream) -> None:
        assert stream.folder is not None
        self._spark = spark
        self._files = files
        self._stream = stream
        self._folder = stream.folder
        self._fields = fields_of(stream.folder)

    def of(self, files: Iterable[DataFile]) -> list[FileGroup]:
        """``files`` in groups.

        :raises FileNotFoundError: one of them is missing
        :raises FileUnreadable: the header of a file does not show which column is which, or the
            name of a folder is not a value of its column
        """
        found = []
        for keys, group in _grouped(files, self._keys).items():
            self._check_values(keys, group)
            self._check_one_value(group)
            if not has_headers(self._folder.file_format, self._folder.options):
                found.append(self._by_place(group, keys))
                continue
            for header, part in self._by_header(keys, group).items():
                # A file without a line has no rows.
                by_name = self._by_name(part, keys, header) if header else None
                found.append(by_name or self._by_place(part, keys))
        return found

    def _keys(self, file: DataFile) -> frozenset[str]:
        """The columns whose values come from the path of ``file``. They are not in the file."""
        if not takes_columns_from_folders(self._folder.options):
            return frozenset()
        names = {name_key(field.name) for field in self._fields}
        return frozenset(names & partition_values(FolderFile.of(file).path).keys())

    def _by_place(self, files: Sequence[DataFile], keys: frozenset[str]) -> FileGroup:
        data = self._data(keys)
        row = {field.name: quote(field.name) for field in data}
        return FileGroup(files, keys, StructType(data), row)

    def _by_name(
        self, files: Sequence[DataFile], keys: frozenset[str], header: tuple[str, ...]
    ) -> FileGroup:
        """The group of ``files`` that have one ``header``. Spark's reader gets generated names, so
        that it cannot match a wrong column by name.
        """
        corrupt = self._corrupt_record()
        data = {field.name.lower(): field for field in self._data(keys)}
        places = {name.lower(): f"column{place}" for place, name in enumerate(header)}
        schema = [
            StructField(places[name.lower()], data[name.lower()].dataType)
            if name.lower() in data and name.lower() != corrupt
            else StructField(f"column{place}", StringType())
            for place, name in enumerate(header)
        ]
        row = {}
        for name, field in data.items():
            if name == corrupt:
                schema.append(field)
                row[field.name] = quote(field.name)
            else:
                missing = f"CAST(NULL AS {field.dataType.simpleString()})"
                row[field.name] = quote(places[name]) if name in places else missing
        return FileGroup(files, keys, StructType(schema), row)

    def _by_header(
        self, keys: frozenset[str], files: Sequence[DataFile]
    ) -> dict[tuple[str, ...], list[DataFile]]:
        """The files, grouped by the names in their headers."""
        paths = {file.path: FolderFile.of(file).path for file in files}
        uris = {path: join(self._folder.uri, path) for path in paths.values()}
        try:
            found = headers(self._spark, self._files, self._folder, list(uris.values()))
        except BrokenHead as error:
            path = next(path for path, uri in uris.items() if uri == error.uri)
            raise unreadable(self._stream, path, error.reason) from error
        corrupt = self._corrupt_record()
        columns = [field.name for field in self._data(keys) if field.name.lower() != corrupt]
        for path, uri in uris.items():
            fault = header_fault(found[uri], columns, [field.name for field in self._fields])
            if fault:
                raise unreadable(self._stream, path, fault, also=_BY_PLACE)
        return _grouped(files, lambda file: found[uris[paths[file.path]]])

    def _data(self, keys: frozenset[str]) -> list[StructField]:
        return [field for field in self._fields if name_key(field.name) not in keys]

    def _corrupt_record(self) -> str | None:
        """The lower-case name of the column that gets the text of malformed rows."""
        if self._folder.file_format not in _WITH_CORRUPT_RECORDS:
            return None
        given = option(self._folder.options, CORRUPT_RECORD)
        return (given or str(self._spark.conf.get(_DEFAULT_CORRUPT_RECORD))).lower()

    def _check_values(self, keys: frozenset[str], files: Sequence[DataFile]) -> None:
        """Refuse names of folders that are not values of their columns. In some sessions these are
        errors, in others NULL.
        """
        for field in self._fields:
            key = name_key(field.name)
            if key not in keys or isinstance(field.dataType, StringType):
                continue
            by_value = {partition_values(path)[key]: path for path in reversed(_paths(files))}
            kind = field.dataType.simpleString()
            wrong = self._no_values([value for value in by_value if value is not None], kind)
            for value, path in by_value.items():
                if value in wrong:
                    raise unreadable(
                        self._stream,
                        _folder_with(path, key),
                        f"expected a value of {field.name} {kind}, found {value!r}",
                    )

    def _check_one_value(self, files: Sequence[DataFile]) -> None:
        """Refuse JSON files with several values if ``multiLine`` is set, which means one value for
        each file: Spark would read only the first value.
        """
        options = self._folder.options
        if self._folder.file_format is not FileFormat.JSON or not is_multi_line(options):
            return
        uris = {join(self._folder.uri, path): path for path in _paths(files)}
        reader = self._spark.read.options(__globPaths__="false", recursiveFileLookup="true")
        texts = reader.options(**WHOLE_FILES).text(list(uris), wholetext=True)
        given = options.items()
        # An empty map has no types over Spark Connect.
        allowed = {name: value for name, value in given if name.lower().startswith("allow")} or None
        text, wrapped = F.col("value"), F.concat(F.lit("["), F.col("value"), F.lit("\n]"))
        is_json = F.from_json(text, "MAP<STRING, STRING>", allowed).isNotNull()
        is_json |= F.from_json(text, "ARRAY<STRING>", allowed).isNotNull()
        is_one = F.from_json(wrapped, "ARRAY<STRING>", allowed).isNotNull()
        several = texts.where(is_json & ~is_one).select("_metadata.file_path")
        found = several.head(1)
        by_uri = {uri_as_spark_shows(uri): path for uri, path in uris.items()}
        if found:
            raise unreadable(
                self._stream,
                by_uri[found[0][0]],
                "expected one value or one array because of multiLine, found several values",
            )

    def _no_values(self, values: Sequence[str], kind: str) -> set[str]:
        texts = self._spark.createDataFrame(pa.table({"value": pa.array(values, pa.string())}))
        try:
            wrong = texts.where(f"try_cast(value AS {kind}) IS NULL").collect()
        except AnalysisException:  # no text is a value of that type
            return set(values)
        return {row[0] for row in wrong}


def fields_of(folder: Folder) -> list[StructField]:
    """The columns of ``folder``, all nullable: a file may lack a value of any column."""
    fields = StructType.fromJson(json.loads(folder.schema)).toNullable().fields
    return [StructField(field.name, field.dataType, metadata=field.metadata) for field in fields]


def _paths(files: Iterable[DataFile]) -> list[str]:
    return [FolderFile.of(file).path for file in files]


def _grouped(
    files: Iterable[DataFile], key: Callable[[DataFile], _Key]
) -> dict[_Key, list[DataFile]]:
    groups: dict[_Key, list[DataFile]] = {}
    for file in files:
        groups.setdefault(key(file), []).append(file)
    return groups


def _folder_with(path: str, key: str) -> str:
    """The last folder of ``path`` that gives a value to the column ``key``."""
    folders = path.split("/")[:-1]
    while key not in partition_values(f"{folders[-1]}/"):
        folders.pop()
    return "/".join(folders)
