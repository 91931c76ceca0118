"""Delta tables with a stream on them, and commits after its offset."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from airflow_provider_cdc.engine import Engine, Stream
from airflow_provider_cdc.engine.core.change_sets.rewrites import net_difference
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.sources.source_log import SourceLog

from .shapes import COLUMNS, FILES, KEY, OPTIMIZE, VALUES, Expected, Workload, new_rows

ROW_TRACKING = "delta.enableRowTracking"
VECTORS = "delta.enableDeletionVectors"
FEED = "delta.enableChangeDataFeed"


@dataclass(frozen=True, slots=True)
class Bench:
    """A table with commits, and the stream whose offset is before them.

    ``key`` and ``values`` are the table's columns. ``expected`` is what the change set has to hold.
    """

    root: Path
    stream: Stream
    end_version: int
    key: str
    values: tuple[str, ...]
    expected: Expected

    @property
    def location(self) -> str:
        return str(self.root / "t")

    @property
    def state(self) -> str:
        return str(self.root / "state")

    @property
    def name(self) -> str:
        return f"delta.`{self.location}`"

    @property
    def touched_bytes(self) -> int:
        """The bytes of the files in which the two ends of the commits differ."""
        return net_difference(SourceLog(Files()).range(self.stream).commits).size_bytes


def append(rows: DataFrame, location: str) -> None:
    """Append rows to a Delta table."""
    rows.write.format("delta").mode("append").save(location)


def newest_version(spark: SparkSession, location: str) -> int:
    """The newest version of a Delta table."""
    newest = spark.sql(f"DESCRIBE HISTORY delta.`{location}` LIMIT 1").first()
    assert newest is not None
    return int(newest["version"])


def create_table(
    spark: SparkSession,
    root: Path,
    columns: str,
    properties: Mapping[str, bool],
    *,
    partition: str = "",
    cluster: str = "",
) -> str:
    """Create an empty table; returns its name in SQL.

    :param columns: with their types, in SQL
    :param partition: the column that partitions it, if any; or else
    :param cluster: the column that its rows are clustered by
    """
    name = f"delta.`{root}`"
    divided = f" PARTITIONED BY ({partition})" if partition else ""
    divided += f" CLUSTER BY ({cluster})" if cluster else ""
    settings = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    owned = f" TBLPROPERTIES ({settings})" if settings else ""
    spark.sql(f"CREATE TABLE {name} ({columns}) USING delta{divided}{owned}")
    return name


class Workshop:
    """Builds tables below a folder; those with the same settings share their data files."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._count = 0

    def build(
        self, workload: Workload, begin: Callable[[Path], object] = lambda root: None
    ) -> Bench:
        """The table of a workload, with its commits after its stream's offset.

        :param begin: is called before the commits, with the root of the bench
        """

        def write(location: str) -> None:
            for statement in workload.statements():
                done = self._spark.sql(statement.replace("{t}", f"delta.`{location}`"))
                if statement == OPTIMIZE and not done.collect()[0]["metrics"]["numFilesAdded"]:
                    raise AssertionError(f"{workload.name}: OPTIMIZE had nothing to rewrite")

        # Only the readers of the feed open its files: all others are as fast without it.
        properties = {ROW_TRACKING: True, VECTORS: workload.has_vectors, FEED: True}
        root = self.copy(workload.rows, properties)
        begin(root)
        return bench_of(self._spark, root, write, KEY, VALUES, workload.expected)

    def copy(self, rows: int, properties: Mapping[str, bool]) -> Path:
        """A new folder with a table ``t`` of ``rows`` rows that has these properties."""
        root = self.new_folder()
        link_table(self._base(rows, properties), root / "t")
        return root

    def new_folder(self) -> Path:
        """A path that does not exist yet."""
        self._count += 1
        return self._folder / f"table-{self._count}"

    def _base(self, rows: int, properties: Mapping[str, bool]) -> Path:
        root = self._folder / "-".join(["base", str(rows), *map(str, properties.values())])
        if not root.exists():
            create_table(self._spark, root, COLUMNS, properties, partition="part")
            rows_of_all = new_rows(self._spark, rows).repartitionByRange(FILES, "part")
            rows_of_all.write.format("delta").mode("append").save(str(root))
        return root


def bench_of(
    spark: SparkSession,
    root: Path,
    write: Callable[[str], None],
    key: str,
    values: tuple[str, ...],
    expected: Expected,
) -> Bench:
    """Create a stream on the table ``t`` in ``root``, then make the commits of ``write``."""
    location = str(root / "t")
    stream = Engine(spark, str(root / "state")).create_stream("s", on_table=location)
    write(location)
    end = SourceLog(Files()).newest_offset(location).version
    return Bench(root, stream, end, key, values, expected)


def link_table(base: Path, root: Path) -> None:
    """Make a table of its own over the same data files, which nothing changes in place."""
    shutil.copytree(base, root, copy_function=os.link)
    log = root / "_delta_log"
    shutil.rmtree(log)
    shutil.copytree(base / "_delta_log", log)
