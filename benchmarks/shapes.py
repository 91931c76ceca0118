"""What the commits of a workload do, in SQL that Delta and Iceberg both understand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

from pyspark.sql import DataFrame, SparkSession

FILES = 40
PICKED = 7
# The numbers of commits in the workloads of a full run.
COMMITS = (1, 10, 100)
COLUMNS = "id BIGINT, part INT, n BIGINT, price DOUBLE, name STRING, at TIMESTAMP"
KEY = "id"
OPTIMIZE = "OPTIMIZE {t} ZORDER BY (n)"
VALUES = ("part", "n", "price", "name", "at")


class Shape(StrEnum):
    """What the commits do: each updates other rows in all files, or all of them share the rows."""

    APPEND = "10 % appended"
    SPREAD = "0.01 % updates in all files a commit"
    PARTITION = "1 % updates in one partition"
    DELETE = "10 % deletes in all files"
    OPTIMIZE = "0.01 % updates a commit, OPTIMIZE ZORDER in the middle"


@dataclass(frozen=True, slots=True)
class Expected:
    """How many rows the change set has to hold."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True, slots=True)
class Workload:
    """One table: ``rows`` rows before ``commits`` commits of one ``shape``."""

    rows: int
    shape: Shape
    commits: int
    has_vectors: bool

    @property
    def name(self) -> str:
        return workload_name(self.shape, self.commits, has_vectors=self.has_vectors)

    @property
    def expected(self) -> Expected:
        touched = sum(
            len(range(PICKED + number, self.rows, 10_000)) for number in range(self.commits)
        )
        return {
            Shape.APPEND: Expected(inserted=self.rows // 10),
            Shape.SPREAD: Expected(updated=touched),
            Shape.PARTITION: Expected(updated=self.rows // 100),
            Shape.DELETE: Expected(deleted=len(range(PICKED, self.rows, 10))),
            Shape.OPTIMIZE: Expected(updated=touched),
        }[self.shape]

    def statements(self, optimize: str = OPTIMIZE) -> Iterator[str]:
        """The statements of the commits, with ``{t}`` in place of the table.

        :param optimize: the statement that rewrites all files
        """
        for number in range(self.commits):
            yield _STATEMENTS[self.shape](self, number)
            if self.shape is Shape.OPTIMIZE and number == (self.commits - 1) // 2:
                yield optimize

    def ids(self, number: int, count: int) -> str:
        """The share of commit ``number`` in the first ``count`` ids."""
        low, high = self.share(number, count)
        return f"id >= {low} AND id < {high}"

    def share(self, number: int, count: int) -> tuple[int, int]:
        """The begin and the end of the share of commit ``number`` in ``count`` things."""
        return number * count // self.commits, (number + 1) * count // self.commits


def workload_name(shape: Shape, commits: int, *, has_vectors: bool) -> str:
    """The name of a workload in results."""
    return f"{shape.value}, {settings_name(commits, has_vectors=has_vectors)}"


def settings_name(commits: int, *, has_vectors: bool) -> str:
    """The name in results for the workloads of all shapes with that many commits."""
    vectors = "vectors" if has_vectors else "no vectors"
    return f"{'1 commit' if commits == 1 else f'{commits} commits'}, {vectors}"


def settings_of(name: str) -> str | None:
    """The name in results for the settings of the workload called ``name``."""
    found = (name.removeprefix(f"{shape.value}, ") for shape in Shape if name.startswith(shape))
    return next(found, None)


def workloads(rows: int, commits: tuple[int, ...], *, is_smoke: bool = False) -> list[Workload]:
    """Every workload. A smoke test has no deletion vectors where Iceberg reads the workload, and
    has them elsewhere; one shape has both.
    """
    found = [
        Workload(rows, shape, count, vectors)
        for shape, count, vectors in product(Shape, commits, (True, False))
    ]
    if not is_smoke:
        return found
    rewritten = {Shape.SPREAD, Shape.OPTIMIZE}
    return [
        item
        for item in found
        if item.shape is Shape.SPREAD or item.has_vectors is not (item.shape in rewritten)
    ]


def new_rows(spark: SparkSession, rows: int) -> DataFrame:
    """The rows of a table before its first commit."""
    return spark.range(rows).selectExpr(
        "id",
        f"CAST(id * {FILES} DIV {rows} AS INT) AS part",
        "xxhash64(id) AS n",
        "pmod(xxhash64(id, 1), 100000) / 100.0D AS price",
        "concat('name ', substr(sha1(CAST(id AS STRING)), 1, 16)) AS name",
        "timestamp_seconds(1700000000 + pmod(xxhash64(id, 2), 30000000)) AS at",
    )


def _append(workload: Workload, number: int) -> str:
    low, high = workload.share(number, workload.rows // 10)
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
