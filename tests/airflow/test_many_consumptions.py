"""The operator of many consumptions on real streams, where it works without a Spark job."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.execution_time.context import OutletEventAccessors
from streams import NOON, add_file, new_stream, quiet_stream, register

from airflow_provider_cdc.assets.stream import CONSUMPTIONS
from airflow_provider_cdc.engine.core.model.outcomes import Outcome, StreamOutcome
from airflow_provider_cdc.engine.core.model.stream import Phase
from airflow_provider_cdc.hooks.cdc import CdcHook, request_for
from airflow_provider_cdc.hooks.failures import CdcJobFailed
from airflow_provider_cdc.jobs import model as jobs
from airflow_provider_cdc.operators.consumptions import ConsumeStreams

pytestmark = pytest.mark.airflow

STREAMS = ("a", "b", "c")


def context(run_id: str = "run", events: OutletEventAccessors | None = None) -> dict:
    instance = SimpleNamespace(dag_id="d", task_id="t", map_index=-1, run_id=run_id)
    return {"ti": instance, "outlet_events": OutletEventAccessors() if events is None else events}


def insert(stream: str, **more) -> dict:
    return {"stream": stream, "sql": f"INSERT INTO t_{stream} SELECT * FROM {stream}"} | more


def consume(*given, **arguments) -> ConsumeStreams:
    return ConsumeStreams(task_id="t", consumptions=list(given), **arguments)


class Driver:
    """Answers in the place of a Spark job: the consumers in ``failing`` fail."""

    def __init__(self) -> None:
        self.jobs: list[jobs.ConsumeStreams] = []
        self.failing: dict[str, jobs.JobError] = {}

    def answer(self, request: jobs.Request) -> jobs.Answer:
        self.jobs.append(request.task)
        results = tuple(map(self._result, request.task.consumptions))
        return jobs.Answer(request.request_id, consumptions=results)

    def _result(self, task: jobs.ConsumeStream) -> jobs.ConsumptionResult:
        found = jobs.ConsumptionResult(task.consumer, task.streams)
        if task.consumer in self.failing:
            return replace(found, error=self.failing[task.consumer])
        taken = tuple(
            StreamOutcome("id", name, 0, 1, "file_difference", {"inserted": 1})
            for name in task.streams
        )
        return replace(found, outcome=Outcome("id", task.consumer, taken, (), 1.0))

    def consumers(self) -> list[list[str]]:
        return [[task.consumer for task in job.consumptions] for job in self.jobs]


@pytest.fixture
def driver(monkeypatch) -> Driver:
    driver = Driver()

    def submit(hook, task, *, context=None):
        return driver.answer(request_for(hook.settings, task))

    monkeypatch.setattr(CdcHook, "submit", submit)
    return driver


@pytest.fixture
def tables(tmp_path, define_connection, variables):
    """Streams ``a``, ``b`` and ``c``, of which ``a`` and ``b`` have data."""
    define_connection("cdc_default", "cdc", state=str(tmp_path / "state"), principal="somebody")
    for name in STREAMS:
        quiet_stream(tmp_path / "state", tmp_path / name, name)
    for name in ("a", "b"):
        add_file(tmp_path / name, 1, NOON)
    return tmp_path


def test_consumptions_with_data_go_to_one_job_and_the_others_do_not_run(tables, driver):
    found = consume(*map(insert, STREAMS), parallelism="{{ 1 + 1 }}")
    found.render_template_fields({})

    result = found.execute(context())

    assert driver.consumers() == [["d/t/a", "d/t/b"]]
    assert [job.parallelism for job in driver.jobs] == [2]
    shown = [(each["consumer"], each["outcome"] is None) for each in result["consumptions"]]
    assert shown == [("d/t/a", False), ("d/t/b", False), ("d/t/c", True)]


def test_consumptions_without_data_start_no_job(tables, driver):
    (found,) = consume(insert("c")).execute(context())["consumptions"]

    assert found == {"consumer": "d/t/c", "streams": ["c"], "outcome": None}
    assert driver.jobs == []


@pytest.mark.parametrize("open_state", [{"shows_initial_rows": True}, {"phase": Phase.APPLYING}])
def test_stream_with_initial_rows_or_open_consumption_has_work(tables, driver, open_state):
    stream = new_stream("open", **open_state)
    register(tables / "state", stream)

    consume(insert("open"), insert("c")).execute(context())

    assert driver.consumers() == [["d/t/open"]]


def test_stream_that_cannot_be_checked_goes_to_the_job(tables, driver):
    register(tables / "state", new_stream("lost"))

    consume(insert("lost")).execute(context())

    assert driver.consumers() == [["d/t/lost"]]


def test_failed_task_names_those_that_failed_and_a_retry_runs_only_them(tables, driver):
    events, target = OutletEventAccessors(), Asset("x-delta://lake/target")
    driver.failing = {"d/t/b": jobs.JobError("statement_failed", "t_b: failed", True)}
    with pytest.raises(CdcJobFailed, match=r"2 consumptions: 1 failed, d/t/b\. .*t_b: failed"):
        consume(insert("a"), insert("b")).execute(context())
    driver.failing = {}

    # More data has come, which waits for the next run.
    add_file(tables / "a", 2, NOON)
    retry = consume(insert("a"), insert("b"), outlets=[target])
    result = retry.execute(context(events=events))

    assert driver.consumers() == [["d/t/a", "d/t/b"], ["d/t/b"]]
    assert [each["outcome"]["consumer"] for each in result["consumptions"]] == ["d/t/a", "d/t/b"]
    assert [each["stream"] for each in events[target].extra["consumed"]] == ["a", "b"]
    assert len(events[CONSUMPTIONS].asset_alias_events) == 2

    consume(insert("a"), insert("b")).execute(context("next run"))
    consume(insert("a"), insert("b")).execute(context())
    assert driver.consumers()[2:] == [["d/t/a", "d/t/b"]] * 2
    assert list((tables / "state" / "answers").iterdir()) == []


def test_task_fails_for_good_only_if_no_retry_can_help(tables, driver):
    driver.failing = {"d/t/a": jobs.JobError("stream_stale", "a: is stale", False)}
    with pytest.raises(AirflowFailException, match="a: is stale"):
        consume(insert("a"), insert("b")).execute(context())

    driver.failing["d/t/b"] = jobs.JobError("statement_failed", "b: failed", True)
    with pytest.raises(CdcJobFailed, match="2 failed"):
        consume(insert("a"), insert("b")).execute(context("other"))


def test_missing_stream_and_bad_sql_fail_without_stopping_the_others(tables, driver):
    bad = {"stream": "b", "sql": "SELECT 1"}
    with pytest.raises(AirflowFailException, match="stream nope: does not exist") as caught:
        consume(insert("nope"), insert("a"), bad).execute(context())

    assert "3 consumptions: 2 failed, d/t/nope, d/t/b" in str(caught.value)
    assert driver.consumers() == [["d/t/a"]]


def test_consumer_names_follow_the_streams_and_not_the_order(tables, driver):
    both = {"stream": ["A", "b"], "sql": "INSERT INTO t SELECT * FROM a JOIN b USING (id)"}
    named = insert("c", consumer="mine")
    add_file(tables / "c", 1, NOON)

    consume(named, both).execute(context())

    assert driver.consumers() == [["mine", "d/t/a+b"]]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("INSERT", "are not a list"),
        ({"stream": "a"}, "are not a list"),
        (["a"], "is not a mapping"),
        ([insert("a", streams="b")], "unknown argument 'streams'.*write stream"),
        ([{"sql": "INSERT INTO t SELECT 1"}], "names no stream"),
        ([{"stream": "a"}], "found neither"),
        ([insert("a", max_commits=0)], "whole number, 1 or more"),
        ([insert("a", consumer=7)], "consumer that is not text"),
        ([insert("a", consumer="x"), insert("b", consumer="x")], "consumer x: is in several"),
        ([insert("a"), insert("a", consumer="x")], "stream a: is in several consumptions"),
    ],
)
def test_impossible_list_of_consumptions_fails_for_good(tables, driver, given, message):
    with pytest.raises(AirflowFailException, match=message):
        ConsumeStreams(task_id="t", consumptions=given).execute(context())
    assert driver.jobs == []


@pytest.mark.parametrize("given", [0, -1, True, "many", 1.5])
def test_impossible_parallelism_fails_for_good(tables, driver, given):
    with pytest.raises(AirflowFailException, match=r"parallelism .*whole number, 1 or more"):
        consume(insert("a"), parallelism=given).execute(context())
    assert driver.jobs == []
