"""Times a piece of Spark's work that may have to be stopped."""

from __future__ import annotations

import math
import random
import shutil
import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pyspark.errors import PySparkAttributeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

# Work that takes this long is not repeated: its first round is the measurement itself.
LONG_SECONDS = 60
# The JVM compiles the code of a round after some seconds or some rounds.
WARM_SECONDS = 10
WARMING_ROUNDS = 5
# Rounds in turn go on up to this number of rounds, or up to this time.
MOST_TURNS = 9
TURNS_SECONDS = 120
# A round that leaves less free disk space is stopped, before it fails because the disk is full.
LEAST_FREE_BYTES = 4 * 10**9


@dataclass(frozen=True, slots=True)
class Timing:
    """The seconds of each repeat. ``is_lower_bound``: it was stopped after that long.
    ``has_filled_disk``: it was stopped because it had filled the disk.
    """

    seconds: tuple[float, ...]
    is_lower_bound: bool = False
    has_filled_disk: bool = False

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def p95(self) -> float:
        """The seconds that 95 % of the repeats do not exceed: one of them, not a mean of two."""
        return sorted(self.seconds)[math.ceil(0.95 * len(self.seconds)) - 1]

    @property
    def short(self) -> str:
        """The median for a table."""
        bound = "≥ " if self.is_lower_bound else ""
        end = ", disk full" if self.has_filled_disk else ""
        return f"{bound}{self.median:{'.3g' if self.median < 1 else '.2f'}}{end}"

    def __str__(self) -> str:
        bound = "at least " if self.is_lower_bound else ""
        return f"{bound}{self.median:.3f} s ({', '.join(f'{each:.3f}' for each in self.seconds)})"


@dataclass(frozen=True, slots=True)
class Patience:
    """``repeats`` rounds after those that warm up, none longer than ``limit`` seconds."""

    repeats: int
    limit: float

    @property
    def is_thorough(self) -> bool:
        """Whether figures are wanted; otherwise one round shows that everything works."""
        return self.repeats > 1


def timed(
    spark: SparkSession,
    work: Callable[[], object],
    patience: Patience,
    *,
    prepare: Callable[[], object] = lambda: None,
) -> Timing:
    """How long ``work`` takes.

    :param prepare: is called before each round, outside of its time
    """
    warm = _warmed(spark, work, patience, prepare)
    if warm.is_measured:
        return warm.timing
    return _repeated(spark, work, patience, prepare, warm.spent)


def timed_at_best(
    spark: SparkSession, ways: Sequence[Callable[[], object]], patience: Patience
) -> Timing:
    """How long the fastest of ``ways`` to do the same takes, by their last warming rounds. After a
    way that takes long no other way is tried.
    """
    tried: list[_Warm] = []
    for way in ways:
        tried.append(_warmed(spark, way, patience))
        if tried[-1].is_measured:
            break
    best = min(range(len(tried)), key=lambda place: tried[place].order)
    if tried[best].is_measured:
        return tried[best].timing
    return _repeated(spark, ways[best], patience, spent=tried[best].spent)


def timed_in_turns(
    spark: SparkSession,
    works: Sequence[Callable[[], object]],
    patience: Patience,
    *,
    prepare: Callable[[], object] | Sequence[Callable[[], object]] = lambda: None,
) -> list[Timing]:
    """How long each of ``works`` takes. When all are warm, they run in turn, one round each, so
    that all of them meet the same machine and the same JVM. Work that takes long is not repeated.

    :param prepare: is called before each round of each work, outside of its time; or one for each
        of ``works``
    """
    prepares = [prepare] * len(works) if callable(prepare) else prepare
    warm = [
        _warmed(spark, work, patience, before) for work, before in zip(works, prepares, strict=True)
    ]
    quick = [place for place, each in enumerate(warm) if not each.is_measured]
    turns: dict[int, list[float]] = {place: [] for place in quick}
    count, order = 0, random.Random(0)
    begun = time.perf_counter()
    while quick and (
        count < patience.repeats
        or (count < MOST_TURNS and time.perf_counter() - begun < TURNS_SECONDS)
    ):
        # In a random order, so that no work always follows the same one.
        for place in order.sample(quick, len(quick)):
            prepares[place]()
            once = _once(spark, works[place], patience.limit)
            if once.is_lower_bound:
                raise RuntimeError(f"way {place} took {once}, after {warm[place].timing}")
            turns[place].extend(once.seconds)
        count += 1
    return [
        Timing(tuple(turns[place])) if place in turns else each.timing
        for place, each in enumerate(warm)
    ]


