"""Keeping the history of a table (SCD type 2), beside the ways that are written by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from airflow_provider_cdc.engine import Engine, Version

from .results import Row
from .shapes import COLUMNS, FILES, KEY, VALUES, new_rows
from .tables import ROW_TRACKING, VECTORS, Workshop, append, create_table, newest_version
from .timing import Patience, timed_in_turns

APPLY = "apply_changes, scd_type=2"
BY_HAND = "MERGE of the documentation of Delta, by hand"
DBT = "snapshot SQL of dbt"
SPREAD = "1 % of the keys change, in all files"
RANGE = "1 % of the keys change, in one range of keys"
LATE = "1 % of the keys change late, in all files"
FIXED = "10,000 keys change, in one range of keys"

_START, _END, _SEQUENCE, _HASH = "__START_AT", "__END_AT", "seq", "dbt_scd_id"
_FIXED_KEYS = 10_000
_NAMES = (KEY, *VALUES)
# Every fourth key has two versions, and the others one.
_FIRST, _SECOND, _IN_TIME, _TOO_LATE = 10, 20, 30, 15
_VERSIONS = 4
_CHANGED = {"n": "n + 1", "price": "price * 2", "name": "concat(name, '*')"}
_SECOND_VALUES = {"n": "n - 1", "price": "price + 1", "name": "concat(name, '2')"}


class Targets:
    """A history target, and equal tables for the peers, each with the same rows in the same files.

    :param rows: how many rows each of them has
    """

    def __init__(
        self, spark: SparkSession, workshop: Workshop, rows: int, files: int = FILES
    ) -> None:
        self._spark = spark
        self._root = workshop.new_folder()
        self.rows = rows
        self.keys = rows * _VERSIONS // (_VERSIONS + 1)
        self.engine = Engine(spark, str(self._root / "state"))
        self.target, self.by_hand = str(self._root / "target"), str(self._root / "by hand")
        self.dbt = str(self._root / "dbt")
        self._make_target()
        own = f"{_START} BIGINT, {_END} BIGINT"
        settings = {VECTORS: True, ROW_TRACKING: True}
        create_table(spark, Path(self.by_hand), f"{COLUMNS}, {own}", settings, cluster=KEY)
        dbt = f"{COLUMNS}, {own}, {_HASH} STRING"
        create_table(spark, Path(self.dbt), dbt, settings, cluster=KEY)
        filled = self._filled().repartitionByRange(files, KEY)
        append(filled, self.target)
        append(filled, self.by_hand)
        append(filled.selectExpr("*", f"{_hash_of(_START)} AS {_HASH}"), self.dbt)
        locations = (self.target, self.by_hand, self.dbt)
        self._version = {location: newest_version(self._spark, location) for location in locations}

    def _make_target(self) -> None:
        """Create the target by an empty batch."""
        events = str(self._root / "no events")
        create_table(
            self._spark, Path(events), f"{COLUMNS}, {_SEQUENCE} BIGINT", {ROW_TRACKING: True}
        )
        self.engine.create_stream(
            "changes", on_table=events, mode="append_only", show_initial_rows=True
        )
        self._apply()

    def _filled(self) -> DataFrame:
        rows = new_rows(self._spark, self.keys)
        has_two = f"{KEY} % {_VERSIONS} = 0"
        end = f"if({has_two}, {_SECOND}L, CAST(NULL AS BIGINT)) AS {_END}"
        first = rows.selectExpr(*_NAMES, f"{_FIRST}L AS {_START}", end)
        values = [f"{_SECOND_VALUES.get(name, name)} AS {name}" for name in _NAMES]
        end = f"CAST(NULL AS BIGINT) AS {_END}"
        second = rows.where(has_two).selectExpr(*values, f"{_SECOND}L AS {_START}", end)
        return first.unionAll(second)

    def events(self, where: str, sequence: int) -> str:
        """A Delta table of events that change the rows of ``where``."""
        location = str(self._root / f"events {abs(hash((where, sequence)))}")
        columns = f"{COLUMNS}, {_SEQUENCE} BIGINT"
        create_table(self._spark, Path(location), columns, {ROW_TRACKING: True})
        found = self._spark.read.format("delta").load(self.by_hand).where(f"{_END} IS NULL")
        values = [f"{_CHANGED.get(name, name)} AS {name}" for name in _NAMES]
        rows = found.where(where).selectExpr(*values, f"{sequence}L AS {_SEQUENCE}")
        append(rows.coalesce(1), location)
        return location

    def prepare(self, events: str) -> None:
        """Bring all tables back to what they were filled with, and let ``events`` wait."""
        for location, version in self._version.items():
            if newest_version(self._spark, location) != version:
                self._spark.sql(f"RESTORE TABLE delta.`{location}` TO VERSION AS OF {version}")
                self._version[location] = newest_version(self._spark, location)
        self.engine.create_stream(
            "changes", on_table=events, mode="append_only", at=Version(0), or_replace=True
        )

    def apply(self) -> None:
        """Apply the events by the engine."""
        if self._apply() is None:
            raise AssertionError("no event waited")

    def _apply(self) -> object:
        return self.engine.apply_changes(
            self.target,
            KEY,
            stream="changes",
            consumer="benchmark",
            scd_type=2,
            sequence_by=_SEQUENCE,
            except_column_list=_SEQUENCE,
        )

    def merge_by_hand(self, events: str) -> None:
        """The MERGE that the documentation of Delta shows for type 2: each event that changes a
        current row comes twice, to end the row and to begin another one.
        """
        target, differs = f"delta.`{self.by_hand}`", _differs("t", "s")
        self._spark.sql(
            f"MERGE INTO {target} AS t USING ("
            f"SELECT s.{KEY} AS merge_key, s.* FROM delta.`{events}` AS s UNION ALL"
            f" SELECT NULL AS merge_key, s.* FROM delta.`{events}` AS s JOIN {target} AS t"
            f" ON s.{KEY} = t.{KEY} WHERE t.{_END} IS NULL AND ({differs})"
            f") AS s ON t.{KEY} = s.merge_key"
            f" WHEN MATCHED AND t.{_END} IS NULL AND ({differs})"
            f" THEN UPDATE SET {_END} = s.{_SEQUENCE}"
            f" WHEN NOT MATCHED THEN INSERT ({', '.join(_NAMES)}, {_START}, {_END})"
            f" VALUES ({', '.join(f's.{name}' for name in _NAMES)}, s.{_SEQUENCE}, NULL)"
        )

    def merge_of_dbt(self, events: str) -> None:
        """What dbt runs on Spark for a snapshot with the strategy timestamp: it stages the rows to
        insert and to end, and merges them by a hash of key and time.
        """
        target, names = f"delta.`{self.dbt}`", ", ".join(f"s.{name}" for name in _NAMES)
        current = f"SELECT * FROM {target} WHERE {_END} IS NULL"
        is_newer = f"t.{_START} < s.{_SEQUENCE}"
        staged = (
            f"SELECT 'insert' AS change, {names}, s.{_SEQUENCE}, {_hash_of(f's.{_SEQUENCE}', 's.')}"
            f" AS {_HASH} FROM delta.`{events}` AS s LEFT JOIN ({current}) AS t"
            f" ON s.{KEY} = t.{KEY} WHERE t.{KEY} IS NULL OR {is_newer} UNION ALL"
            f" SELECT 'update', {names}, s.{_SEQUENCE}, t.{_HASH} FROM delta.`{events}` AS s"
            f" JOIN ({current}) AS t ON s.{KEY} = t.{KEY} WHERE {is_newer}"
        )
        self._spark.sql(
            f"MERGE INTO {target} AS t USING ({staged}) AS s ON s.{_HASH} = t.{_HASH}"
            f" WHEN MATCHED AND t.{_END} IS NULL AND s.change IN ('update', 'delete')"
            f" THEN UPDATE SET {_END} = s.{_SEQUENCE}"
            f" WHEN NOT MATCHED AND s.change = 'insert' THEN INSERT"
            f" ({', '.join(_NAMES)}, {_START}, {_END}, {_HASH})"
            f" VALUES ({names}, s.{_SEQUENCE}, NULL, s.{_HASH})"
        )

    def check(self, events: str, *, with_peers: bool) -> None:
        """Compare the target with the intervals of all events, and with the peers."""
        found = self._spark.read.format("delta").load(events)
        came = [*_NAMES, f"{_SEQUENCE} AS {_START}"]
        known = self._filled().select(*_NAMES, _START).unionAll(found.selectExpr(*came))
        end = f"lead({_START}) OVER (PARTITION BY {KEY} ORDER BY {_START}) AS {_END}"
        expected = _digest(known.selectExpr("*", end))
        peers = (self.by_hand, self.dbt) if with_peers else ()
        for location in (self.target, *peers):
            held = _digest(self._spark.read.format("delta").load(location))
            if held != expected:
                raise AssertionError(f"{location}: found {held}, expected {expected}")


def one_size(
    spark: SparkSession, workshop: Workshop, rows: int, patience: Patience
) -> Iterator[Row]:
    """Apply events in time and late."""
    targets = Targets(spark, workshop, rows)
    middle, hundredth = targets.keys // 2, targets.keys // 100
    spread = f"pmod(xxhash64({KEY}, 7), 100) = 0"
    near = f"{KEY} BETWEEN {middle} AND {middle + hundredth - 1}"
    late = f"{KEY} % {_VERSIONS} = 0 AND pmod(xxhash64({KEY}, 7), 25) = 0"
    for workload, where, sequence in (
        (SPREAD, spread, _IN_TIME),
        (RANGE, near, _IN_TIME),
        (LATE, late, _TOO_LATE),
    ):
        events = targets.events(where, sequence)
        ways: dict[str, Callable[[], None]] = {
            APPLY: targets.apply,
            BY_HAND: partial(targets.merge_by_hand, events),
            DBT: partial(targets.merge_of_dbt, events),
        }
        prepare = partial(targets.prepare, events)
        timings = timed_in_turns(spark, list(ways.values()), patience, prepare=prepare)
        prepare()
        for work in ways.values():
            work()
        # The peers know no late events: each of them leaves a wrong history.
        targets.check(events, with_peers=workload != LATE)
        for way, timing in zip(ways, timings, strict=True):
            yield Row(workload, way, timing)


def growth(spark: SparkSession, workshop: Workshop, rows: int, patience: Patience) -> Iterator[Row]:
    """Apply the same number of events to a tenth of the rows and to all rows, in files of one
    size.
    """
    for share in (10, 1) if patience.is_thorough else (10,):
        targets = Targets(spark, workshop, rows // share, FILES // share)
        fixed = min(_FIXED_KEYS, targets.keys // 10)
        events = targets.events(f"{KEY} BETWEEN 0 AND {fixed - 1}", _IN_TIME)
        prepare = partial(targets.prepare, events)
        (timing,) = timed_in_turns(spark, [targets.apply], patience, prepare=prepare)
        yield Row(FIXED, f"{APPLY}, {targets.rows:,} rows", timing)


def _hash_of(sequence: str, prefix: str = "") -> str:
    parts = (f"coalesce(CAST({each} AS STRING), '')" for each in (f"{prefix}{KEY}", sequence))
    return f"md5(concat_ws('|', {', '.join(parts)}))"


def _differs(left: str, right: str) -> str:
    return " OR ".join(f"NOT ({left}.{name} <=> {right}.{name})" for name in VALUES)


def _digest(rows: DataFrame) -> object:
    text = ", ".join(f"`{name}`" for name in (*_NAMES, _START, _END))
    return rows.selectExpr("count(*)", f"bit_xor(xxhash64({text}))").first()
