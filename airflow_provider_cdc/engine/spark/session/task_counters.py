"""Counts the tasks that Spark runs for one thread."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from pyspark import SparkContext
from pyspark.sql import SparkSession

from ...consumption.ports import TaskCounter
from ...core.work_progress import TaskCount

if TYPE_CHECKING:
    from pyspark.sql.connect.shell.progress import ProgressHandler

_RUNNING = "RUNNING"


def task_counter(spark: SparkSession) -> TaskCounter:
    """A counter for the calling thread, on a classic session or over Spark Connect."""
    context = getattr(spark, "_sc", None)
    return ConnectTaskCounter(spark) if context is None else TaggedTaskCounter(context)


class TaggedTaskCounter:
    """Counts the tasks of the jobs that get a tag, by Spark's status tracker.

    A tag does not replace the job group that the user may have set.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._tag: str | None = None
        self._ended_jobs: dict[int, TaskCount] = {}

    def begin(self) -> None:
        """Tag the jobs of this thread from now on, with a new tag."""
        self.end()
        tag = f"cdc-{uuid.uuid4().hex}"
        self._context.addJobTag(tag)
        self._tag = tag

    def end(self) -> None:
        """Tag no more jobs."""
        tag, self._tag = self._tag, None
        if tag is not None:
            self._context.removeJobTag(tag)

    def counted(self) -> TaskCount:
        """The tasks so far of the stages that have begun. A stage that Spark skips never begins."""
        tag = self._tag
        if tag is None:
            return TaskCount()
        of_context: Any = self._context
        jobs = of_context._jsc.sc().statusTracker().getJobIdsForTag(tag)
        return sum(map(self._of_job, jobs), TaskCount())

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
