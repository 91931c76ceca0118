"""The tasks that a server of Spark Connect reports, counted for one thread."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_cdc.engine.core.work_progress import TaskCount
from airflow_provider_cdc.engine.spark.session.task_counters import ConnectTaskCounter


class Session:
    """A session over Spark Connect, which calls its handlers as Spark's client does."""

    def __init__(self) -> None:
        self.handlers: list[Any] = []

    def registerProgressHandler(self, handler: Any) -> None:  # noqa: N802 - the name is Spark's
        self.handlers.append(handler)

    def removeProgressHandler(self, handler: Any) -> None:  # noqa: N802 - the name is Spark's
        self.handlers.remove(handler)

    def report(self, operation: str, *stages: tuple[int, int], done: bool = False) -> None:
        """Report stages, each by its finished tasks and by all of its tasks."""
        found = [
            SimpleNamespace(num_completed_tasks=finished, num_tasks=tasks)
            for finished, tasks in stages
        ]
        for handler in self.handlers:
            handler(stages=found, inflight_tasks=1, operation_id=operation, done=done)


@pytest.fixture
def session() -> Session:
    return Session()


@pytest.fixture
def counter(session: Any) -> Any:
    return ConnectTaskCounter(session)


def test_counter_sums_up_the_operations_of_its_step(session: Session, counter: Any) -> None:
    counter.begin()
    session.report("a", (1, 4), (0, 2))
    session.report("a", (4, 4), (1, 2))
    assert counter.counted() == TaskCount(5, 6)
    session.report("a", (4, 4), (1, 2), done=True)
    session.report("b", (0, 3))
    session.report("c", done=True)
    assert counter.counted() == TaskCount(6, 9)

    counter.begin()
    assert counter.counted() == TaskCount()
    assert len(session.handlers) == 1


def test_counter_leaves_out_operations_of_other_threads(session: Session, counter: Any) -> None:
    counter.begin()
    other = threading.Thread(target=session.report, args=("a", (1, 4)))
    other.start()
    other.join()
    assert counter.counted() == TaskCount()


def test_counter_that_ends_leaves_no_handler(session: Session, counter: Any) -> None:
    counter.end()
    counter.begin()
    counter.end()
    assert session.handlers == []
    counter.begin()
    session.handlers.clear()
    counter.end()
