"""Tombstones that end, changes that come after them, and the upkeep that ends them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from quarantine_lab import BAD, QuarantineLab
from stream_lab import Crash, CrashAt
from upsert_lab import SALARIES, Clock

from airflow_provider_cdc.engine import Engine, ProtocolPoint
from airflow_provider_cdc.engine.catalog.upsert_status import quarantine_of
from airflow_provider_cdc.engine.core.upserts.change_rows import Reason
from airflow_provider_cdc.engine.core.upserts.quarantine_size import QuarantineSize
from airflow_provider_cdc.engine.spark.upserts.upkeep import Upkeep
from airflow_provider_cdc.engine.storage.files.stores import Files


@pytest.fixture(scope="module")
def template(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> QuarantineLab:
    """A table with two deletes whose tombstones ended after the horizon, and one recent delete."""
    lab, clock = QuarantineLab(spark, tmp_path_factory.mktemp("aged")), Clock()
    lab.engine.create_upsert_table(lab.table(), SALARIES, "ID", tombstone_horizon="PT1H")
    engine = Engine(spark, str(lab.root / "state"), clock=clock)
    lab.write((1, None, None, "DELETE", "5"), (2, None, None, "DELETE", "5"))
    lab.apply(engine)
    assert tombstones(lab) == [1, 2]
    clock.now += timedelta(hours=2)
    for hour, left in ((1, [1, 2]), (2, [])):
        lab.write((9, "i", 90, "UPSERT", f"{hour}"))
        lab.apply(engine)
        # A tombstone is kept until the next upkeep ends it.
        assert tombstones(lab) == left
        clock.now += timedelta(hours=1)
    clock.now = datetime.now(UTC)
    lab.write((3, None, None, "DELETE", "5"))
    lab.apply(engine)
    return lab


@pytest.fixture
def aged(template: QuarantineLab, tmp_path: Path) -> tuple[QuarantineLab, Clock, Engine]:
    """A copy of the table, a clock that a test sets, and an engine with that clock."""
    lab, clock = template.copy(tmp_path), Clock()
    return lab, clock, Engine(lab.spark, str(lab.root / "state"), clock=clock)


def tombstones(lab: QuarantineLab) -> list[int]:
    base = lab.spark.read.format("delta").load(lab.table())
    return sorted(row["ID"] for row in base.where("_cdc.deleted_at IS NOT NULL").collect())


@pytest.mark.thorough
def test_change_older_than_an_expired_tombstone_is_counted_not_applied(
    aged: tuple[QuarantineLab, Clock, Engine],
) -> None:
    lab, _, engine = aged
    lab.write((1, "late", 10, "UPSERT", "4"), (2, "newer", 20, "UPSERT", "6"))
    lab.write((1, None, None, "DELETE", "3"), (3, "older", 30, "UPSERT", "4"))

    assert lab.apply_all() == [(2, "newer", 20), (9, "i", 90)]
    assert lab.held() == [(1, 10, Reason.LATE)]
    status = engine.describe_upsert_table(lab.table())
    assert (status.held_changes, status.held_since, status.late_changes) == (0, None, 1)
    # The statistics show it too.
    found = quarantine_of(engine.stream_history(status.stream)[-1].stream, Files())
    assert found == QuarantineSize(1, are_late=True)
    # A late change does not make other changes wait.
    lab.write((1, "back", 11, "UPSERT", "7"))
    assert lab.apply_all() == [(1, "back", 11), (2, "newer", 20), (9, "i", 90)]


@pytest.mark.thorough
def test_longer_horizon_keeps_the_remaining_tombstones(
    aged: tuple[QuarantineLab, Clock, Engine],
) -> None:
    lab, clock, engine = aged
    engine.alter_upsert_table(lab.table(), tombstone_horizon="P1D")
    described = engine.describe_upsert_table(lab.table())
    assert (described.max_staleness, described.tombstone_horizon) == (None, "0-0 1 0:0:0 (1 day)")
    for hour in (3, 4):
        clock.now += timedelta(hours=2)
        lab.write((9, "i", 90, "UPSERT", f"{hour}"))
        lab.apply(engine)
    assert tombstones(lab) == [3]
    engine.alter_upsert_table(lab.table(), max_staleness="PT5M")
    engine.alter_upsert_table(lab.table(), tombstone_horizon="PT2H")
    assert engine.describe_upsert_table(lab.table()).max_staleness == "0-0 0 0:5:0 (5 minutes)"


@pytest.mark.thorough
def test_late_change_is_applied_only_on_demand(
    aged: tuple[QuarantineLab, Clock, Engine],
) -> None:
    lab, _, engine = aged
    lab.write((1, "late", 10, "UPSERT", "4"))
    lab.apply()
    assert engine.redrive_changes(lab.table()) == 0
    assert engine.redrive_changes(lab.table(), late=True) == 1
    assert lab.apply_all() == [(1, "late", 10), (9, "i", 90)]
    assert lab.held() == []


@pytest.mark.thorough
def test_waiting_change_that_became_late_returns_only_on_demand(
    aged: tuple[QuarantineLab, Clock, Engine],
) -> None:
    lab, _, engine = aged
    lab.send((1, "bad", 10, "UPSERT", BAD), (1, "late", 11, "UPSERT", "4"))
    lab.apply()
    lab.sql(f"DELETE FROM {lab.quarantine()} WHERE Salary = 10")
    assert engine.redrive_changes(lab.table()) == 1
    assert lab.apply_all() == [(9, "i", 90)]
    assert lab.held() == [(1, 11, Reason.LATE)]
    assert engine.redrive_changes(lab.table(), late=True) == 1
    assert lab.apply_all() == [(1, "late", 11), (9, "i", 90)]


@pytest.mark.thorough
def test_killed_apply_decides_again_if_the_quarantine_changed_meanwhile(
    aged: tuple[QuarantineLab, Clock, Engine],
) -> None:
    lab, clock, engine = aged
    lab.write((1, "late", 10, "UPSERT", "4"), (8, "h", 80, "UPSERT", "1"))
    killing = Engine(
        lab.spark,
        str(lab.root / "state"),
        clock=clock,
        on_progress=CrashAt(ProtocolPoint.AFTER_STATEMENT, 0),
    )
    with pytest.raises(Crash):
        lab.apply(killing)
    assert lab.held() == [(1, 10, Reason.LATE)]
    lab.sql(f"DELETE FROM {lab.quarantine()}")

    lab.apply(engine)

    assert lab.applied() == [(8, "h", 80), (9, "i", 90)]
    assert lab.held() == [(1, 10, Reason.LATE)]
    assert engine.describe_upsert_table(lab.table()).pending_commits == 0


@pytest.mark.thorough
def test_delete_repeated_after_its_horizon_changes_nothing_for_readers(
    aged: tuple[QuarantineLab, Clock, Engine],
) -> None:
    lab, _, _ = aged
    lab.write((1, None, None, "DELETE", "5"))
    assert lab.apply_all() == [(9, "i", 90)]
    assert lab.held() == []


@pytest.mark.thorough
def test_upkeep_runs_at_intervals_and_not_in_each_apply(
    lab: QuarantineLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, runs = Clock(), []
    engine = Engine(lab.spark, str(lab.root / "state"), clock=clock)
    monkeypatch.setattr(Upkeep, "_run", lambda self, table: runs.append(self._note(table, clock())))
    for number, hours in enumerate((0, 5, 2, 1, 6)):
        clock.now += timedelta(hours=hours)
        lab.write((number, "a", 1, "UPSERT"))
        lab.apply(engine)
    # The upkeep ran after seven hours, and again six hours later: an eighth of two days.
    assert len(runs) == 2
    # The recorded time comes from a clock that was ahead.
    clock.now -= timedelta(hours=1)
    lab.write((9, "a", 1, "UPSERT"))
    lab.apply(engine)
    assert len(runs) == 3


def test_failed_upkeep_is_logged_and_does_not_fail_the_apply(
    lab: QuarantineLab, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    engine = Engine(lab.spark, str(lab.root / "state"), clock=clock)
    lab.write((1, "a", 1, "UPSERT"))
    lab.apply(engine)
    Path(lab.table(), "_cdc", "upkeep").write_text("nonsense")
    lab.write((2, "b", 2, "UPSERT"))
    with caplog.at_level("WARNING"):
        assert lab.apply(engine) is not None
    assert "was postponed" in caplog.text


@pytest.mark.thorough
def test_old_changes_are_removed_except_those_that_wait(lab: QuarantineLab) -> None:
    clock = Clock()
    engine = Engine(lab.spark, str(lab.root / "state"), clock=clock)
    lab.write((1, "a", 1, "UPSERT"))
    lab.apply(engine)
    lab.write((2, "b", 2, "UPSERT"))
    lab.apply(engine)
    clock.now += timedelta(days=8)
    lab.write((3, "c", 3, "UPSERT"))
    lab.apply(engine)

    assert lab.spark.read.format("delta").load(lab.changes()).count() == 0
    assert lab.apply(engine) is None
    lab.write((4, "d", 4, "UPSERT"))
    lab.sql(f"DELETE FROM delta.`{lab.changes()}`")
    assert [row[0] for row in lab.apply_all()] == [1, 2, 3, 4]
