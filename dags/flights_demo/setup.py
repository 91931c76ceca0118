"""Create the demo's tables: an empty source, empty targets, and the names of the airlines."""

from __future__ import annotations

import argparse

from pyspark.sql import SparkSession

from airflow_provider_cdc.engine import StreamMode, ValueCaptureType, Watch

from . import session
from .dataset import AIRLINES, publish
from .tables import (
    FLIGHT_COLUMNS,
    MOVEMENT_COLUMNS,
    PUNCTUALITY_COUNTS,
    WATCHED_COLUMNS,
    Warehouse,
    delta,
)
from .targets import AIRCRAFT_FEED, MOVEMENTS

# Two jobs and the replay each have a Spark of their own, perhaps on two cores. Then an apply takes
# a minute or two. BigQuery recommends twice that and seven minutes.
BOARD_STALENESS = "INTERVAL 15 MINUTE"
ROWS_OF_A_PARTITION = 20_000
DELETION_VECTORS = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"


def create_tables(spark: SparkSession, warehouse: Warehouse, state: str) -> None:
    """Create the tables that do not exist yet."""
    flight = ", ".join(f"{name} {kind}" for name, kind in FLIGHT_COLUMNS.items())
    counts = ", ".join(f"{name} BIGINT" for name in PUNCTUALITY_COUNTS)
    movement = ", ".join(f"{name} {kind}" for name, kind in MOVEMENT_COLUMNS.items())
    columns = {
        warehouse.flights: flight,
        warehouse.current_flights: flight,
        warehouse.carrier_punctuality: f"carrier STRING, name STRING, {counts}",
        warehouse.movements: movement,
    }
    for path, definition in columns.items():
        spark.sql(
            f"CREATE TABLE IF NOT EXISTS {delta(path)} ({definition}) "
            f"USING delta {DELETION_VECTORS}"
        )
    engine = session.engine(spark, state)
    engine.create_change_stream(
        MOVEMENTS,
        {warehouse.flights: Watch(keys=["flight_id"], columns=WATCHED_COLUMNS)},
        value_capture_type=ValueCaptureType.NEW_ROW_AND_OLD_VALUES,
        partitions=2,
        target_rows=ROWS_OF_A_PARTITION,
        if_not_exists=True,
    )
    engine.create_stream(
        AIRCRAFT_FEED, on_table=warehouse.flights, mode=StreamMode.FEED, if_not_exists=True
    )
    engine.create_upsert_table(
        warehouse.flight_board,
        flight,
        "flight_id",
        max_staleness=BOARD_STALENESS,
        if_not_exists=True,
    )
    airlines = spark.read.csv(
        publish(AIRLINES, warehouse.files), header=True, schema="carrier STRING, name STRING"
    )
    airlines.coalesce(1).write.format("delta").mode("overwrite").save(warehouse.airlines)


def main() -> None:
    """Create the tables below --warehouse."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--warehouse", required=True, help="folder of the tables")
    parser.add_argument("--cdc-state", required=True, help="the state folder of the engine")
    options = parser.parse_args()
    warehouse = Warehouse(options.warehouse)
    spark = session.start("flights setup")
    try:
        create_tables(spark, warehouse, options.cdc_state)
    finally:
        spark.stop()
    print(f"setup: tables are in {warehouse.root}", flush=True)


if __name__ == "__main__":
    main()
