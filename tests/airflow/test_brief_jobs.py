"""The memory of a worker for jobs that are short."""

from __future__ import annotations

import time

import pytest

from airflow_provider_cdc.hooks import brief_jobs
from airflow_provider_cdc.hooks.brief_jobs import BriefJob, options_so_far
from airflow_provider_cdc.hooks.driver_options import OPTIONS_VARIABLE

ONLY_FIRST = "-XX:TieredStopAtLevel=1"


@pytest.fixture(autouse=True)
def no_options_of_the_machine(monkeypatch):
    for name in (OPTIONS_VARIABLE, "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"):
        monkeypatch.delenv(name, raising=False)


def options_of(job: BriefJob, given: str = "") -> str:
    return job.environment(given).get(OPTIONS_VARIABLE, "")


def run(folder, name="dag.task[-1]", *, seconds=0.0, has_ended_well=True, monkeypatch=None):
    job = BriefJob(folder, name, {})
    job.begin()
    if monkeypatch is not None:
        now = time.monotonic()
        monkeypatch.setattr(brief_jobs.time, "monotonic", lambda: now + seconds)
    job.keep(has_ended_well=has_ended_well)


def test_brief_job_uses_the_first_compiler_from_its_second_run_on(tmp_path):
    assert options_of(BriefJob(tmp_path, "dag.task[-1]", {})) == ""

    run(tmp_path)

    assert ONLY_FIRST in options_of(BriefJob(tmp_path, "dag.task[-1]", {}))
    assert options_of(BriefJob(tmp_path, "dag.other[-1]", {})) == ""


def test_brief_job_that_gets_long_uses_both_compilers_again(tmp_path, monkeypatch):
    run(tmp_path)

    run(tmp_path, seconds=31, monkeypatch=monkeypatch)

    assert options_of(BriefJob(tmp_path, "dag.task[-1]", {})) == ""


def test_brief_job_that_failed_uses_both_compilers_again(tmp_path):
    run(tmp_path)

    run(tmp_path, has_ended_well=False)

    assert options_of(BriefJob(tmp_path, "dag.task[-1]", {})) == ""


def test_brief_job_keeps_the_options_of_its_driver(tmp_path):
    run(tmp_path)

    options = options_of(BriefJob(tmp_path, "dag.task[-1]", {}), "-Dmine=1")

    assert options.startswith("-Dmine=1 ")


@pytest.mark.parametrize("option", ["-XX:TieredStopAtLevel=4", "-XX:-TieredCompilation", "-Xint"])
def test_brief_job_leaves_the_compilers_to_users_who_chose_them(tmp_path, monkeypatch, option):
    run(tmp_path)

    conf = {"spark.driver.extraJavaOptions": option}
    assert options_of(BriefJob(tmp_path, "dag.task[-1]", conf)) == ""

    monkeypatch.setenv(OPTIONS_VARIABLE, option)
    assert options_of(BriefJob(tmp_path, "dag.task[-1]", {})) == ""


def test_brief_job_of_a_worker_that_cannot_write_runs_all_the_same(tmp_path):
    (tmp_path / "brief").write_text("no folder")

    run(tmp_path)

    assert options_of(BriefJob(tmp_path, "dag.task[-1]", {})) == ""


def test_options_so_far_are_those_of_the_process_if_none_were_added(monkeypatch):
    monkeypatch.setenv(OPTIONS_VARIABLE, "-Dprocess=1")

    assert options_so_far({}) == "-Dprocess=1"
    assert options_so_far({OPTIONS_VARIABLE: "-Dadded=1"}) == "-Dadded=1"
