"""Reading the target of a consumption, as far as files alone show."""

from __future__ import annotations

from pathlib import Path

import pytest
from counting_files import CountingFiles

from airflow_provider_cdc.engine.core.errors import ConsumptionOpen
from airflow_provider_cdc.engine.core.model.consumption import PlannedStatement, StatementKind
from airflow_provider_cdc.engine.storage.delta.target_log import TargetLog


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with a log of 12 commits without a checkpoint."""
    log = tmp_path / "_delta_log"
    log.mkdir()
    for version in range(12):
        (log / f"{version:020d}.json").write_text('{"commitInfo": {}}', encoding="utf-8")
    return tmp_path


def planned_at(table: Path, version: int) -> PlannedStatement:
    return PlannedStatement(0, StatementKind.INSERT, "f", "t", str(table), version)


@pytest.mark.parametrize("before", [9, 11])
def test_commits_of_a_target_are_listed_from_the_plan_on(table: Path, before: int) -> None:
    files = CountingFiles()

    commits = TargetLog(files).commits_since(planned_at(table, before))

    assert [commit.version for commit in commits] == list(range(before + 1, 12))
    assert files.listings == [f"{before:020d}"]


def test_target_that_ends_before_the_plan_is_reported_as_replaced(table: Path) -> None:
    with pytest.raises(ConsumptionOpen, match="expected version 12 or later, found 11"):
        TargetLog(CountingFiles()).commits_since(planned_at(table, 12))
