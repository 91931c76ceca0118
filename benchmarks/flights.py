"""Real data: the flights of 2013, replayed as an operational system writes them."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from flights_demo.replay import Replay, load_events, ticks
from flights_demo.tables import FLIGHT_COLUMNS
from pyspark.sql import DataFrame, SparkSession

from .readers import SNAPSHOTS
from .shapes import Expected
from .tables import FEED, ROW_TRACKING, VECTORS, Bench, bench_of, create_table

NAME = "flights of 2013, the second half in commits of events, vectors and feed"
KEY = "flight_id"
TICKS = 26


def build(spark: SparkSession, root: Path, days: int) -> Bench:
    """Half of ``days`` days of 2013 before the stream's offset, and the other half after it."""
    events = _events(spark, days)
    columns = ", ".join(f"{name} {kind}" for name, kind in FLIGHT_COLUMNS.items())
    create_table(spark, root / "t", columns, {ROW_TRACKING: True, VECTORS: True, FEED: True})
    parts = list(ticks(days, max(1, days // TICKS)))
    middle = len(parts) // 2
    for tick in parts[:middle]:
        Replay(spark, str(root / "t"), events).run(tick)

    def write(table: str) -> None:
        for tick in parts[middle:]:
            Replay(spark, table, events).run(tick)

    values = tuple(name for name in FLIGHT_COLUMNS if name != KEY)
    bench = bench_of(spark, root, write, KEY, values, Expected())
    events.unpersist()
    counted = SNAPSHOTS.counted
    assert counted is not None
    expected = counted(SNAPSHOTS.read(spark, bench))
    return replace(bench, expected=expected)


def _events(spark: SparkSession, days: int) -> DataFrame:
    with tempfile.TemporaryDirectory(prefix="flights") as folder:
        events = load_events(spark, folder, days)
        events.count()
    return events
