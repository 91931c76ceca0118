"""Watches a piece of work, and shows how far it is if it takes long."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ..core.change_sets.read_plan import ReadPlan
from ..core.model.consumption import Consumption, PlannedStatement
from ..core.work_progress import TaskCount, WorkPlan, WorkProgress
from .ports import Display, TaskCounter

log = logging.getLogger(__name__)

# The work waits at most so long for its watcher, which may wait for an answer of Spark.
_LONGEST_WAIT_SECONDS = 5
_PREPARING, _COUNTING, _FINISHING = "prepares", "counts the changes", "finishes"


@dataclass(frozen=True, slots=True)
class Works:
    """Makes the :class:`Work` of each attempt.

    :param new_display: makes the display of one piece of work; ``None``: nothing is shown
    :param new_counter: makes the counter of its tasks; ``None``: they are not counted
    :param clock: returns seconds that only grow
    """

    new_display: Callable[[], Display] | None = None
    new_counter: Callable[[], TaskCounter | None] = lambda: None
    clock: Callable[[], float] = time.monotonic

    def new(self, consumer: str) -> Work:
        """The work of one attempt of ``consumer``, which has not begun."""
        return Work(self, consumer)


class Work:
    """The work of one attempt. A thread watches it while a block of :meth:`shown` runs. Nothing
    that fails in the display, or while tasks are counted, reaches the work.
    """

    def __init__(self, works: Works, consumer: str) -> None:
        self._works = works
        self._clock = works.clock
        self._counter: TaskCounter | None = None
        self._is_shown = False
        self._began = self._step_began = 0.0
        self._found = WorkProgress(consumer, _PREPARING)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the progress while the block runs, if it runs longer than the display waits. Inside
        another such block, this one does nothing.
        """
        if self._is_shown or self._works.new_display is None:
            yield
            return
        self._is_shown, self._began = True, self._clock()
        ended = threading.Event()
        watcher = threading.Thread(
            target=self._watch,
            args=(self._works.new_display, ended),
            name="cdc-progress",
            daemon=True,
        )
        with _optional("showing the progress"):
            self._counter = self._works.new_counter()
            watcher.start()
        try:
            self._begin(_PREPARING)
            yield
        finally:
            ended.set()
            if watcher.is_alive():
                watcher.join(_LONGEST_WAIT_SECONDS)
            self._end()

    def counting(self, plans: Iterable[Sequence[ReadPlan]], statement_count: int | None) -> None:
        """Begin to count what ``plans`` read.

        :param statement_count: how many statements follow; ``None``: that is not known
        """
        self._found = replace(self._found, plan=WorkPlan.of(plans), statement_count=statement_count)
        self._begin(_COUNTING)

    @contextmanager
    def statement(self, consumption: Consumption, planned: PlannedStatement) -> Iterator[None]:
        """A block that applies one statement."""
        where = f"statement {consumption.ordinal_of(planned)} on {planned.target}"
        self._begin(f"runs {where}", is_statement=True)
        yield
        done = self._found.statements_done + 1
        seconds = self._found.statement_seconds + self._clock() - self._step_began
        self._found = replace(self._found, statements_done=done, statement_seconds=seconds)
        self._begin(_FINISHING)

    def progress(self) -> WorkProgress:
        """How far the work is now."""
        now = self._clock()
        found, counter = self._found, self._counter
        return replace(
            found,
            seconds=now - self._began,
            step_seconds=now - self._step_began,
            tasks=TaskCount() if counter is None else counter.counted(),
        )

    def _begin(self, step: str, *, is_statement: bool = False) -> None:
        if self._counter is not None:
            with _optional("counting tasks of Spark"):
                self._counter.begin()
        self._step_began = self._clock()
        self._found = replace(self._found, step=step, is_statement=is_statement)

    def _end(self) -> None:
        if self._counter is not None:
            with _optional("counting tasks of Spark"):
                self._counter.end()
        self._counter, self._is_shown = None, False

    def _watch(self, new_display: Callable[[], Display], ended: threading.Event) -> None:
        with _optional("showing the progress"):
            display = new_display()
            wait = display.delay_seconds
            try:
                while not ended.wait(wait):
                    display.show(self.progress())
                    wait = display.every_seconds
            finally:
                display.close()


@contextmanager
def _optional(what: str) -> Iterator[None]:
    """Work whose failure must not reach the statement beside it. A timeout of the task, which is
    no ``Exception``, does.
    """
    try:
        yield
    except Exception as error:
        log.debug("Not done: %s: %s", what, error)
