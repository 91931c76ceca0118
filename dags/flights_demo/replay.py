"""Replay the flights of 2013 as an operational system would write them.

A flight is inserted a day before its scheduled departure, updated when it departs and again when it
arrives, and deleted when it is cancelled. Time runs in ticks. Each kind of event of a tick is one
commit. A flight that is in the air at the end of a tick arrives in the next tick.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import reduce

from pyspark.sql import DataFrame, SparkSession

from . import session
from .dataset import FLIGHTS, publish
from .tables import FLIGHT_COLUMNS, Warehouse, delta

CSV_SCHEMA = """
  year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT,
  sched_arr_time INT, arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING,
  dest STRING, air_time INT, distance INT, hour INT, minute INT, time_hour STRING
"""
MINUTES_PER_DAY = 1440
# Ticks end at noon, when many flights are in the air.
NOON = 720
YEAR_DAYS = 365
USUAL_TICKS = 26

# The first kind of event, by its place in their order, that has a value for the column.
KNOWN_FROM = {"dep_time": 1, "dep_delay": 1, "arr_time": 2, "arr_delay": 2, "air_time": 2}

EVENTS = """
WITH planned AS (
  SELECT *,
    MAKE_DATE(year, month, day) AS flight_date,
    DATEDIFF(MAKE_DATE(year, month, day), DATE'2013-01-01') * 1440 + hour * 60 + minute AS planned
  FROM {csv}
)
SELECT *,
  CONCAT_WS('-', flight_date, carrier, flight, origin) AS flight_id,
  planned - 1440 AS scheduled_at,
  IF(dep_time IS NULL, planned, NULL) AS cancelled_at,
  IF(dep_time IS NULL, NULL, planned + dep_delay) AS departed_at,
  IF(arr_time IS NULL, NULL, planned + dep_delay + COALESCE(air_time, 30 + distance DIV 8))
    AS arrived_at
FROM planned
"""


@dataclass(frozen=True, slots=True)
class Tick:
    """The minutes after ``after`` up to and including ``through``, counted from 2013-01-01."""

    after: int
    through: int


@dataclass(frozen=True, slots=True)
class Batch:
    """The flights of one commit, and the first and the last day that they belong to."""

    flights: DataFrame
    first: date
    last: date


@dataclass(frozen=True, slots=True)
class Replay:
    """One run: the table that it writes to, and its events."""

    spark: SparkSession
    table: str
    events: DataFrame

    def run(self, tick: Tick) -> dict[str, int]:
        """Write the commits of ``tick``; returns the rows of each."""
        writers: dict[str, Callable[[Batch], None]] = {
            "scheduled": self._insert,
            "departed": self._depart,
            "arrived": self._arrive,
            "cancelled": self._cancel,
        }
        conditions = _conditions(tick)
        measures = (
            f"{function} FILTER (WHERE {condition})"
            for condition in conditions.values()
            for function in ("COUNT(*)", "MIN(flight_date)", "MAX(flight_date)")
        )
        (row,) = self.events.selectExpr(*measures).collect()
        found = iter(row)
        rows = {}
        for kind, write in writers.items():
            rows[kind], first, last = next(found), next(found), next(found)
            if rows[kind]:
                write(Batch(self.events.where(conditions[kind]), first, last))
        return rows

    def changes(self, tick: Tick) -> DataFrame:
        """The changes of ``tick``, in any order: their sequence numbers show which is the
        newest.
        """
        of_kinds = []
        for rank, (kind, condition) in enumerate(_conditions(tick).items()):
            columns = [
                f"'{kind}' AS status"
                if name == "status"
                else name
                if rank >= KNOWN_FROM.get(name, 0)
                else f"CAST(NULL AS {type_}) AS {name}"
                for name, type_ in FLIGHT_COLUMNS.items()
            ]
            action = "DELETE" if kind == "cancelled" else "UPSERT"
            number = f"CONCAT(HEX({kind}_at + {MINUTES_PER_DAY}), '/{rank}')"
            columns += [f"'{action}' AS _CHANGE_TYPE", f"{number} AS _CHANGE_SEQUENCE_NUMBER"]
            of_kinds.append(self.events.where(condition).selectExpr(*columns))
        return reduce(DataFrame.unionAll, reversed(of_kinds)).coalesce(1)

    def _insert(self, batch: Batch) -> None:
        columns = [
            f"CAST(NULL AS {kind}) AS {name}"
            if name in KNOWN_FROM
            else "'scheduled' AS status"
            if name == "status"
            else name
            for name, kind in FLIGHT_COLUMNS.items()
        ]
        batch.flights.selectExpr(*columns).coalesce(1).write.format("delta").mode("append").save(
            self.table
        )

    def _depart(self, batch: Batch) -> None:
        self._merge(
            batch,
            "UPDATE SET status = 'departed', dep_time = event.dep_time, "
            "dep_delay = event.dep_delay",
        )

    def _arrive(self, batch: Batch) -> None:
        self._merge(
            batch,
            "UPDATE SET status = 'arrived', arr_time = event.arr_time, "
            "arr_delay = event.arr_delay, air_time = event.air_time",
        )

    def _cancel(self, batch: Batch) -> None:
        self._merge(batch, "DELETE")

    def _merge(self, batch: Batch, action: str) -> None:
        # Literal bounds let Delta skip the files of other days.
        self.spark.sql(
            f"MERGE INTO {delta(self.table)} AS flight USING {{events}} AS event "
            f"ON flight.flight_id = event.flight_id "
            f"AND flight.flight_date BETWEEN DATE'{batch.first}' AND DATE'{batch.last}' "
            f"WHEN MATCHED THEN {action}",
            events=batch.flights,
        )


def _conditions(tick: Tick) -> dict[str, str]:
    """The events of each kind in a tick, with the kinds in the order of a flight's life."""
    return {
        kind: f"{kind}_at > {tick.after} AND {kind}_at <= {tick.through}"
        for kind in ("scheduled", "departed", "arrived", "cancelled")
    }


