"""Jobs that consume by a user's function."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import loads
import pytest
from scenes import is_untouched
from stream_lab import StreamLab

from airflow_provider_cdc.jobs.model import Answer, ConsumeStream, Request
from airflow_provider_cdc.jobs.run import run


@pytest.fixture(autouse=True)
def target(lab: StreamLab) -> Iterator[None]:
    """The functions write to the lab's ``log``."""
    loads.TARGET[:] = [lab.path("log")]
    yield
    loads.TARGET.clear()


def answer(lab: StreamLab, apply: str | None, *streams: str, **given: Any) -> Answer:
    task = ConsumeStream((), "dag.task", apply=apply, streams=streams, **given)
    request = Request("0" * 32, str(lab.root / "state"), task)
    return run(request, lab.spark)


def test_function_gets_each_change_set_and_the_transaction(lab: StreamLab) -> None:
    found = answer(lab, "loads:join_both", "s", "d")

    assert found.error is None
    assert lab.rows("log") == [(1, "10", "100")]
    assert [item.name for item in found.outcome.streams] == ["s", "d"]
    assert [item.metrics["numOutputRows"] for item in found.outcome.statements] == [1]
    assert [lab.engine.stream_has_data(name) for name in ("s", "d")] == [False, False]


def test_function_that_raises_consumes_nothing_and_may_be_retried(lab: StreamLab) -> None:
    found = answer(lab, "loads:fail", "s")

    assert found.error.retryable
    assert "no rate for this day" in found.error.message
    assert is_untouched(lab)


def test_function_that_spark_refuses_is_reported_without_plan_or_stack(lab: StreamLab) -> None:
    message = answer(lab, "loads:misspell", "s").error.message

    assert "UNRESOLVED_COLUMN" in message
    assert "nope" in message
    assert "Project" not in message
    assert "JVM" not in message


@pytest.mark.parametrize(
    ("apply", "streams", "message"),
    [
        ("loads:missing", ("s",), "cannot be imported"),
        ("no_such_module:f", ("s",), "cannot be imported"),
        ("loads:NOT_A_FUNCTION", ("s",), "cannot be called"),
        ("loads", ("s",), "expected package.module:function"),
        ("loads:fail", (), "has nothing to consume"),
        ("loads:fail", ("nope",), "stream nope: does not exist"),
        (None, ("s",), "found neither"),
    ],
)
def test_function_that_cannot_be_called_fails_without_retry(
    lab: StreamLab, apply: str | None, streams: tuple[str, ...], message: str
) -> None:
    found = answer(lab, apply, *streams)

    assert message in found.error.message
    assert not found.error.retryable
    assert is_untouched(lab)
