"""Applying changes to an upsert table, and reading it before they are applied."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_cdc.engine import Engine

from .results import Row
from .shapes import COLUMNS, FILES, KEY, VALUES, new_rows
from .tables import VECTORS, Workshop, append, create_table, newest_version
from .timing import Patience, read_all, timed, timed_in_turns

APPLY = "apply_upserts"
BY_HAND = "window and MERGE in Spark, by hand"
EQUAL_BY_HAND = "the same by hand, with sequence numbers and tombstones"
DELTA_RS = "merge of delta-rs"
PLAIN_READ = "plain read of the base"
MERGED_READ = "run-time merge"
SPREAD = "1 % changes in all files"
RANGE = "1 % changes in one range of keys"
PENDING = "1 % changes wait"
FIXED = "10,000 changes in one range of keys"

_NUMBER = "_CHANGE_SEQUENCE_NUMBER"
_TYPE = "_CHANGE_TYPE"
_FIXED_CHANGES = 10_000
_NAMES = (KEY, *VALUES)
_MERGE = (
    "MERGE INTO {target} AS t USING (SELECT * FROM (SELECT *, row_number() OVER"
    f" (PARTITION BY {KEY} ORDER BY {_NUMBER} DESC) AS place FROM {{changes}}) WHERE place = 1)"
    f" AS c ON t.{KEY} = c.{KEY}"
    f" WHEN MATCHED AND c.{_TYPE} = 'DELETE' THEN DELETE"
    f" WHEN MATCHED THEN UPDATE SET {', '.join(f'{name} = c.{name}' for name in VALUES)}"
    f" WHEN NOT MATCHED AND c.{_TYPE} <> 'DELETE' THEN INSERT ({', '.join(_NAMES)})"
    f" VALUES ({', '.join(f'c.{name}' for name in _NAMES)})"
)
_STATE = "_cdc STRUCT<sequence: STRING, deleted_at: TIMESTAMP>"
# An older change loses, also to a delete: a delete leaves a row with its number.
_EQUAL_MERGE = (
    "MERGE INTO {target} AS t USING (SELECT * FROM (SELECT *, row_number() OVER"
    f" (PARTITION BY {KEY} ORDER BY {_NUMBER} DESC) AS place FROM {{changes}}) WHERE place = 1)"
    f" AS c ON t.{KEY} = c.{KEY}"
    f" WHEN MATCHED AND c.{_TYPE} = 'DELETE' AND c.{_NUMBER} > t._cdc.sequence"
    f" THEN UPDATE SET {', '.join(f'{name} = NULL' for name in VALUES)},"
    f" _cdc = struct(c.{_NUMBER} AS sequence, current_timestamp() AS deleted_at)"
    f" WHEN MATCHED AND c.{_TYPE} <> 'DELETE' AND c.{_NUMBER} > t._cdc.sequence"
    f" THEN UPDATE SET {', '.join(f'{name} = c.{name}' for name in VALUES)},"
    f" _cdc = struct(c.{_NUMBER} AS sequence, CAST(NULL AS TIMESTAMP) AS deleted_at)"
    f" WHEN NOT MATCHED THEN INSERT ({', '.join(_NAMES)}, _cdc)"
    f" VALUES ({', '.join(f'c.{name}' for name in _NAMES)}, struct(c.{_NUMBER} AS sequence,"
    f" if(c.{_TYPE} = 'DELETE', current_timestamp(), NULL) AS deleted_at))"
)


class Tables:
    """An upsert table and equal tables for the peers, each with the same rows in the same files."""

    def __init__(
        self, spark: SparkSession, workshop: Workshop, rows: int, files: int = FILES
    ) -> None:
        self._spark = spark
        self._root = workshop.new_folder()
        self.rows = rows
        self.engine = Engine(spark, str(self._root / "state"))
        self.upserts, self.by_hand = str(self._root / "upserts"), str(self._root / "by_hand")
        self.equal_by_hand = str(self._root / "equal_by_hand")
        self.delta_rs = str(self._root / "delta_rs")
        self.engine.create_upsert_table(self.upserts, COLUMNS, KEY)
        create_table(spark, Path(self.by_hand), COLUMNS, {VECTORS: True}, cluster=KEY)
        with_state = f"{COLUMNS}, {_STATE}"
        create_table(spark, Path(self.equal_by_hand), with_state, {VECTORS: True}, cluster=KEY)
        # delta-rs cannot write to tables with deletion vectors.
        create_table(spark, Path(self.delta_rs), COLUMNS, {VECTORS: False})
        ordered = new_rows(spark, rows).repartitionByRange(files, KEY)
        state = "named_struct('sequence', repeat('0', 16), 'deleted_at', CAST(NULL AS TIMESTAMP))"
        for location in (self.upserts, self.equal_by_hand):
            append(ordered.selectExpr("*", f"{state} AS _cdc"), location)
        for location in (self.by_hand, self.delta_rs):
            append(ordered, location)
        locations = (self.upserts, self.by_hand, self.equal_by_hand, self.delta_rs)
        self._filled = {location: newest_version(self._spark, location) for location in locations}

    def changes(self, where: str) -> str:
        """A Delta table of changes to the rows of ``where``. One of ten is a delete. For another
        one of ten, an older change comes after the newer one.
        """
        location = str(self._root / f"changes {abs(hash(where))}")
        values = {"n": "n + 1", "price": "price * 2", "name": "concat(name, '*')"}
        found = self._spark.read.format("delta").load(self.by_hand).where(where)
        columns = [f"{values.get(name, name)} AS {name}" for name in _NAMES]
        kind = f"if({KEY} % 10 = 3, 'DELETE', 'UPSERT') AS {_TYPE}"
        newest = found.selectExpr(*columns, kind, f"'2' AS {_NUMBER}")
        older = found.where(f"{KEY} % 10 = 7").selectExpr(
            *_NAMES, f"'UPSERT' AS {_TYPE}", f"'1' AS {_NUMBER}"
        )
        newest.unionAll(older).coalesce(1).write.format("delta").save(location)
        return location

    def pending(self, changes: str) -> Callable[[], None]:
        """Returns a function that lets only ``changes`` wait, for a table as it was filled."""

        def prepare() -> None:
            self.engine.apply_upserts(self.upserts)
            self.restore(self.upserts)
            self.engine.write_changes(self.upserts, self._spark.read.format("delta").load(changes))

        return prepare

    def restore(self, location: str) -> None:
        """Bring a table back to the rows that it was filled with."""
        version = self._filled[location]
        self._spark.sql(f"RESTORE TABLE delta.`{location}` TO VERSION AS OF {version}")

    def merge_by_hand(self, changes: str) -> None:
        """The MERGE that is written by hand."""
        target, source = f"delta.`{self.by_hand}`", f"delta.`{changes}`"
        self._spark.sql(_MERGE.format(target=target, changes=source))

    def merge_equal_by_hand(self, changes: str) -> None:
        """The MERGE by hand that lets no older change win."""
        target, source = f"delta.`{self.equal_by_hand}`", f"delta.`{changes}`"
        self._spark.sql(_EQUAL_MERGE.format(target=target, changes=source))

    def merge_with_delta_rs(self, changes: str) -> None:
        """The same with delta-rs; Arrow finds the winning changes."""
        order = [(KEY, "ascending"), (_NUMBER, "descending")]
        found = DeltaTable(changes).to_pyarrow_table().sort_by(order)
        keys = found[KEY].combine_chunks()
        is_first = pc.or_kleene(pa.array([True] + [False] * (len(keys) - 1)), _differs(keys))
        merger = DeltaTable(self.delta_rs).merge(
            found.filter(is_first), f"t.{KEY} = c.{KEY}", source_alias="c", target_alias="t"
        )
        values = {name: f"c.{name}" for name in VALUES}
        merger.when_matched_delete(f"c.{_TYPE} = 'DELETE'").when_matched_update(
            values
        ).when_not_matched_insert({KEY: f"c.{KEY}", **values}, f"c.{_TYPE} <> 'DELETE'").execute()

    def check(self) -> None:
        """Compare the results of all ways for the same changes."""
        expected = self.engine.read_upsert_table(self.upserts)
        for location in (self.by_hand, self.equal_by_hand, self.delta_rs):
            found = self._spark.read.format("delta").load(location)
            if location == self.equal_by_hand:
                found = found.where("_cdc.deleted_at IS NULL")
            if _digest(found) != _digest(expected):
                raise AssertionError(f"{location}: other rows than in the upsert table")


def one_size(
    spark: SparkSession, workshop: Workshop, rows: int, patience: Patience
) -> Iterator[Row]:
    """Apply changes, and read while they wait."""
    tables = Tables(spark, workshop, rows)
    middle, hundredth = rows // 2, rows // 100
    spread = tables.changes(f"{KEY} % 100 = 7 OR {KEY} % 1000 = 13")
    in_range = tables.changes(f"{KEY} BETWEEN {middle} AND {middle + hundredth - 1}")
    for workload, changes in ((SPREAD, spread), (RANGE, in_range)):
        yield from _applied(spark, tables, workload, changes, patience)
    yield from _read(spark, tables, in_range, patience)


def growth(spark: SparkSession, workshop: Workshop, rows: int, patience: Patience) -> Iterator[Row]:
    """Apply the same number of changes to a tenth of the rows and to all rows. Files have the same
    size in both, as in Delta tables that grow.
    """
    for share in (10, 1) if patience.is_thorough else (10,):
        table = Tables(spark, workshop, rows // share, FILES // share)
        fixed = min(_FIXED_CHANGES, table.rows // 10)
        changes = table.changes(f"{KEY} BETWEEN 0 AND {fixed - 1}")
        prepare = table.pending(changes)
        timing = timed(spark, partial(_apply, table), patience, prepare=prepare)
        yield Row(FIXED, f"{APPLY}, {table.rows:,} rows", timing)


def _applied(
    spark: SparkSession, tables: Tables, workload: str, changes: str, patience: Patience
) -> Iterator[Row]:
    ways: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        APPLY: (lambda: _apply(tables), tables.pending(changes)),
        BY_HAND: (
            lambda: tables.merge_by_hand(changes),
            lambda: tables.restore(tables.by_hand),
        ),
        EQUAL_BY_HAND: (
            lambda: tables.merge_equal_by_hand(changes),
            lambda: tables.restore(tables.equal_by_hand),
        ),
        DELTA_RS: (
            lambda: tables.merge_with_delta_rs(changes),
            lambda: tables.restore(tables.delta_rs),
        ),
    }
    works, prepares = zip(*ways.values(), strict=True)
    timings = timed_in_turns(spark, works, patience, prepare=prepares)
    rows = [Row(workload, name, timing) for name, timing in zip(ways, timings, strict=True)]
    tables.check()
    yield from rows


def _read(spark: SparkSession, tables: Tables, changes: str, patience: Patience) -> Iterator[Row]:
    tables.pending(changes)()

    def stale_for(longest: timedelta | None) -> Callable[[], object]:
        return partial(tables.engine.alter_upsert_table, tables.upserts, max_staleness=longest)

    def read() -> None:
        read_all(tables.engine.read_upsert_table(tables.upserts))

    prepares = (stale_for(timedelta(days=1)), stale_for(None))
    timings = timed_in_turns(spark, (read, read), patience, prepare=prepares)
    for name, timing in zip((PLAIN_READ, MERGED_READ), timings, strict=True):
        yield Row(PENDING, name, timing)


def _apply(tables: Tables) -> None:
    if tables.engine.apply_upserts(tables.upserts) is None:
        raise AssertionError("no change waited")


def _differs(keys: pa.Array) -> pa.Array:
    """Whether each key differs from the one before it; NULL for the first."""
    before = pa.concat_arrays([pa.nulls(1, keys.type), keys[:-1]])
    return pc.not_equal(keys, before)


def _digest(rows: DataFrame) -> object:
    text = ", ".join(f"`{name}`" for name in _NAMES)
    return rows.selectExpr("count(*)", f"bit_xor(xxhash64({text}))").first()
