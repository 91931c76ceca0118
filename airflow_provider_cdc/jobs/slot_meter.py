"""Measure how long the tasks of a Spark application took, in the JVM of its driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def slot_meter(spark: SparkSession) -> Callable[[], int] | None:
    """Return a function that returns the milliseconds of all tasks of the application so far.

    ``None``: the session is over Spark Connect. There many sessions share the executors, and a task
    does not show its session.
    """
    context: Any = getattr(spark, "_sc", None)
    if context is None:
        return None
    store = context._jsc.sc().statusStore()

    def milliseconds() -> int:
        executors = store.executorList(False)
        found = range(executors.size())
        return sum(int(executors.apply(number).totalDuration()) for number in found)

    return milliseconds
