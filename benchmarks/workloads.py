"""Tables with a stream on them and commits after its offset, in every shape that matters."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from airflow_provider_cdc.engine import Engine, Stream
from airflow_provider_cdc.engine.storage.files import Files
from airflow_provider_cdc.engine.storage.source_log import SourceLog

FILES = 40
PICKED = 7


class Shape(StrEnum):
    """What the commits do: each updates other rows in all files, or all of them share the rows."""

    APPEND = "append only"
    SPREAD = "0.01 % updates in all files a commit"
    PARTITION = "1 % updates in one partition"
    DELETE = "10 % deletes in all files"
    OPTIMIZE = "0.01 % updates a commit, OPTIMIZE in the middle"


@dataclass(frozen=True, slots=True)
class Expected:
    """How many rows the change set must hold."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True, slots=True)
class Workload:
    """One table: ``rows`` of them before ``commits`` of one ``shape``; ``has_feed`` says whether
    the change data feed is on.
    """

    rows: int
    shape: Shape
    commits: int
    has_vectors: bool
    has_feed: bool = False

    @property
    def name(self) -> str:
        vectors = "vectors" if self.has_vectors else "no vectors"
        return f"{self.shape.value}, {self.commits} commits, {vectors}"

    @property
    def expected(self) -> Expected:
        touched = sum(
            len(range(PICKED + number, self.rows, 10_000)) for number in range(self.commits)
        )
        return {
            Shape.APPEND: Expected(inserted=self.rows // 100),
            Shape.SPREAD: Expected(updated=touched),
            Shape.PARTITION: Expected(updated=self.rows // 100),
            Shape.DELETE: Expected(deleted=len(range(PICKED, self.rows, 10))),
            Shape.OPTIMIZE: Expected(updated=touched),
        }[self.shape]

    def statements(self) -> Iterator[str]:
        """The statements of the commits, in which ``{t}`` stands for the table."""
        for number in range(self.commits):
            yield _STATEMENTS[self.shape](self, number)
            if self.shape is Shape.OPTIMIZE and number == (self.commits - 1) // 2:
                yield "OPTIMIZE {t}"

    def ids(self, number: int, count: int) -> str:
        """The share of commit ``number`` in the first ``count`` ids."""
        low, high = self.share(number, count)
        return f"id >= {low} AND id < {high}"

    def share(self, number: int, count: int) -> tuple[int, int]:
        """Where the share of commit ``number`` in ``count`` things begins and ends."""
        return number * count // self.commits, (number + 1) * count // self.commits


def workloads(rows: int, commits: tuple[int, ...] = (1, 10, 100)) -> list[Workload]:
    """Every workload, without the change data feed."""
    return [
        Workload(rows, shape, count, vectors)
        for shape, count, vectors in product(Shape, commits, (True, False))
    ]


@dataclass(frozen=True, slots=True)
class Bench:
    """A workload's table, and the stream that stands before its commits."""

    workload: Workload
    location: str
    state: str
    stream: Stream
    end_version: int

    @property
    def name(self) -> str:
        return f"delta.`{self.location}`"


class Workshop:
    """Builds the tables below a folder; those with the same settings share their data files."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._count = 0

    def build(self, workload: Workload) -> Bench:
        base = self._base(workload)
        self._count += 1
        root = self._folder / f"table {self._count}"
        _link_table(base, root / "t")
        table = f"delta.`{root / 't'}`"
        engine = Engine(self._spark, str(root / "state"))
        stream = engine.create_stream("s", on_table=str(root / "t"))
        for statement in workload.statements():
            self._spark.sql(statement.replace("{t}", table))
        end = SourceLog(Files()).newest_offset(str(root / "t")).version
        return Bench(workload, str(root / "t"), str(root / "state"), stream, end)

    def remove(self, bench: Bench) -> None:
        shutil.rmtree(Path(bench.location).parent)

    def _base(self, workload: Workload) -> Path:
        key = f"base {workload.rows} {workload.has_vectors} {workload.has_feed}"
        root = self._folder / key
        if not root.exists():
            properties = {
                "delta.enableRowTracking": True,
                "delta.enableDeletionVectors": workload.has_vectors,
                "delta.enableChangeDataFeed": workload.has_feed,
            }
            settings = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
            self._spark.sql(
                f"CREATE TABLE delta.`{root}` ({COLUMNS}) USING delta PARTITIONED BY (part)"
                f" TBLPROPERTIES ({settings})"
            )
            rows = _new_rows(self._spark, workload.rows)
            rows.repartitionByRange(FILES, "part").write.format("delta").mode("append").save(
                str(root)
            )
        return root


COLUMNS = "id BIGINT, part INT, n BIGINT, price DOUBLE, name STRING, at TIMESTAMP"


def _new_rows(spark: SparkSession, rows: int) -> DataFrame:
    return spark.range(rows).selectExpr(
        "id",
        f"CAST(id * {FILES} DIV {rows} AS INT) AS part",
        "xxhash64(id) AS n",
        "pmod(xxhash64(id, 1), 100000) / 100.0D AS price",
        "concat('name ', substr(sha1(CAST(id AS STRING)), 1, 16)) AS name",
        "timestamp_seconds(1700000000 + pmod(xxhash64(id, 2), 30000000)) AS at",
    )


def _append(workload: Workload, number: int) -> str:
    low, high = workload.share(number, workload.rows // 100)
    return (
        f"INSERT INTO {{t}} SELECT id, {FILES - 1}, xxhash64(id), 1.0D, concat('new ', id),"
        f" current_timestamp() FROM range({workload.rows + low}, {workload.rows + high}, 1, 1)"
    )


def _update(workload: Workload, number: int) -> str:
    return f"UPDATE {{t}} SET n = n + 1 WHERE id % 10000 = {PICKED + number}"


def _update_partition(workload: Workload, number: int) -> str:
    ids = workload.ids(number, workload.rows // 100)
    return f"UPDATE {{t}} SET n = n + 1 WHERE part = 0 AND {ids}"


def _delete(workload: Workload, number: int) -> str:
    return f"DELETE FROM {{t}} WHERE {workload.ids(number, workload.rows)} AND id % 10 = {PICKED}"


_STATEMENTS: dict[Shape, Callable[[Workload, int], str]] = {
    Shape.APPEND: _append,
    Shape.SPREAD: _update,
    Shape.PARTITION: _update_partition,
    Shape.DELETE: _delete,
    Shape.OPTIMIZE: _update,
}


def _link_table(base: Path, root: Path) -> None:
    """A table of its own over the same data files, which nobody changes in place."""
    shutil.copytree(base, root, copy_function=os.link)
    log = root / "_delta_log"
    shutil.rmtree(log)
    shutil.copytree(base / "_delta_log", log)
