"""The time from a commit of a source to the commit of a target, under a real Airflow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from ..results import Row
from ..tables import Workshop
from . import idle
from .idle import NAME as IDLE
from .idle import UNWATCHED, WATCHED
from .lab import CONNECT, SUBMIT, Lab, new_lab
from .measuring import STAGES, TOTAL, Variant, measure

__all__ = ["IDLE", "STAGES", "TOTAL", "UNWATCHED", "WATCHED"]

WOKEN, WAITING, TIMER = "woken", "waiting", "timer"
ASSET_CONNECT = "woken by the stream's asset, Spark Connect"
SENSOR_CONNECT = "deferrable sensor, Spark Connect"
ASSET_SUBMIT = "woken by the stream's asset, spark-submit"
SENSOR_SUBMIT = "deferrable sensor, spark-submit"
STREAMING = "Structured Streaming job that always runs, trigger of 1 s"
TIMED = "timer of one minute, spark-submit of availableNow by hand"
OURS_BY_CONNECT = (ASSET_CONNECT, SENSOR_CONNECT)
OURS_BY_SUBMIT = (ASSET_SUBMIT, SENSOR_SUBMIT)
VARIANTS = (
    Variant(ASSET_CONNECT, WOKEN, CONNECT),
    Variant(SENSOR_CONNECT, WAITING, CONNECT),
    Variant(ASSET_SUBMIT, WOKEN, SUBMIT),
    Variant(SENSOR_SUBMIT, WAITING, SUBMIT),
    Variant(STREAMING, "", "streaming"),
    Variant(TIMED, TIMER, SUBMIT),
)


@dataclass(frozen=True, slots=True)
class Effort:
    """How many changes each variant makes, and for how many seconds an Airflow is watched while
    nothing changes.
    """

    changes: int
    idle_seconds: float

    @classmethod
    def of_size(cls, changes: int, *, is_full: bool) -> Effort:
        """The effort of a whole run, or of a smoke test.

        :param changes: 0: by size
        """
        return cls(changes or (100 if is_full else 2), 240 if is_full else 20)

    def changes_of(self, variant: Variant) -> int:
        """The number of changes of a variant: fewer if each takes long."""
        if variant.dag == TIMER:
            # A change waits half a minute for the timer.
            return max(2, self.changes // 10)
        return max(2, self.changes // 2) if variant.spark == SUBMIT else self.changes


def pieces(
    spark: SparkSession, workshop: Workshop, effort: Effort
) -> Iterator[tuple[str, Callable[[], Iterator[Row]]]]:
    """Each variant, in one Airflow on one Connect server, and the cost of watching."""
    with ExitStack() as stack:
        labs: list[Lab] = []

        def lab() -> Lab:
            if not labs:
                labs.append(stack.enter_context(new_lab(spark, workshop.new_folder())))
            return labs[0]

        for variant in VARIANTS:
            changes = effort.changes_of(variant)
            yield (
                variant.name,
                lambda variant=variant, changes=changes: measure(lab(), variant, changes),
            )
    yield IDLE, partial(idle.measure, spark, workshop, effort.idle_seconds)
