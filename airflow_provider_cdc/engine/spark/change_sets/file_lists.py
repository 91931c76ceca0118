"""Reading exactly the files of a list, in whatever folders they lie."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakSet

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ...core.file_options import WHOLE_FILES
from ...core.sink_log import sink_log
from ...storage.scratch import Scratch

_IGNORES_LISTS = "spark.sql.streaming.fileStreamSink.ignoreMetadata"
_trusted: WeakSet[SparkSession] = WeakSet()


class FileLists:
    """Writes lists of files, and opens them.

    ``roots`` names those that were written; they must stay while their rows are in use.
    """

    def __init__(self, spark: SparkSession, scratch: Scratch) -> None:
        self._spark = spark
        self._scratch = scratch
        self.roots: list[str] = []

    def open(self, files: Sequence[tuple[str, int]], schema: StructType) -> DataFrame | None:
        """The rows of Parquet ``files``; ``None`` where the session does not read lists.

        :param files: the percent-encoded URI of each, none of them twice, and its bytes
        """
        if (self._spark.conf.get(_IGNORES_LISTS, None) or "").casefold() == "true":
            return None
        self.roots.append(self._scratch.write_list(sink_log(files)))
        # No column is taken from the name of a folder.
        reader = self._spark.read.options(recursiveFileLookup="true", **WHOLE_FILES)
        rows = reader.schema(schema.toNullable()).parquet(self.roots[-1])
        # To whoever knows nothing of lists the folder is empty. Asking for the names takes longer
        # than the rest, and the answer is the same for all lists of a session.
        if self._spark not in _trusted:
            if len(rows.inputFiles()) != len(files):
                return None
            _trusted.add(self._spark)
        return rows
