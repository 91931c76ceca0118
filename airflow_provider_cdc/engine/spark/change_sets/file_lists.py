"""Reads exactly the files of a list, in any folders."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakSet

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from pyspark.sql.utils import is_remote

from ...core.change_sets.sink_log import sink_log
from ...core.folders.file_options import WHOLE_FILES
from ...storage.files.scratch import NO_FILE, Scratch
from ..session.session_settings import is_on

_IGNORES_LISTS = "spark.sql.streaming.fileStreamSink.ignoreMetadata"
_OLD_SOURCES = "spark.sql.sources.useV1SourceList"
_FORMAT = "parquet"
_trusted: WeakSet[SparkSession] = WeakSet()


class FileLists:
    """Writes lists of files, and opens them.

    ``roots`` names the lists that must stay while their rows are in use: over Spark Connect each
    action resolves its frame again. In classic Spark a frame keeps what it read of a list.
    """

    def __init__(self, spark: SparkSession, scratch: Scratch) -> None:
        self._spark = spark
        self._scratch = scratch
        self.roots: list[str] = []

    def open(self, files: Sequence[tuple[str, int]], schema: StructType) -> DataFrame | None:
        """The rows of Parquet ``files``; ``None`` if the session does not read lists.

        :param files: the percent-encoded URI of each file, without duplicates, and its bytes
        """
        if not self._reads_lists():
            return None
        root = self._scratch.write_list(sink_log(files))
        try:
            rows = self._opened(root, len(files), schema)
        finally:
            if is_remote():
                self.roots.append(root)
            else:
                self._scratch.remove(root)
        return rows

    def _reads_lists(self) -> bool:
        # Only Spark's older interface to files (V1) reports the position of a row.
        old = str(self._spark.conf.get(_OLD_SOURCES, _FORMAT)).lower().split(",")
        return _FORMAT in map(str.strip, old) and not is_on(self._spark, _IGNORES_LISTS)

    def _opened(self, root: str, count: int, schema: StructType) -> DataFrame | None:
        # Spark takes no column from the name of a folder.
        reader = self._spark.read.options(recursiveFileLookup="true", **WHOLE_FILES)
        rows = reader.schema(schema.toNullable()).parquet(root)
        # This is checked once for each session: it takes longer than the rest, and a session
        # either reads lists or does not. If a session misses a later list, the read fails, because
        # the file beside the list is not Parquet.
        if self._spark not in _trusted:
            found = rows.inputFiles()
            if len(found) != count or found[0].endswith(f"/{NO_FILE}"):
                return None
            _trusted.add(self._spark)
        return rows
