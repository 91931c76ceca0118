"""Counts the tasks that Spark runs for one thread."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from ...consumption.ports import TaskCounter
from ...core.work_progress import TaskCount

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql.connect.shell.progress import ProgressHandler

_RUNNING = "RUNNING"
_GROUP = "spark.jobGroup.id"
_UNSET = cast("str", None)  # Spark's own setJobGroup passes it too


def task_counter(spark: SparkSession) -> TaskCounter:
    """A counter for the calling thread, on a classic session or over Spark Connect."""
    if is_remote():
        return ConnectTaskCounter(spark)
    # The client of Spark Connect comes without this class. A process has one context.
    from pyspark import SparkContext  # noqa: PLC0415

    return GroupTaskCounter(SparkContext.getOrCreate())


class GroupTaskCounter:
    """Counts the tasks of the jobs of one thread, by their group, with Spark's status tracker.

    A thread that has a group keeps it, and its earlier jobs do not count.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._group: str | None = None
        self._is_own = False
        self._earlier: frozenset[int] = frozenset()
        self._ended_jobs: dict[int, TaskCount] = {}

    def begin(self) -> None:
        """Count the jobs of this thread from now on, and give them a group if they have none."""
        self.end()
        group = self._context.getLocalProperty(_GROUP)
        self._is_own = group is None
        if group is None:
            group = f"cdc-{uuid.uuid4().hex}"
            self._context.setLocalProperty(_GROUP, group)
        else:
            self._earlier = frozenset(self._jobs_of(group))
        self._group = group

    def end(self) -> None:
        """Count no more, and take back a group of :meth:`begin`."""
        if self._group is not None and self._is_own:
            self._context.setLocalProperty(_GROUP, _UNSET)
        self._group, self._earlier = None, frozenset()

    def counted(self) -> TaskCount:
        """The tasks so far of the stages that have begun. A stage that Spark skips never begins."""
        group, earlier = self._group, self._earlier
        if group is None:
            return TaskCount()
        jobs = (number for number in self._jobs_of(group) if number not in earlier)
        return sum(map(self._of_job, jobs), TaskCount())

    def _jobs_of(self, group: str) -> list[int]:
        return list(self._context.statusTracker().getJobIdsForGroup(group))

    def _of_job(self, number: int) -> TaskCount:
        if number in self._ended_jobs:
            return self._ended_jobs[number]
        tracker = self._context.statusTracker()
        job = tracker.getJobInfo(number)
        if job is None:
            return TaskCount()
        done = known = 0
        for stage in filter(None, map(tracker.getStageInfo, job.stageIds)):
            if stage.numActiveTasks + stage.numCompletedTasks + stage.numFailedTasks:
                done += stage.numCompletedTasks
                known += stage.numTasks
        found = TaskCount(done, known)
        if job.status != _RUNNING:
            self._ended_jobs[number] = found
        return found


class ConnectTaskCounter:
    """Counts the tasks that the server reports while a call of this thread waits for it."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._thread = 0
        self._operations: dict[str | None, TaskCount] = {}
        self._handler = cast("ProgressHandler", self._reported)

    def begin(self) -> None:
        """Listen to the operations that this thread begins from now on."""
        self.end()
        self._thread, self._operations = threading.get_ident(), {}
        self._spark.registerProgressHandler(self._handler)

    def end(self) -> None:
        """Listen no more."""
        if self._thread:
            self._thread = 0
            with suppress(ValueError):  # the user may have removed all handlers
                self._spark.removeProgressHandler(self._handler)

    def counted(self) -> TaskCount:
        """The tasks so far of the stages that the server knows."""
        return sum(list(self._operations.values()), TaskCount())

    def _reported(
        self,
        stages: Iterable[Any] | None,
        inflight_tasks: int,
        operation_id: str | None,
        done: bool,
    ) -> None:
        """Keep what the server reports; Spark's client calls it by these names."""
        if stages and threading.get_ident() == self._thread:
            found = list(stages)
            known = sum(stage.num_tasks for stage in found)
            finished = sum(stage.num_completed_tasks for stage in found)
            self._operations[operation_id] = TaskCount(known if done else finished, known)
