"""How far work is, and the estimate of the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_cdc.engine.core.change_sets.read_plan import ReadPlan, Strategy
from airflow_provider_cdc.engine.core.work_progress import TaskCount, WorkPlan, WorkProgress

PLAN = ReadPlan(Strategy.FILE_DIFFERENCE, 12, 3_200_000, 14, "why")
COUNTING = WorkProgress("nightly", "counts the changes", WorkPlan.of([[PLAN]]), 2)
# The first statement took 20 seconds, and the second has run for 10.
SECOND = WorkProgress(
    "nightly",
    "runs statement 2 of 3 on lake.copy",
    WorkPlan(14, 12, 3_200_000),
    3,
    statements_done=1,
    statement_seconds=20,
    is_statement=True,
    seconds=30,
    step_seconds=10,
    tasks=TaskCount(50, 200),
)


def test_plan_sums_up_all_tables_of_all_streams() -> None:
    assert WorkPlan.of([[PLAN, PLAN], [PLAN]]) == WorkPlan(42, 36, 9_600_000)


def test_estimate_takes_the_step_by_its_tasks_and_others_by_the_mean() -> None:
    # The second statement takes 10 * 200 / 50 = 40 seconds, so the mean of both is 30.
    assert SECOND.remaining_seconds == 30 + 30
    assert SECOND.share == pytest.approx(30 / 90)


def test_estimate_before_the_first_statement_takes_each_like_the_count() -> None:
    found = replace(COUNTING, seconds=5, step_seconds=5, tasks=TaskCount(1, 2))
    assert found.remaining_seconds == 5 + 2 * 10


def test_estimate_of_the_last_step_is_the_rest_of_its_tasks() -> None:
    found = replace(SECOND, statements_done=3, is_statement=False, statement_seconds=60)
    assert found.remaining_seconds == 30


@pytest.mark.parametrize("tasks", [TaskCount(0, 8), TaskCount(8, 8), TaskCount()])
def test_estimate_without_a_task_to_go_by_takes_the_mean_statement(tasks: TaskCount) -> None:
    assert replace(SECOND, tasks=tasks).remaining_seconds == 10 + 20


@pytest.mark.parametrize(
    "progress",
    [
        pytest.param(WorkProgress("c", "prepares", tasks=TaskCount(1, 2)), id="statements unknown"),
        pytest.param(COUNTING, id="no task yet"),
        pytest.param(replace(COUNTING, tasks=TaskCount(3, 3)), id="no task left"),
        pytest.param(
            replace(SECOND, step_seconds=25, tasks=TaskCount()), id="longer than the mean"
        ),
    ],
)
def test_estimate_is_unknown_if_nothing_shows_it(progress: WorkProgress) -> None:
    assert progress.remaining_seconds is None
    assert progress.share is None


def test_texts_name_what_is_planned_and_done() -> None:
    assert SECOND.headline == "nightly: runs statement 2 of 3 on lake.copy"
    assert SECOND.details == (
        "30 seconds, 1 of 3 statements done, 50 of 200 tasks of this step done,"
        " 14 commits with 3.2 MB in 12 files planned, about 1 minute left"
    )


def test_texts_leave_out_what_is_unknown() -> None:
    assert WorkProgress("nightly", "prepares").details == "0 seconds"
    long = replace(SECOND, seconds=3_700.4, step_seconds=1_000, tasks=TaskCount(1, 2))
    assert long.details.startswith("1 hour 2 minutes, ")
    assert long.details.endswith(", about 34 minutes left")