@dataclass(frozen=True, slots=True)
class _Warm:
    """The last of the rounds that warm up, which took ``spent`` seconds together. ``is_measured``:
    no more rounds are needed, because it takes long or only one round is wanted.
    """

    timing: Timing
    spent: float
    is_measured: bool

    @property
    def order(self) -> tuple[bool, float]:
        """The order of two ways: the better one is less."""
        return self.timing.is_lower_bound, self.timing.median


def _warmed(
    spark: SparkSession,
    work: Callable[[], object],
    patience: Patience,
    prepare: Callable[[], object] = lambda: None,
) -> _Warm:
    spent, once = 0.0, Timing(())
    for _ in range(WARMING_ROUNDS if patience.is_thorough else 1):
        prepare()
        once = _once(spark, work, patience.limit)
        if once.is_lower_bound:
            return _Warm(once, spent, is_measured=True)
        spent += once.median
        if spent >= WARM_SECONDS:
            break
    return _Warm(once, spent, once.median > LONG_SECONDS or not patience.is_thorough)


def _repeated(
    spark: SparkSession,
    work: Callable[[], object],
    patience: Patience,
    prepare: Callable[[], object] = lambda: None,
    spent: float = 0,
) -> Timing:
    """Rounds of warm ``work``, until there are enough or ``spent`` is a minute."""
    found: list[float] = []
    while len(found) < patience.repeats:
        prepare()
        once = _once(spark, work, patience.limit)
        if once.is_lower_bound:
            return once
        found.extend(once.seconds)
        spent += once.median
        if spent > LONG_SECONDS:
            break
    return Timing(tuple(found))


def read_all(rows: DataFrame) -> None:
    """Compute every row with all of its columns, and keep one hash.

    A sink of Spark's second interface would also do, but Delta 4.4 refuses to read tables with
    deletion vectors for it.
    """
    columns = [F.col(f"`{name}`") for name in rows.columns]
    rows.select(F.bit_xor(F.xxhash64(*columns))).collect()


def read_in_order(rows: DataFrame) -> None:
    """Compute every row with all of its columns, in order. For :func:`read_all` Spark leaves out
    the sort. Tables with deletion vectors cannot be read so.
    """
    rows.write.format("noop").mode("overwrite").save()


def timed_without_spark(
    work: Callable[[], object], rounds: int, *, prepare: Callable[[], object] = lambda: None
) -> Timing:
    """How long ``work`` takes, in so many rounds after one that is not counted.

    :param prepare: is called before each round, outside of its time
    """
    found = []
    for _ in range(rounds + 1):
        prepare()
        begun = time.perf_counter()
        work()
        found.append(round(time.perf_counter() - begun, 5))
    return Timing(tuple(found[1:]))


def _once(spark: SparkSession, work: Callable[[], object], limit: float) -> Timing:
    """One round, which is stopped after ``limit`` seconds, or before the disk is full."""
    tag = f"timed-{uuid.uuid4().hex}"
    done = threading.Event()
    bounds: list[Timing] = []
    begun = time.perf_counter()

    def stop() -> None:
        bound = _waited(done, begun, limit)
        if bound is None:
            return
        bounds.append(bound)
        # A job that begins after one interrupt would run to its end, so interrupt again and again.
        while not done.wait(1):
            spark.interruptTag(tag)
            # Some stages of an adaptive plan go on after that.
            with suppress(PySparkAttributeError):  # not over Spark Connect
                spark.sparkContext.cancelAllJobs()

    spark.addTag(tag)
    watch = threading.Thread(target=stop, daemon=True)
    watch.start()
    try:
        work()
    except Exception:
        if not bounds:
            raise
    finally:
        seconds = time.perf_counter() - begun
        done.set()
        watch.join()
        spark.removeTag(tag)
    return bounds[0] if bounds else Timing((round(seconds, 4),))


def _waited(done: threading.Event, begun: float, limit: float) -> Timing | None:
    """The bound of a round that has to be stopped, or None if it is ``done``."""
    while (spent := time.perf_counter() - begun) < limit:
        if done.wait(min(1, limit - spent)):
            return None
        if shutil.disk_usage(tempfile.gettempdir()).free < LEAST_FREE_BYTES:
            return Timing((round(spent, 4),), is_lower_bound=True, has_filled_disk=True)
    return Timing((limit,), is_lower_bound=True)
