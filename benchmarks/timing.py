"""Timing an action of Spark that may have to be stopped."""

from __future__ import annotations

import statistics
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of each repeat; ``is_lower_bound``: it was stopped after that long."""

    seconds: tuple[float, ...]
    is_lower_bound: bool = False

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def timed(
    spark: SparkSession, read: Callable[[], DataFrame], *, repeats: int, limit: float
) -> Timing:
    """How long it takes to make and to read every row of what ``read`` returns.

    The first round warms up; what needs longer than ``limit`` seconds is stopped.
    """
    found: list[float] = []
    for number in range(repeats + 1):
        seconds, was_stopped = _once(spark, read, limit)
        if was_stopped:
            return Timing((seconds,), is_lower_bound=True)
        if number or repeats == 0:
            found.append(round(seconds, 4))
    return Timing(tuple(found))


def _once(spark: SparkSession, read: Callable[[], DataFrame], limit: float) -> tuple[float, bool]:
    tag = f"timed-{uuid.uuid4().hex}"
    stopped = threading.Event()

    def stop() -> None:
        stopped.set()
        spark.interruptTag(tag)

    timer = threading.Timer(limit, stop)
    spark.addTag(tag)
    timer.start()
    begun = time.perf_counter()
    try:
        read().write.format("noop").mode("overwrite").save()
    except Exception:
        if not stopped.is_set():
            raise
    finally:
        seconds = time.perf_counter() - begun
        timer.cancel()
        spark.removeTag(tag)
    return (limit, True) if stopped.is_set() else (seconds, False)
