"""Recompute the targets from the source and compare them row for row."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from airflow_provider_cdc.engine import Engine

from . import session
from .tables import FLIGHT_COLUMNS, PUNCTUALITY_COUNTS, WATCHED_COLUMNS, Warehouse, delta
from .targets import AIRCRAFT_SEQUENCE

SHOWN_ROWS = 10


@dataclass(frozen=True, slots=True)
class Comparison:
    """How many rows of a target were expected, how many it holds, and how many differ."""

    target: str
    rows_expected: int
    rows_compared: int
    rows_differing: int


def expected_punctuality(flights: DataFrame, airlines: DataFrame) -> DataFrame:
    """The correct content of ``carrier_punctuality``, by one aggregation of the whole source."""
    sums = ", ".join(f"SUM({term}) AS {name}" for name, term in PUNCTUALITY_COUNTS.items())
    return flights.sparkSession.sql(
        f"SELECT flight.carrier, FIRST(airline.name) AS name, {sums} FROM {{flights}} AS flight "
        "LEFT JOIN {airlines} AS airline ON airline.carrier = flight.carrier "
        "GROUP BY flight.carrier",
        flights=flights,
        airlines=airlines,
    )


def expected_movements(engine: Engine, flights: str) -> DataFrame:
    """The correct content of ``movements``: what the change feed shows of each commit."""
    since = engine.enable_change_tracking(flights).row_tracking_since
    row = f"struct({', '.join(WATCHED_COLUMNS)})"
    is_old = "_change_type IN ('delete', 'update_preimage')"
    feed = engine.change_feed(flights, from_version=since)
    both = feed.groupBy("_commit_version", "flight_id").agg(
        F.expr(f"first(IF({is_old}, {row}, NULL), true) AS old"),
        F.expr(f"first(IF({is_old}, NULL, {row}), true) AS new"),
    )
    kind = F.when(F.col("old").isNull(), "INSERT").when(F.col("new").isNull(), "DELETE")
    detail = f"DESCRIBE DETAIL {delta(flights)}"
    (table,) = feed.sparkSession.sql(detail).select("id").collect()
    return both.where("NOT old <=> new").select(
        F.concat(F.lit(f"{table.id}:"), "_commit_version").alias("transaction"),
        "flight_id",
        kind.otherwise("UPDATE").alias("kind"),
        *(F.coalesce("new", "old").getField(name).alias(name) for name in WATCHED_COLUMNS),
    )


def expected_aircraft_history(engine: Engine, flights: str) -> DataFrame:
    """The correct content of ``aircraft_history``: the carriers of each aircraft in the order of
    all its flights, from the change feed.
    """
    since = engine.enable_change_tracking(flights).row_tracking_since
    feed = engine.change_feed(flights, from_version=since)
    known = feed.where("_change_type IN ('insert', 'update_postimage') AND tailnum IS NOT NULL")
    sequence = f"struct({', '.join(AIRCRAFT_SEQUENCE)}) AS __START_AT"
    flown = known.selectExpr("tailnum", "carrier", sequence).distinct()
    order = "OVER (PARTITION BY tailnum ORDER BY __START_AT)"
    begun = flown.withColumn("before", F.expr(f"lag(carrier) {order}"))
    begun = begun.where("NOT carrier <=> before").drop("before")
    return begun.withColumn("__END_AT", F.expr(f"lead(__START_AT) {order}"))


def compare(target: str, expected: DataFrame, found: DataFrame) -> Comparison:
    """Compare as multisets of rows in one pass, and print the first rows that differ."""
    columns = expected.columns
    both = expected.selectExpr("*", "1 AS _expected", "0 AS _found").unionAll(
        found.select(columns).selectExpr("*", "0 AS _expected", "1 AS _found")
    )
    counted = both.groupBy(columns).agg(
        F.sum("_expected").alias("_expected"), F.sum("_found").alias("_found")
    )
    sums = counted.selectExpr(
        "COALESCE(SUM(_expected), 0)",
        "COALESCE(SUM(_found), 0)",
        "COALESCE(SUM(ABS(_expected - _found)), 0)",
    )
    ((rows_expected, rows_found, differing),) = sums.collect()
    if differing:
        for reason, condition in (
            ("missing", "_expected > _found"),
            ("surplus", "_expected < _found"),
        ):
            for row in counted.where(condition).select(columns).take(SHOWN_ROWS):
                print(f"compare: {target}: {reason}: {row.asDict()}", flush=True)
    return Comparison(target, rows_expected, rows_found, differing)


def run(spark: SparkSession, warehouse: Warehouse, state: str) -> list[Comparison]:
    """Compare the targets, the upsert table and the archive with the source as it is now, and what
    the readers of partitions wrote with its change feed.
    """
    flights = spark.read.format("delta").load(warehouse.flights).select(*FLIGHT_COLUMNS)
    airlines = spark.read.format("delta").load(warehouse.airlines)
    current = spark.read.format("delta").load(warehouse.current_flights)
    punctuality = spark.read.format("delta").load(warehouse.carrier_punctuality)
    engine = session.engine(spark, state)
    board = engine.read_upsert_table(warehouse.flight_board)
    replayed = engine.replay(warehouse.flights_archive)
    movements = spark.read.format("delta").load(warehouse.movements)
    history = spark.read.format("delta").load(warehouse.aircraft_history)
    return [
        compare("current_flights", flights, current),
        compare("flight_board", flights, board),
        compare("flights, replayed from its archive", flights, replayed),
        compare("movements", expected_movements(engine, warehouse.flights), movements),
        compare("aircraft_history", expected_aircraft_history(engine, warehouse.flights), history),
        compare("carrier_punctuality", expected_punctuality(flights, airlines), punctuality),
    ]


def passed(comparisons: list[Comparison]) -> bool:
    """Whether every target holds rows, and no row differs."""
    return all(item.rows_compared and not item.rows_differing for item in comparisons)


def main() -> None:
    """Compare, print, write --result, and exit with 1 if a row differs or no row was compared."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--warehouse", required=True, help="folder of the tables")
    parser.add_argument("--cdc-state", required=True, help="the state folder of the engine")
    parser.add_argument("--result", required=True, type=Path, help="JSON file to write")
    options = parser.parse_args()
    spark = session.start("flights compare")
    try:
        comparisons = run(spark, Warehouse(options.warehouse), options.cdc_state)
    finally:
        spark.stop()
    for item in comparisons:
        print(
            f"compare: {item.target}: rows compared {item.rows_compared} "
            f"of {item.rows_expected} expected, rows differing {item.rows_differing}",
            flush=True,
        )
    good = passed(comparisons)
    result = {"passed": good, "targets": [asdict(item) for item in comparisons]}
    options.result.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    raise SystemExit(0 if good else 1)


if __name__ == "__main__":
    main()
