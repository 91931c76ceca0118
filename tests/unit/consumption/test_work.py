"""The thread that shows how far work is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from streams import NOON

from airflow_provider_cdc.engine.consumption.work import Work, Works
from airflow_provider_cdc.engine.core.change_sets.read_plan import ReadPlan, Strategy
from airflow_provider_cdc.engine.core.model.consumption import (
    Consumption,
    PlannedStatement,
    StatementKind,
)
from airflow_provider_cdc.engine.core.work_progress import TaskCount, WorkPlan, WorkProgress

PLANS = [[ReadPlan(Strategy.FILE_DIFFERENCE, 12, 3_200_000, 14, "why")]]
STATEMENTS = tuple(
    PlannedStatement(index, StatementKind.INSERT, "sha", "lake.copy", "/copy", 3)
    for index in range(2)
)
CONSUMPTION = Consumption("c", "nightly", (), STATEMENTS, NOON)


@dataclass
class Shown:
    """A display that keeps what it shows."""

    delay_seconds: float = 0
    every_seconds: float = 0.001
    steps: list[WorkProgress] = field(default_factory=list)
    closed: threading.Event = field(default_factory=threading.Event)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def show(self, progress: WorkProgress) -> None:
        with self.changed:
            self.steps.append(progress)
            self.changed.notify_all()

    def close(self) -> None:
        self.closed.set()

    def wait_for(self, word: str) -> WorkProgress:
        """What it shows of the step with ``word`` in its text, once it shows that."""
        with self.changed:
            assert self.changed.wait_for(lambda: word in self.steps[-1].step, timeout=60)
            return self.steps[-1]


class Counter:
    """A counter that has seen a task of each step that began."""

    def __init__(self) -> None:
        self.begun = self.ended = 0

    def begin(self) -> None:
        self.begun += 1

    def end(self) -> None:
        self.ended += 1

    def counted(self) -> TaskCount:
        return TaskCount(self.begun, 9)


class Broken(Counter):
    """A counter and a display on which every call fails."""

    delay_seconds = every_seconds = 0.0

    def begin(self) -> None:
        raise OSError("no JVM")

    end = counted = close = show = begin  # type: ignore[assignment]


@pytest.fixture
def display() -> Iterator[Shown]:
    shown = Shown()
    shown.steps.append(WorkProgress("", ""))
    yield shown
    assert "cdc-progress" not in {thread.name for thread in threading.enumerate()}


def ticking(times: list[float]) -> Callable[[], float]:
    return lambda: times[0]


def test_work_shows_its_plan_and_each_statement(display: Shown) -> None:
    now, counter = [100.0], Counter()
    work = Works(lambda: display, lambda: counter, ticking(now)).new("nightly")

    with work.shown():
        assert display.wait_for("prepares").plan is None
        work.counting(PLANS, 2)
        now[0] = 103.0
        with work.shown(), work.statement(CONSUMPTION, STATEMENTS[0]):
            now[0] = 105.0
            display.wait_for("statement 1 of 2 on lake.copy")
        with work.statement(CONSUMPTION, STATEMENTS[1]):
            now[0] = 109.0
            found = work.progress()

    assert found == WorkProgress(
        "nightly",
        "runs statement 2 of 2 on lake.copy",
        WorkPlan(14, 12, 3_200_000),
        2,
        statements_done=1,
        statement_seconds=2.0,
        is_statement=True,
        seconds=9.0,
        step_seconds=4.0,
        tasks=TaskCount(5, 9),
    )
    assert display.closed.is_set()
    assert counter.ended == 1


@pytest.mark.parametrize("error", [ValueError("broken"), KeyboardInterrupt()])
def test_work_that_fails_ends_its_display(display: Shown, error: BaseException) -> None:
    counter = Counter()
    work = Works(lambda: display, lambda: counter).new("nightly")

    def fail() -> None:
        with work.shown(), work.statement(CONSUMPTION, STATEMENTS[0]):
            display.wait_for("statement 1")
            raise error

    with pytest.raises(type(error)):
        fail()

    assert display.closed.is_set()
    assert counter.ended == 1


def test_work_that_is_continued_is_shown_again(display: Shown) -> None:
    work = Works(lambda: display).new("nightly")
    with work.shown(), work.statement(CONSUMPTION, STATEMENTS[0]):
        display.wait_for("statement 1")
    with work.shown(), work.statement(CONSUMPTION, STATEMENTS[1]):
        assert display.wait_for("statement 2").statements_done == 1


def test_short_work_shows_nothing(display: Shown) -> None:
    display.delay_seconds = 600
    with Works(lambda: display).new("nightly").shown():
        pass
    assert display.steps[1:] == []


@pytest.mark.usefixtures("display")
def test_work_goes_on_if_display_and_counter_fail() -> None:
    def refuse() -> Broken:
        raise OSError("no terminal")

    ran = []
    for works in (Works(Broken, Broken), Works(refuse, refuse)):
        with works.new("nightly").shown() as _:
            ran.append(works)
    assert len(ran) == 2


def test_work_without_a_display_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", lambda _: pytest.fail("started"))
    work: Work = Works().new("nightly")
    with work.shown(), work.statement(CONSUMPTION, STATEMENTS[0]):
        pass
    assert work.progress().statements_done == 1
