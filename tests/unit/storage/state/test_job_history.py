"""The history of jobs of upsert tables, and the resources that they used."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from typer.testing import CliRunner

from airflow_provider_cdc.cli.terminal import app
from airflow_provider_cdc.cli.text_tables import WIDTH
from airflow_provider_cdc.engine.core.upserts.job_records import Job, JobClass, usage
from airflow_provider_cdc.engine.storage.state import job_history
from airflow_provider_cdc.engine.storage.state.job_history import JobHistory

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def job(minute: float, job_class: JobClass = JobClass.QUERY, slot_ms: int | None = 30_000) -> Job:
    started_at = NOON + minute * MINUTE
    ended_at = started_at + timedelta(seconds=10)
    return Job(f"j{minute}", job_class, "t", started_at, ended_at, 5, 100, slot_ms, "me")


def test_usage_is_reported_by_period_and_class_newest_first() -> None:
    apply = JobClass.BACKGROUND_APPLY
    found = usage(
        [job(0, apply), job(30, apply), job(31), job(61, slot_ms=None)], 60 * MINUTE, NOON
    )

    assert [(each.period_start, each.job_class, each.jobs) for each in found] == [
        (NOON + 60 * MINUTE, JobClass.QUERY, 1),
        (NOON, apply, 2),
        (NOON, JobClass.QUERY, 1),
    ]
    assert (found[1].seconds, found[1].read_bytes) == (20, 200)
    assert found[1].slots == pytest.approx(60 / 3600)
    assert found[0].slots == 0


def test_job_across_several_periods_counts_in_each_for_its_share() -> None:
    ended_at = NOON + 3 * 60 * MINUTE
    long = replace(job(30), ended_at=ended_at, read_bytes=500, slot_ms=int(2.5 * 3_600_000 * 2))
    found = usage([long, job(30)], 60 * MINUTE, NOON)

    assert [each.period_start for each in found] == [
        NOON + hour * 60 * MINUTE for hour in (2, 1, 0)
    ]
    assert [each.jobs for each in found] == [1, 1, 2]
    assert [each.seconds for each in found] == [3600, 3600, 1810]
    assert [each.read_bytes for each in found] == [200, 200, 200]
    # Two slots were busy for two hours and a half.
    assert [round(each.slots, 2) for each in found] == [2, 2, 1.01]
    assert sum(each.slots for each in found) == pytest.approx(5 + 30 / 3600)
    assert usage([long], 60 * MINUTE, NOON + 60 * MINUTE) == found[:2]


def test_jobs_are_read_back_as_they_were_recorded(tmp_path: Path) -> None:
    history = JobHistory(tmp_path.as_uri())
    assert history.read(NOON) == []
    jobs = [job(1), job(0, JobClass.RUN_TIME_MERGE), job(2, slot_ms=None)]
    for each in jobs:
        history.record(each)

    assert history.read(NOON) == [jobs[1], jobs[0], jobs[2]]
    assert history.read(NOON + MINUTE) == [jobs[0], jobs[2]]
    # A job counts if it still ran at the requested time.
    assert history.read(NOON + timedelta(seconds=5)) == [jobs[1], jobs[0], jobs[2]]


def test_history_forgets_old_jobs_and_keeps_few_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_history, "_COMMITS_PER_UPKEEP", 8)
    history = JobHistory(str(tmp_path))
    history.record(job(-job_history.KEPT_FOR / MINUTE - 1))
    for minute in range(12):
        history.record(job(minute))

    found = history.read(NOON - 2 * job_history.KEPT_FOR)
    assert [each.started_at for each in found] == [NOON + minute * MINUTE for minute in range(12)]
    assert len(DeltaTable(str(tmp_path / "upsert_jobs")).file_uris()) < 8


def test_row_that_cannot_be_read_is_left_out_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    history = JobHistory(str(tmp_path))
    history.record(job(0))
    location = str(tmp_path / "upsert_jobs")
    (row,) = DeltaTable(location).to_pyarrow_table().to_pylist()
    damaged = [row | {"job_id": "damaged", "job_class": "asleep"}]
    write_deltalake(location, pa.Table.from_pylist(damaged, job_history._SCHEMA), mode="append")

    assert history.read(NOON) == [job(0)]
    assert "Job damaged cannot be read and is skipped" in caplog.text


def test_job_that_would_be_read_back_differently_is_not_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    history = JobHistory(str(tmp_path))
    history.record(replace(job(0), job_class="asleep"))  # type: ignore[arg-type]
    assert history.read(NOON) == []
    assert "expected to read back" in caplog.text


def test_history_that_cannot_be_written_is_logged_and_raises_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "upsert_jobs").write_text("in the way")
    with caplog.at_level(logging.WARNING):
        JobHistory(str(tmp_path)).record(job(0))
    assert "Not done: record of job j0 of t" in caplog.text


def test_usage_is_printed_with_a_plot(tmp_path: Path) -> None:
    history = JobHistory(str(tmp_path))
    # Both jobs are in one hour.
    now = datetime.now(UTC).replace(minute=0)
    for job_class, slot_ms in ((JobClass.BACKGROUND_APPLY, 40_000), (JobClass.QUERY, 10_000)):
        found = replace(job(0, job_class, slot_ms), started_at=now, ended_at=now + MINUTE)
        history.record(found)

    shown = CliRunner().invoke(app, ["usage", "--state", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    apply, query = (line for line in shown.output.splitlines() if "█" in line)
    assert ("background apply" in apply, "query" in query) == (True, True)
    assert (apply.count("█"), query.count("█")) == (12, 3)
    assert max(map(len, shown.stdout.splitlines())) <= WIDTH

    shown = CliRunner().invoke(app, ["usage", "--state", str(tmp_path), "-o", "json"])
    assert [line["jobs"] for line in json.loads(shown.output)] == [1, 1]


def test_usage_of_an_invalid_state_folder_is_refused() -> None:
    shown = CliRunner().invoke(app, ["usage", "--state", "relative"])
    assert shown.exit_code == 1
    assert "expected an absolute path" in shown.output
