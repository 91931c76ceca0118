"""How long the tasks of a Spark application took, from the JVM that drives it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def slot_meter(spark: SparkSession) -> Callable[[], int] | None:
    """Gives the milliseconds that all tasks of the application took so far; ``None`` over Spark
    Connect, where many sessions share the executors and nobody tells whose a task was.
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
