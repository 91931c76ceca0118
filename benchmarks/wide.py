"""Tables of many columns: reading, consuming and applying few changed rows, compared with plain
Spark.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from airflow_provider_cdc.engine import Engine

from .results import Row
from .tables import ROW_TRACKING, VECTORS, Workshop, create_table
from .timing import Patience, timed, timed_in_turns

COLUMN_COUNTS = (100, 800, 2_000)
FEW_COLUMNS = (100,)
ROWS = 2_000
STEP = 20
SCAN_ALL = "plain scan of all rows"
SCAN = "plain scan of the changed rows"
STREAM = "stream"
INSERT = "INSERT of as many rows, by hand"
CONSUME = "consume with an INSERT"
MERGE = "MERGE of as many rows, by hand"
APPLY = "apply_upserts"
# The peer of each way.
PEERS = {STREAM: SCAN, CONSUME: INSERT, APPLY: MERGE}

_KEY = "id"
# The types of four columns in turn, and a value of the row ``id`` in column ``n``.
_KINDS = (
    ("INT", "CAST(id + {n} AS INT)"),
    ("STRING", "CAST(id % {n} AS STRING)"),
    ("DOUBLE", "id / {n}"),
    ("DATE", "date_add(DATE '2020-01-01', CAST(id % {n} AS INT))"),
)
_CHANGED = f"{_KEY} % {STEP} = 1"


def workload_name(columns: int, *, has_vectors: bool = True) -> str:
    """The name on a page for the workload of a table with this many columns."""
    vectors = "" if has_vectors else ", no vectors"
    return f"{columns:,} columns, {ROWS // STEP} changed rows of {ROWS:,}{vectors}"


def measure(
    spark: SparkSession, workshop: Workshop, columns: int, patience: Patience
) -> Iterator[Row]:
    """Measure every way on a table of this many columns with deletion vectors."""
    table = _Table(spark, workshop.new_folder(), columns, has_vectors=True)
    yield from _reads(spark, table, patience, workload_name(columns))
    table.make_targets()
    nothing: Callable[[], object] = lambda: None  # noqa: E731
    for way, work, prepare in (
        (INSERT, table.insert, nothing),
        (CONSUME, table.consume, table.update),
        (MERGE, table.merge, nothing),
        (APPLY, table.apply, table.write_changes),
    ):
        timing = timed(spark, work, patience, prepare=prepare)
        yield Row(workload_name(columns), way, timing)
    shutil.rmtree(table.root)


def measure_without_vectors(
    spark: SparkSession, workshop: Workshop, columns: int, patience: Patience
) -> Iterator[Row]:
    """Measure reads of a table whose update rewrote each row: both files of all rows are read."""
    table = _Table(spark, workshop.new_folder(), columns, has_vectors=False)
    yield from _reads(spark, table, patience, workload_name(columns, has_vectors=False))
    shutil.rmtree(table.root)


def _reads(spark: SparkSession, table: _Table, patience: Patience, name: str) -> Iterator[Row]:
    works = {SCAN_ALL: table.scan_all, SCAN: table.scan, STREAM: table.read_stream}
    timings = timed_in_turns(spark, tuple(works.values()), patience)
    table.check()
    return (Row(name, way, each) for way, each in zip(works, timings, strict=True))


class _Table:
    """A table, a stream on it, a target of the same columns, and an upsert table with them."""

    def __init__(self, spark: SparkSession, root: Path, columns: int, *, has_vectors: bool) -> None:
        self._spark = spark
        self.root = root
        kinds = [_KINDS[number % len(_KINDS)] for number in range(columns - 1)]
        self._names = [f"c{number}" for number in range(1, columns)]
        typed = zip(self._names, kinds, strict=True)
        self._declared = ", ".join(["id BIGINT", *(f"{name} {kind}" for name, (kind, _) in typed)])
        self._values = [
            f"{value.format(n=number)} AS c{number}" for number, (_, value) in enumerate(kinds, 1)
        ]
        self._settings = {ROW_TRACKING: True, VECTORS: has_vectors}
        self._source, self._target, self._upserts, self._by_hand = (
            str(root / name) for name in ("source", "target", "upserts", "by_hand")
        )
        self._make(self._source, self._rows("true"))
        self._engine = Engine(spark, str(root / "state"))
        self._engine.create_stream("s", on_table=self._source)
        self._number = 0
        self.update()

    def make_targets(self) -> None:
        """Create the tables that are written to, two of them with the rows of the source."""
        self._make(self._target, self._rows("false"))
        self._make(self._by_hand, self._rows("true"))
        self._engine.create_upsert_table(self._upserts, self._declared, _KEY)
        self.write_changes("true")
        self.apply()

    def _make(self, location: str, rows: DataFrame) -> None:
        create_table(self._spark, Path(location), self._declared, self._settings)
        rows.write.format("delta").mode("append").save(location)

    def _rows(self, where: str) -> DataFrame:
        rows = self._spark.range(ROWS).coalesce(1).where(where)
        return rows.selectExpr(_KEY, *self._values)

    def scan_all(self) -> None:
        self._spark.read.format("delta").load(self._source).toArrow()

    def scan(self) -> None:
        self._spark.read.format("delta").load(self._source).where(_CHANGED).toArrow()

    def read_stream(self) -> None:
        self._engine.read_stream("s").toArrow()

    def check(self) -> None:
        """Compare the changes with the rows that were changed."""
        found = self._engine.read_stream("s").where("`METADATA$ACTION` = 'INSERT'")
        now = self._spark.read.format("delta").load(self._source).where(_CHANGED)
        kept = found.drop("METADATA$ACTION", "METADATA$ISUPDATE", "METADATA$ROW_ID")
        names = [_KEY, *self._names]
        texts = [
            sorted(map(str, rows.select(*names).toArrow().to_pylist())) for rows in (kept, now)
        ]
        if texts[0] != texts[1] or len(texts[0]) != ROWS // STEP:
            raise AssertionError(f"{len(texts[0])} changes are not the {len(texts[1])} expected")

    def update(self) -> None:
        """Change some rows, so that the stream has changes."""
        self._spark.sql(f"UPDATE delta.`{self._source}` SET c1 = c1 + 1 WHERE {_CHANGED}")

    def insert(self) -> None:
        self._spark.sql(
            f"INSERT INTO delta.`{self._target}` SELECT * FROM delta.`{self._source}`"
            f" WHERE {_CHANGED}"
        )

    def consume(self) -> None:
        columns = ", ".join([_KEY, *self._names])
        statement = (
            f"INSERT INTO delta.`{self._target}` SELECT {columns} FROM s"
            " WHERE `METADATA$ACTION` = 'INSERT'"
        )
        outcome = self._engine.consume([statement], consumer="benchmark")
        if outcome.statements[0].metrics.get("numOutputRows") != ROWS // STEP:
            raise AssertionError(f"another number of rows than {ROWS // STEP}: {outcome}")

    def merge(self) -> None:
        changes = f"SELECT * FROM delta.`{self._source}` WHERE {_CHANGED}"
        self._spark.sql(
            f"MERGE INTO delta.`{self._by_hand}` AS t USING ({changes}) AS c ON t.id = c.id"
            " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def write_changes(self, where: str = _CHANGED) -> None:
        """Make a newer change of each row of ``where`` wait."""
        self._number += 1
        changes = self._rows(where).selectExpr(
            "*", "'UPSERT' AS _CHANGE_TYPE", f"'{self._number}' AS _CHANGE_SEQUENCE_NUMBER"
        )
        self._engine.write_changes(self._upserts, changes)

    def apply(self) -> None:
        if self._engine.apply_upserts(self._upserts) is None:
            raise AssertionError("no change waited")


def pieces(
    spark: SparkSession, workshop: Workshop, patience: Patience
) -> Iterator[tuple[str, Callable[[], Iterator[Row]]]]:
    """What is measured in one go: all ways on one table."""
    for columns in COLUMN_COUNTS if patience.is_thorough else FEW_COLUMNS:
        yield workload_name(columns), partial(measure, spark, workshop, columns, patience)
        name = workload_name(columns, has_vectors=False)
        yield name, partial(measure_without_vectors, spark, workshop, columns, patience)
