"""What row tracking and the change data feed cost the writers of a source."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from pyspark.sql import SparkSession

from .results import Row
from .shapes import Shape, Workload
from .tables import FEED, ROW_TRACKING, VECTORS, Workshop
from .timing import Patience, timed

SETTINGS = {
    "neither": (False, False),
    "row tracking": (True, False),
    "change data feed": (False, True),
    "both": (True, True),
}
SHAPES = (Shape.APPEND, Shape.SPREAD, Shape.PARTITION, Shape.DELETE)


class Written:
    """A copy of a table, made again for every round."""

    def __init__(self, workshop: Workshop, rows: int, properties: dict[str, bool]) -> None:
        self._workshop = workshop
        self._rows = rows
        self._properties = properties
        self._root: Path | None = None

    @property
    def name(self) -> str:
        assert self._root is not None
        return f"delta.`{self._root / 't'}`"

    def renew(self) -> None:
        """Take a new copy and remove the last one."""
        self.remove()
        self._root = self._workshop.copy(self._rows, self._properties)

    def remove(self) -> None:
        """Remove the last copy."""
        if self._root is not None:
            shutil.rmtree(self._root)


def measure(
    spark: SparkSession, workshop: Workshop, rows: int, patience: Patience
) -> Iterator[Row]:
    """One commit of each shape, with and without deletion vectors, under each setting. A smoke test
    has only the smallest of them.
    """
    of_all = product(SHAPES, (True, False))
    for shape, has_vectors in of_all if patience.is_thorough else [(Shape.PARTITION, True)]:
        workload = Workload(rows, shape, 1, has_vectors)
        for name, (is_tracked, has_feed) in SETTINGS.items():
            properties = {ROW_TRACKING: is_tracked, VECTORS: has_vectors, FEED: has_feed}
            written = Written(workshop, rows, properties)

            def commit(written: Written = written, workload: Workload = workload) -> None:
                for statement in workload.statements():
                    spark.sql(statement.replace("{t}", written.name))

            timing = timed(spark, commit, patience, prepare=written.renew)
            written.remove()
            yield Row(workload.name, name, timing)
