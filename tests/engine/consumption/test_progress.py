"""What a consumption reports while it runs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import pytest
from scenes import LOG, NUMBERS, OTHER
from stream_lab import StreamLab

from airflow_provider_cdc.engine import Engine, Progress, ProtocolPoint, StatementFailed
from airflow_provider_cdc.engine.core.work_progress import WorkPlan, WorkProgress
from airflow_provider_cdc.engine.displays.log_display import LogDisplay
from airflow_provider_cdc.engine.spark import parts

GROUP = "spark.jobGroup.id"
AWAITED = {ProtocolPoint.BEFORE_STATEMENT: "runs", ProtocolPoint.BEFORE_COMMIT: "finishes"}


@dataclass
class Shown:
    """A display that keeps and logs what it shows; a listener waits until it shows a step."""

    delay_seconds: float = 0
    every_seconds: float = 0.005
    seen: list[WorkProgress] = field(default_factory=list)
    is_closed: bool = False
    changed: threading.Condition = field(default_factory=threading.Condition)

    def show(self, progress: WorkProgress) -> None:
        LogDisplay().show(progress)
        with self.changed:
            self.seen.append(progress)
            self.changed.notify_all()

    def close(self) -> None:
        self.is_closed = True

    def wait(self, progress: Progress) -> None:
        """Wait until it shows the step at which the consumption is, unless it is closed."""
        word = AWAITED.get(progress.point)
        if word is None or self.is_closed:
            return
        if progress.statement_index is not None:
            word += f" statement {progress.statement_index + 1} "
        with self.changed:
            shows = partial(self._shows, word)
            assert self.changed.wait_for(shows, timeout=60), word

    def _shows(self, word: str) -> bool:
        return bool(self.seen) and self.seen[-1].step.startswith(word)


@pytest.fixture
def display(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shown]:
    found = Shown()
    monkeypatch.setattr(parts, "new_display", lambda: found)
    yield found
    assert found.is_closed
    assert "cdc-progress" not in {thread.name for thread in threading.enumerate()}


def test_consumption_reports_what_it_planned_and_each_statement(
    lab: StreamLab, display: Shown, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "airflow_provider_cdc")
    plan = lab.engine.explain_stream("s")

    lab.consume(LOG, OTHER, consumer="me", engine=lab.new_engine(display.wait))

    last = display.seen[-1]
    assert last.plan == WorkPlan.of([[plan]])
    assert last.plan.commit_count == 1
    assert (last.step, last.statements_done, last.statement_count) == ("finishes", 2, 2)
    assert 0 < last.statement_seconds <= last.seconds
    tasks = [each.tasks for each in display.seen]
    assert any(each.done for each in tasks)
    assert all(each.done <= each.known for each in tasks)
    assert lab.spark.sparkContext.getLocalProperty(GROUP) is None
    line = f"me: runs statement 2 of 2 on {lab.name('other')}: "
    assert any(found.startswith(line) for found in caplog.messages)


def test_consumption_in_a_job_group_of_the_user_is_counted_and_keeps_it(
    lab: StreamLab, display: Shown
) -> None:
    context = lab.spark.sparkContext
    context.setJobGroup("mine", "a description")
    try:
        lab.sql("SELECT count(*) FROM {src}")
        lab.consume(LOG, consumer="me", engine=lab.new_engine(display.wait))
        assert context.getLocalProperty(GROUP) == "mine"
        assert context.getLocalProperty("spark.job.description") == "a description"
    finally:
        context.setLocalProperty(GROUP, None)
        context.setLocalProperty("spark.job.description", None)
    counts = [each.tasks.known for each in display.seen]
    assert counts[0] == 0
    assert max(counts) > 0


def test_consumption_that_fails_ends_its_display(three: StreamLab, display: Shown) -> None:
    with pytest.raises(StatementFailed):
        three.consume(LOG, NUMBERS, consumer="me", engine=three.new_engine(display.wait))
    assert display.seen[-1].statements_done == 1


def test_transaction_shows_each_statement_without_an_estimate(
    lab: StreamLab, display: Shown
) -> None:
    with lab.new_engine(display.wait).transaction(consumer="me") as tx:
        tx.sql(lab.text(LOG))
        assert display.is_closed
    assert {each.statement_count for each in display.seen} == {None}
    assert any(each.step.startswith("runs statement 1 on ") for each in display.seen)


def test_engine_without_progress_shows_nothing(
    lab: StreamLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Shown] = []

    def new_display() -> Shown:
        made.append(Shown())
        return made[-1]

    monkeypatch.setattr(parts, "new_display", new_display)
    engine = Engine(lab.spark, str(lab.root / "state"), show_progress=False)
    assert lab.consume(LOG, engine=engine).statements
    assert made == []