def ticks(days: int, tick_days: int) -> Iterator[Tick]:
    """The ticks up to noon of the day after the last of ``days``."""
    end = days * MINUTES_PER_DAY + NOON
    after = -MINUTES_PER_DAY - 1
    for through in [
        *range(tick_days * MINUTES_PER_DAY + NOON, end, tick_days * MINUTES_PER_DAY),
        end,
    ]:
        yield Tick(after, through)
        after = through


def load_events(spark: SparkSession, folder: str, days: int) -> DataFrame:
    """The flights of ``days`` days and the two after, with the minute of each of their events.

    :param folder: where the file of flights is published
    """
    path = publish(FLIGHTS, folder)
    csv = spark.read.csv(path, header=True, schema=CSV_SCHEMA, nullValue="NA")
    events = spark.sql(EVENTS, csv=csv)
    # At the end of the last tick the next day's flights are already scheduled.
    return events.where(f"planned <= {(days + 2) * MINUTES_PER_DAY}").repartition(2).cache()


def run(spark: SparkSession, warehouse: Warehouse, state: str, days: int, tick_days: int) -> int:
    """Replay the first ``days`` days in ticks of ``tick_days``; returns the rows written."""
    started = time.monotonic()
    written = commits = 0
    events = load_events(spark, warehouse.files, days)
    replay, engine = Replay(spark, warehouse.flights, events), session.engine(spark, state)
    for number, tick in enumerate(ticks(days, tick_days), start=1):
        rows = replay.run(tick)
        engine.write_changes(warehouse.flight_board, replay.changes(tick))
        written += sum(rows.values())
        commits += sum(1 for count in rows.values() if count)
        counts = ", ".join(f"{count} {kind}" for kind, count in rows.items())
        print(f"replay: tick {number}: {counts}; {time.monotonic() - started:.0f} s", flush=True)
    events.unpersist()
    seconds = time.monotonic() - started
    print(
        f"replay: {days} days, {commits} commits, {written} rows changed in {seconds:.0f} s "
        f"({seconds / max(commits, 1):.2f} s a commit)",
        flush=True,
    )
    return written


def positive(text: str) -> int:
    """A whole number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return number


def main() -> None:
    """Replay into the source table below --warehouse."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--warehouse", required=True, help="folder of the tables")
    parser.add_argument("--cdc-state", required=True, help="the state folder of the engine")
    parser.add_argument("--days", type=positive, default=YEAR_DAYS, help="days of 2013, from 1")
    parser.add_argument("--tick-days", type=positive, help="days that a tick covers")
    options = parser.parse_args()
    days = min(options.days, YEAR_DAYS)
    tick_days = options.tick_days or max(1, round(days / USUAL_TICKS))
    spark = session.start("flights replay")
    try:
        run(spark, Warehouse(options.warehouse), options.cdc_state, days, tick_days)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
