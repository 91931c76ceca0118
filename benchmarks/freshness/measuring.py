"""Makes changes one after another, and takes the times of each on its way to the target."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.core.model.lifecycle import Transition

from ..results import Row
from ..timing import Timing
from .lab import SUBMIT, Lab, running
from .streaming import VIEW

TOTAL = "commit to commit"
STAGES = ("detection", "scheduling", "start of the task", "start of the job", "consumption")
# A server and a job that run all day are warm, and a worker has resolved Spark's jars before.
WARMING, WARMING_OF_SUBMIT = 10, 2
_POLL_SECONDS = 0.02
# A question to the database costs more than one to a folder, and nothing is timed meanwhile.
_REST_SECONDS = 0.5
_LONGEST_SECONDS = 240.0
# The pauses between changes vary, so that no change always meets the same phase of a poll.
_LEAST_PAUSE, _MOST_PAUSE = 1.0, 3.0

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to bring changes to a target.

    ``dag`` is the file of its DAG, or empty if it needs no Airflow. ``spark`` names its connection.
    """

    name: str
    dag: str
    spark: str

    @property
    def table(self) -> str:
        """The name of its source, its stream and its DAG."""
        return f"{self.dag or 'continuous'}_{self.spark}"

    @property
    def has_stream(self) -> bool:
        """Whether it consumes a stream."""
        return self.dag in ("woken", "waiting")


@dataclass(frozen=True, slots=True)
class Moments:
    """When a change was committed in the source, passed each stage, and was committed in the
    target. ``stages`` are the ends of all stages but the last one; empty: they are unknown.
    """

    source: datetime
    stages: tuple[datetime, ...]
    target: datetime

    @property
    def seconds(self) -> list[float]:
        """The seconds of each stage."""
        ends = (*self.stages, self.target)
        begins = (self.source, *self.stages)
        return [
            round((end - begin).total_seconds(), 3) for begin, end in zip(begins, ends, strict=True)
        ]

    @property
    def total(self) -> float:
        """The seconds from commit to commit."""
        return round((self.target - self.source).total_seconds(), 3)


def measure(lab: Lab, variant: Variant, changes: int) -> Iterator[Row]:
    """The seconds of each stage of each change.

    :raises RuntimeError: a change did not arrive, or the target differs from the source
    """
    lab.make_tables(variant.table)
    with _started(lab, variant):
        most = WARMING_OF_SUBMIT if variant.spark == SUBMIT else WARMING
        warming = min(most, changes)
        found = [_change(lab, variant, number) for number in range(warming + changes)][warming:]
    _check_equal(lab, variant.table)
    yield Row(variant.name, TOTAL, Timing(tuple(each.total for each in found)))
    if variant.has_stream:
        for place, stage in enumerate(STAGES):
            yield Row(variant.name, stage, Timing(tuple(each.seconds[place] for each in found)))


@contextmanager
def _started(lab: Lab, variant: Variant) -> Iterator[None]:
    table = variant.table
    with ExitStack() as stack:
        if variant.dag:
            lab.add_dag(variant.dag, table)
            lab.server.wait_dag(table)
            stack.callback(lab.remove_dag, table)
        else:
            source = str(lab.tables / table)
            arguments = (source, lab.merge(table, VIEW), str(lab.tables / f"{table}_job"))
            stack.enter_context(running("benchmarks.freshness.streaming", *arguments))
        yield


def _change(lab: Lab, variant: Variant, number: int) -> Moments:
    """Insert one row, and wait until it is in the target."""
    table = variant.table
    if variant.dag:
        _wait_for_rest(lab, variant)
    time.sleep(random.Random(number).uniform(_LEAST_PAUSE, _MOST_PAUSE))
    target = lab.tables / f"{table}_copy"
    before = _newest(target)
    lab.spark.sql(f"INSERT INTO delta.`{lab.tables / table}` VALUES ({number}, 'name {number}')")
    begun = _committed_at(lab.tables / table)
    _waited(lambda: _newest(target) > before, f"change {number} of {variant.name} did not arrive")
    arrived = _committed_at(target)
    if not variant.has_stream:
        return Moments(begun, (), arrived)
    # The times of the run are complete when it has ended.
    _wait_for_rest(lab, variant)
    return Moments(begun, _stages(lab, variant, begun, arrived), arrived)


def _wait_for_rest(lab: Lab, variant: Variant) -> None:
    _waited(lambda: _is_at_rest(lab, variant), f"{variant.name} is not at rest", _REST_SECONDS)


def _is_at_rest(lab: Lab, variant: Variant) -> bool:
    """Whether the next change meets a DAG that waits for it."""
    states = lab.query(
        "SELECT run.state, instance.task_id, instance.state FROM dag_run AS run"
        " LEFT JOIN task_instance AS instance USING (dag_id, run_id)"
        " WHERE run.dag_id = %s AND run.state IN ('queued', 'running', 'failed')",
        variant.table,
    )
    if any(run == "failed" for run, _, _ in states):
        raise RuntimeError(f"a run of {variant.name} failed")
    if variant.dag != "waiting":
        return not states
    return any(task == "wait" and state == "deferred" for _, task, state in states)


def _stages(lab: Lab, variant: Variant, begun: datetime, arrived: datetime) -> tuple[datetime, ...]:
    ((run, queued_at, started_at),) = lab.query(
        "SELECT run_id, queued_dttm, start_date FROM task_instance WHERE dag_id = %s"
        " AND task_id = 'consume' AND start_date < %s ORDER BY start_date DESC LIMIT 1",
        variant.table,
        arrived,
    )
    if variant.dag == "waiting":
        ((scheduled, ended),) = lab.query(
            "SELECT scheduled_dttm, end_date FROM task_instance"
            " WHERE dag_id = %s AND run_id = %s AND task_id = 'wait'",
            variant.table,
            run,
        )
        # A trigger either schedules the task that waited for it again, or ends it.
        detected = min(each for each in (scheduled, ended) if each > begun)
    else:
        ((detected,),) = lab.query(
            "SELECT min(event.timestamp) FROM asset_event AS event"
            " JOIN asset ON asset.id = event.asset_id WHERE asset.uri LIKE %s"
            " AND event.timestamp > %s",
            f"cdc://%/{variant.table}",
            begun,
        )
    history = StreamCatalog(lab.state).stream_history(variant.table)
    begins = [each.at for each in history if each.transition is Transition.BEGUN]
    return detected, queued_at, started_at, max(each for each in begins if each < arrived)


def _waited(look: Callable[[], Found], problem: str, poll: float = _POLL_SECONDS) -> Found:
    deadline = time.monotonic() + _LONGEST_SECONDS
    while not (found := look()):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{problem} after {_LONGEST_SECONDS:g} s")
        time.sleep(poll)
    return found


def _newest(table: Path) -> Path:
    """The newest commit of a table. Names of commits sort by their versions."""
    return max((table / "_delta_log").glob("*.json"))


def _committed_at(table: Path) -> datetime:
    return datetime.fromtimestamp(_newest(table).stat().st_mtime, UTC)


def _check_equal(lab: Lab, table: str) -> None:
    """Check that the target has each row once."""
    source, target = (
        sorted(map(tuple, lab.spark.read.format("delta").load(str(lab.tables / name)).collect()))
        for name in (table, f"{table}_copy")
    )
    if source != target:
        raise RuntimeError(f"{table}: {len(source)} rows became {len(target)}")
