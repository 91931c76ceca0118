from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from flights_demo import compare, replay, setup
from flights_demo.tables import Warehouse, delta
from flights_demo.targets import (
    AIRCRAFT_FEED,
    AIRCRAFT_SEQUENCE,
    MOVEMENTS,
    OPERATORS_OF_AIRCRAFT,
    add_movements,
    consumption,
)

from airflow_provider_cdc.engine import Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

STREAM = "flights_changes"


@pytest.fixture
def state(tmp_path: Path) -> str:
    return str(tmp_path / "state")


@pytest.fixture
def warehouse(spark: SparkSession, tmp_path: Path, state: str) -> Warehouse:
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    setup.create_tables(spark, warehouse, state)
    return warehouse


@pytest.fixture
def engine(spark: SparkSession, warehouse: Warehouse, state: str) -> Engine:
    engine = Engine(spark, state)
    engine.create_stream(STREAM, on_table=warehouse.flights)
    return engine


def keep_history(engine: Engine, warehouse: Warehouse) -> None:
    """What the DAG ``aircraft_history`` does."""
    engine.apply_changes(
        warehouse.aircraft_history,
        "tailnum",
        stream=AIRCRAFT_FEED,
        query=OPERATORS_OF_AIRCRAFT,
        consumer="demo",
        scd_type=2,
        sequence_by=AIRCRAFT_SEQUENCE,
        column_list="carrier",
    )


def test_replayed_ticks_equal_the_recomputed_targets_until_a_row_changes(
    spark: SparkSession, warehouse: Warehouse, engine: Engine, state: str
) -> None:
    events = replay.load_events(spark, warehouse.files, days=2)
    run = replay.Replay(spark, warehouse.flights, events)
    engine.archive_changes(warehouse.flights, warehouse.flights_archive)

    for tick in replay.ticks(days=2, tick_days=1):
        assert all(run.run(tick).values()), tick
        outcome = engine.consume(consumption(STREAM, warehouse), consumer="demo")
        assert outcome.streams[0].rows["inserted"] > 0
        engine.write_changes(warehouse.flight_board, run.changes(tick))
        engine.apply_upserts(warehouse.flight_board)
        engine.advance_change_stream(MOVEMENTS)
        for read in engine.list_partitions(MOVEMENTS, "demo"):
            engine.consume_partition(
                MOVEMENTS, "demo", read.partition_token, add_movements(warehouse)
            )
        keep_history(engine, warehouse)
    engine.archive_changes(warehouse.flights, warehouse.flights_archive)
    comparisons = compare.run(spark, warehouse, state)

    assert compare.passed(comparisons), comparisons
    assert comparisons[0].rows_compared > 1000
    statuses = spark.read.format("delta").load(warehouse.flights).select("status").distinct()
    assert {row.status for row in statuses.collect()} == {"scheduled", "departed", "arrived"}

    spark.sql(
        f"UPDATE {delta(warehouse.carrier_punctuality)} SET flights = flights + 1 "
        "WHERE carrier = 'UA'"
    )
    *others, punctuality = compare.run(spark, warehouse, state)

    assert [item.rows_differing for item in others] == [0, 0, 0, 0, 0]
    assert punctuality.rows_differing == 2
    assert not compare.passed([*others, punctuality])


def test_comparison_of_empty_targets_does_not_pass(
    spark: SparkSession, warehouse: Warehouse, state: str
) -> None:
    engine = Engine(spark, state)
    engine.archive_changes(warehouse.flights, warehouse.flights_archive)
    keep_history(engine, warehouse)
    comparisons = compare.run(spark, warehouse, state)

    assert [item.rows_differing for item in comparisons] == [0, 0, 0, 0, 0, 0]
    assert not compare.passed(comparisons)


def test_ticks_follow_each_other_and_end_at_noon_after_the_last_day() -> None:
    ticks = list(replay.ticks(days=10, tick_days=7))

    assert [tick.through for tick in ticks] == [7 * 1440 + 720, 10 * 1440 + 720]
    assert [tick.after for tick in ticks] == [-1441, 7 * 1440 + 720]
