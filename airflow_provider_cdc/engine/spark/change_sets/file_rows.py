"""The change sets of insert-only streams: the rows of new files, read in the files' own format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from ...core.change_sets.new_files import unread_files
from ...core.change_sets.read_plan import ReadPlan
from ...core.delta.file_paths import partition_values, uri_as_spark_shows
from ...core.delta.log_actions import DataFile
from ...core.errors import CdcError, FileUnreadable, StreamUnusable
from ...core.folders.file_faults import unreadable_file
from ...core.folders.file_options import WHOLE_FILES, whole_rows
from ...core.folders.folder_log import FolderFile
from ...core.model.sources import FileFormat, Folder
from ...core.model.stream import METADATA_COLUMNS
from ...core.names import name_key, quote
from ...storage.files.stores import Files
from ...storage.files.uris import join
from ...storage.sources.folder_logs import FolderLogs
from ...storage.sources.source_log import SourceRange
from ..session.failures import reason
from .file_groups import FileGroup, FileGroups, fields_of
from .metadata_columns import with_metadata_columns
from .netting import INSERT, all_changes
from .row_columns import LITTLE_BYTES, ROW, ROW_ID, union
from .schema_checks import check_session
from .table_changes_reader import metadata_fields

_PLACE, _NUMBER, _PATH, _FIRST_ID = "place", "number", "path", "first_id"
_UNKNOWN = "Spark read a file that is not in the listing of the folder: "


@dataclass(frozen=True, slots=True)
class FileChanges:
    """The rows of the files of a range, not yet read: their columns, action, is-update and row id.

    Call ``check`` after ``rows`` were read: it raises ``FilesChanged`` if a file is no longer the
    one that was listed. Then the rows of that file may be wrong. If the read failed and ``check``
    finds nothing, ``fault`` returns the error that names the unreadable file; ``None``: no file is
    the cause.
    """

    rows: DataFrame
    plan: ReadPlan
    check: Callable[[], None]
    fault: Callable[[Exception], FileUnreadable | None]


class FileRows:
    """Reads the new files of folders."""

    def __init__(self, spark: SparkSession, files: Files) -> None:
        self._spark = spark
        self._files = files
        self._folders = FolderLogs(files)

    def read(self, span: SourceRange) -> FileChanges:
        """The rows of all files that were added in ``span`` and still exist, each as an INSERT.

        Snowflake: an insert-only stream returns nothing for a removed file. An overwritten file is
        a new file.

        :raises FilesChanged: a file was overwritten or removed after the folder was listed
        :raises FileUnreadable: a file, or the name of a folder, is not as the stream reads it
        :raises StreamUnusable: in this session, quoted names of columns are patterns
        """
        check_session(span.stream, self._spark)
        folder = span.stream.folder
        assert folder is not None
        unread = unread_files(span.commits)
        listed = [FolderFile.of(file) for file in unread.files]

        def check() -> None:
            self._folders.check_unchanged(span.stream, listed)

        def fault(error: Exception) -> FileUnreadable | None:
            return unreadable_file(span.stream, reason(error))

        check()
        try:
            groups = FileGroups(self._spark, self._files, span.stream).of(unread.files)
            parts = [self._rows_of(folder, group) for group in groups]
        except CdcError:
            raise
        except Exception as error:
            check()
            raise fault(error) or _as_unusable(span, error) or error from None
        fields = fields_of(folder)
        if not parts:
            names = METADATA_COLUMNS[span.stream.column_style]
            schema = StructType([*fields, *metadata_fields(names)])
            return FileChanges(self._spark.createDataFrame([], schema), unread.plan, check, fault)
        columns = [field.name for field in fields]
        rows = with_metadata_columns(
            all_changes(union(parts), INSERT), columns, span.stream.column_style
        )
        return FileChanges(rows, unread.plan, check, fault)

    def _rows_of(self, folder: Folder, group: FileGroup) -> DataFrame:
        """The rows of the files of a group: the row id, and the columns in one struct."""
        files, keys = group.files, sorted(group.keys)
        paths = [join(folder.uri, FolderFile.of(file).path) for file in files]
        scan = (
            self._spark.read.format(folder.file_format.value)
            .options(**folder.options)
            # Spark reads no path as a pattern, and takes no column from the name of a folder.
            .options(recursiveFileLookup="true", __globPaths__="false")
            .options(**WHOLE_FILES, **whole_rows(folder.file_format))
            .schema(group.schema)
            .load(paths)
        )
        row = ", ".join(f"{source} AS {quote(name)}" for name, source in group.row.items())
        placed = scan.select(
            scan.metadataColumn("_metadata").alias(_PLACE),
            F.monotonically_increasing_id().alias(_NUMBER),
            F.expr(f"struct({row})").alias(ROW),
        )
        known = F.broadcast(self._known_files(folder, files, paths, keys))
        rows = placed.join(known, placed[f"{_PLACE}.file_path"] == known[_PATH], "left")
        columns = ", ".join(
            f"{ROW}.{quote(field.name)}" if field.name in group.row else _from_folder(field, keys)
            for field in fields_of(folder)
        )
        size_bytes = sum(file.size_bytes for file in files)
        return _numbered(rows, folder.file_format, size_bytes).selectExpr(
            f"ifnull({_FIRST_ID}, CAST(raise_error('{_UNKNOWN}' || {_PLACE}.file_path) AS BIGINT))"
            f" + {_NUMBER} AS {ROW_ID}",
            f"struct({columns}) AS {ROW}",
        )

    def _known_files(
        self, folder: Folder, files: Sequence[DataFile], paths: Sequence[str], keys: Sequence[str]
    ) -> DataFrame:
        """What the log and the path record of each file."""
        values = [partition_values(FolderFile.of(file).path) for file in files]
        known = {
            _PATH: pa.array(map(uri_as_spark_shows, paths), pa.string()),
            _FIRST_ID: pa.array([file.base_row_id for file in files], pa.int64()),
        }
        for number, key in enumerate(keys):
            known[f"key{number}"] = pa.array([found[key] for found in values], pa.string())
        return self._spark.createDataFrame(pa.table(known))


def _as_unusable(span: SourceRange, error: Exception) -> StreamUnusable | None:
    """The error if Spark reads no file with these options and columns."""
    if not isinstance(error, PySparkException):
        return None
    name = span.stream.name
    return StreamUnusable(
        f"stream {name}",
        f"cannot read the files of {span.stream.source.name}",
        cause=reason(error).partition("\n")[0].rstrip("."),
        fix="create it again with other file_options or another file_schema, with or_replace=True"
        f' and at=OffsetOf("{name}"), which keeps what is not consumed',
    )


def _numbered(rows: DataFrame, file_format: FileFormat, size_bytes: int) -> DataFrame:
    """``rows`` with the position of each in its file, from 0 on.

    For Parquet, Spark reports the position. In other formats this function counts the rows, block
    by block, and in their order in a block. Every read gives the same positions, even if Spark
    splits the files differently.
    """
    if file_format is FileFormat.PARQUET:
        return rows.withColumn(_NUMBER, F.expr(f"{_PLACE}.row_index"))
    if size_bytes <= LITTLE_BYTES:
        rows = rows.coalesce(1)
    in_file = Window.partitionBy(_FIRST_ID).orderBy(f"{_PLACE}.file_block_start", _NUMBER)
    return rows.withColumn(_NUMBER, F.row_number().over(in_file) - 1)


def _from_folder(field: StructField, keys: Sequence[str]) -> str:
    value = f"key{keys.index(name_key(field.name))}"
    return f"CAST({value} AS {field.dataType.simpleString()}) AS {quote(field.name)}"
