"""Changes that cannot be applied wait in quarantine: none is lost, and no later change overtakes
them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from quarantine_lab import BAD, QuarantineLab
from stream_lab import Crash, CrashAt
from upsert_lab import CHANGES, SALARIES

from airflow_provider_cdc.engine import InvalidRequest, ProtocolPoint
from airflow_provider_cdc.engine.catalog.upsert_status import UpsertTableStatus
from airflow_provider_cdc.engine.core.upserts.change_rows import Reason
from airflow_provider_cdc.engine.core.upserts.definition import UpsertTable
from airflow_provider_cdc.engine.spark.session.session_settings import settings
from airflow_provider_cdc.engine.spark.tables.pruning import Pruning, TouchedShare
from airflow_provider_cdc.engine.spark.upserts import quarantine as quarantining
from airflow_provider_cdc.engine.spark.upserts.quarantine import Quarantine
from airflow_provider_cdc.engine.storage.sources.source_log import SourceLog


@pytest.mark.thorough
def test_bad_changes_and_later_ones_of_their_keys_wait_while_others_apply(
    lab: QuarantineLab,
) -> None:
    lab.send(
        (1, "a", 10, "UPSERT", "1"),
        (1, "a", 11, "UPSERT", BAD),
        (1, "a", 12, "UPSERT", "3"),
        (2, "b", 20, "UPSERT", "1"),
        (3, "c", 30, "MOVE", None),
        (None, "d", 40, "UPSERT", None),
    )
    assert lab.apply_all() == [(1, "a", 10), (2, "b", 20)]
    lab.send((1, "a", 13, "UPSERT", "4"), (2, "b", 21, "UPSERT", "2"))
    assert lab.apply_all() == [(1, "a", 10), (2, "b", 21)]

    assert lab.held() == [
        (1, 11, Reason.NUMBER),
        (1, 12, Reason.WAITS),
        (3, 30, Reason.TYPE),
        (None, 40, Reason.KEY),
        (1, 13, Reason.WAITS),
    ]
    status = lab.engine.describe_upsert_table(lab.table())
    assert (status.held_changes, status.late_changes, status.pending_commits) == (5, 0, 0)


@pytest.mark.thorough
def test_corrected_changes_are_applied_in_their_order(lab: QuarantineLab) -> None:
    lab.send((1, "a", 10, "UPSERT", None), (1, "a", 11, "UPSERT", BAD))
    lab.apply()
    lab.send((1, "a", 12, "UPSERT", None))
    lab.apply()
    assert lab.engine.redrive_changes(lab.table()) == 0

    lab.correct(11, None)
    assert lab.engine.redrive_changes(lab.table()) == 2
    lab.send((1, "a", 13, "UPSERT", None))
    assert lab.apply_all() == [(1, "a", 13)]

    assert lab.held() == []
    assert lab.spark.sql(f"SELECT * FROM {lab.quarantine()}").count() == 0
    assert lab.engine.redrive_changes(lab.table()) == 0


@pytest.mark.thorough
def test_held_delete_below_the_watermark_is_reported_until_applied(
    lab: QuarantineLab,
) -> None:
    lab.send((1, "a", 10, "UPSERT", "1"))
    lab.apply()
    before = datetime.now(UTC)
    lab.send((1, "a", 11, "UPSERT", BAD), (1, None, None, "DELETE", "3"))
    between = datetime.now(UTC)
    lab.send((1, "a", 12, "UPSERT", "4"), (2, "b", 20, "UPSERT", "1"))
    outcome = lab.apply()

    def status() -> UpsertTableStatus:
        return lab.engine.describe_upsert_table(lab.table())

    # The watermark has passed the DELETE, but the row still exists.
    assert lab.applied() == [(1, "a", 10), (2, "b", 20)]
    assert status().upsert_stream_apply_watermark > between
    held_since = status().held_since
    assert held_since is not None
    assert before <= held_since <= between
    assert (status().held_changes, lab.counted(outcome)) == (3, (3, 0))

    lab.sql(f"DELETE FROM {lab.quarantine()} WHERE Salary = 11")
    lab.engine.redrive_changes(lab.table())
    assert (status().held_changes, status().held_since) == (0, held_since)
    (summary,) = lab.engine_catalog().upsert_tables()
    assert (summary.location, summary.quarantined_changes) == (lab.table(), 2)
    assert lab.counted(lab.apply()) == (0, 0)
    assert (status().held_since, lab.applied()) == (None, [(1, "a", 12), (2, "b", 20)])
    (summary,) = lab.engine_catalog().upsert_tables()
    assert (summary.pending_commits, summary.quarantined_changes) == (0, 0)


@pytest.mark.thorough
def test_redrive_releases_waiting_changes_after_the_bad_one_is_removed(lab: QuarantineLab) -> None:
    lab.send((1, "a", 10, "UPSERT", BAD), (1, None, None, "DELETE", "2"))
    lab.apply()
    lab.sql(f"DELETE FROM {lab.quarantine()} WHERE Salary = 10")
    lab.send((1, "a", 12, "UPSERT", "1"))
    # A new change waits for changes in quarantine, whether or not these can be applied now.
    assert lab.apply_all() == []

    assert lab.engine.redrive_changes(lab.table()) == 2
    assert lab.apply_all() == []
    assert lab.held() == []


@pytest.mark.thorough
def test_changes_after_one_that_is_still_bad_stay_in_quarantine(lab: QuarantineLab) -> None:
    rows = [(1, "a", 10 + step, "UPSERT", BAD if step in (0, 2) else None) for step in range(4)]
    lab.send(*rows)
    lab.apply()
    lab.correct(10, "1")

    assert lab.engine.redrive_changes(lab.table()) == 2
    # Change 11 has no sequence number and loses to 10.
    assert lab.apply_all() == [(1, "a", 10)]
    assert [row[1] for row in lab.held()] == [12, 13]


@pytest.mark.thorough
def test_invalid_correction_stays_in_quarantine(lab: QuarantineLab) -> None:
    lab.send((1, "a", 10, "UPSERT", BAD))
    lab.apply()
    lab.correct(10, "still bad")

    assert lab.engine.redrive_changes(lab.table()) == 0
    assert lab.held() == [(1, 10, Reason.NUMBER)]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "point", [ProtocolPoint.AFTER_BEGIN, ProtocolPoint.AFTER_STATEMENT, ProtocolPoint.BEFORE_COMMIT]
)
def test_apply_killed_while_quarantining_changes_loses_nothing(
    lab: QuarantineLab, point: ProtocolPoint
) -> None:
    lab.send((1, "a", 10, "UPSERT", "1"), (1, "a", 11, "UPSERT", BAD), (2, "b", 20, "UPSERT", "1"))
    with pytest.raises(Crash):
        lab.apply(lab.new_engine(CrashAt(point)))
    lab.send((1, "a", 12, "UPSERT", "3"), (2, "b", 21, "UPSERT", "2"))
    while lab.apply() is not None:
        pass
    assert lab.applied() == [(1, "a", 10), (2, "b", 21)]
    assert [row[1] for row in lab.held()] == [11, 12]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "point", [ProtocolPoint.AFTER_BEGIN, ProtocolPoint.AFTER_STATEMENT, ProtocolPoint.BEFORE_COMMIT]
)
@pytest.mark.parametrize("other", [False, True], ids=["same name", "other name"])
def test_redriven_changes_are_applied_after_an_apply_killed_at_any_point(
    lab: QuarantineLab, point: ProtocolPoint, other: bool
) -> None:
    lab.send((1, "a", 10, "UPSERT", BAD), (1, "a", 11, "UPSERT", None))
    lab.apply()
    lab.correct(10, None)
    assert lab.engine.redrive_changes(lab.table()) == 2
    with pytest.raises(Crash):
        lab.apply(lab.new_engine(CrashAt(point)))
    lab.send((1, "a", 12, "UPSERT", None))
    assert lab.read() == [(1, "a", 12)]
    name = f"delta.`{lab.table()}`" if other else lab.table()
    while lab.engine.apply_upserts(name) is not None:
        pass

    assert lab.applied() == lab.read() == [(1, "a", 12)]
    assert lab.spark.sql(f"SELECT * FROM {lab.quarantine()}").count() == 0


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "method"), [(Quarantine, "memory"), (SourceLog, "span")], ids=["first", "later"]
)
def test_read_during_a_redrive_shows_no_change_out_of_order(
    lab: QuarantineLab, monkeypatch: pytest.MonkeyPatch, kind: type, method: str
) -> None:
    lab.send((1, "a", 10, "UPSERT", BAD))
    lab.apply()
    lab.send((1, "a", 11, "UPSERT", "5"))
    lab.correct(10, "9")
    look = getattr(kind, method)

    def look_after_an_apply(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(kind, method, look)
        assert lab.engine.redrive_changes(lab.table()) == 1
        lab.apply()
        return look(*args, **options)

    monkeypatch.setattr(kind, method, look_after_an_apply)
    assert lab.read() in ([], [(1, "a", 10)])
    assert lab.read() == [(1, "a", 10)]


@pytest.mark.thorough
def test_change_after_the_pruning_check_waits_for_one_held_meanwhile(
    lab: QuarantineLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.send((2, "b", 20, "UPSERT", None))
    look = Pruning.share

    def look_before_an_apply(*args: Any) -> TouchedShare:
        monkeypatch.setattr(Pruning, "share", look)
        share = look(*args)
        lab.send((1, "a", 10, "UPSERT", BAD))
        lab.apply()
        lab.send((1, "a", 11, "UPSERT", None))
        return share

    monkeypatch.setattr(Pruning, "share", look_before_an_apply)
    lab.apply()

    assert lab.applied() == [(2, "b", 20)]
    assert [row[1] for row in lab.held()] == [10, 11]
    lab.correct(10, None)
    assert lab.engine.redrive_changes(lab.table()) == 2
    assert lab.apply_all() == [(1, "a", 11), (2, "b", 20)]


@pytest.mark.thorough
def test_change_redriven_before_its_quarantining_is_undone_counts_once(lab: QuarantineLab) -> None:
    """The change is redriven, and then the consumption that put it into quarantine is undone."""
    lab.send((1, "a", 10, "UPSERT", BAD), (1, "a", 11, "UPSERT", None))
    engine = lab.new_engine(CrashAt(ProtocolPoint.BEFORE_STATEMENT, 1))
    with pytest.raises(Crash):
        lab.apply(engine)
    lab.correct(10, "1")
    assert lab.engine.redrive_changes(lab.table()) == 2
    assert lab.read() == [(1, "a", 10)]
    while lab.apply() is not None:
        pass
    assert lab.applied() == lab.read() == [(1, "a", 10)]


@pytest.mark.thorough
def test_change_being_released_waits_for_its_redriven_copy(
    lab: QuarantineLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed call left the change among the changes too: if applied from there, its copy would
    come after a newer change.
    """
    lab.send((1, "bad", 10, "UPSERT", BAD))
    lab.apply()
    lab.send((1, "waits", 11, "UPSERT", None))
    with pytest.raises(Crash):
        lab.apply(lab.new_engine(CrashAt(ProtocolPoint.BEFORE_STATEMENT, 1)))
    lab.sql(f"DELETE FROM {lab.quarantine()} WHERE Salary = 10")
    write = quarantining.write_again

    def slowly(table: UpsertTable, rows: DataFrame, redrive: str) -> None:
        rows = rows.localCheckpoint()
        lab.send((1, "newer", 12, "UPSERT", None))
        lab.apply_all()
        write(table, rows, redrive)

    monkeypatch.setattr(quarantining, "write_again", slowly)
    assert lab.engine.redrive_changes(lab.table()) == 1
    monkeypatch.undo()

    assert lab.apply_all() == [(1, "waits", 11)]
    assert lab.engine.redrive_changes(lab.table()) == 1
    assert lab.apply_all() == [(1, "newer", 12)]
    assert lab.held() == []


@pytest.mark.thorough
def test_quarantine_with_the_change_data_feed_on_can_be_corrected(
    spark: SparkSession, tmp_path: Path
) -> None:
    lab = QuarantineLab(spark, tmp_path)
    name = "spark.databricks.delta.properties.defaults.enableChangeDataFeed"
    with settings(spark, {name: "true"}):
        lab.engine.create_upsert_table(lab.table(), SALARIES, "ID")
    lab.send((1, "a", 10, "UPSERT", None), (1, "a", 11, "UPSERT", BAD))
    lab.apply()
    lab.correct(11, None)

    assert lab.engine.redrive_changes(lab.table()) == 1
    assert lab.apply_all() == [(1, "a", 11)]


@pytest.mark.thorough
def test_correction_may_clear_the_reason(lab: QuarantineLab) -> None:
    lab.send((1, "a", 10, "UPSERT", BAD), (1, "a", 11, "UPSERT", None))
    lab.apply()
    lab.sql(
        f"UPDATE {lab.quarantine()} SET _CHANGE_SEQUENCE_NUMBER = NULL, _cdc_reason = NULL"
        " WHERE Salary = 10"
    )
    lab.send((1, "a", 12, "UPSERT", None))
    assert lab.apply_all() == []
    assert lab.engine.describe_upsert_table(lab.table()).held_changes == 3
    assert lab.engine.redrive_changes(lab.table()) == 3
    assert lab.apply_all() == [(1, "a", 12)]


@pytest.mark.thorough
def test_redrive_that_is_killed_before_it_writes_is_finished_once(
    lab: QuarantineLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.send((1, "a", 10, "UPSERT", BAD), (1, "a", 11, "UPSERT", None))
    lab.apply()
    lab.correct(10, None)

    def killed(*args: Any) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(quarantining, "write_again", killed)
        with pytest.raises(Crash):
            lab.engine.redrive_changes(lab.table())
    # A change that comes now still waits for the released changes, which are not written yet.
    lab.send((1, "a", 12, "UPSERT", None))
    assert lab.apply_all() == []

    # This redrives the released changes and the new change, which waits only for them.
    assert [lab.engine.redrive_changes(lab.table()) for _ in range(2)] == [3, 0]
    assert lab.apply_all() == [(1, "a", 12)]
    assert lab.held() == []
    changes = lab.spark.read.format("delta").load(lab.changes())
    assert changes.where("Salary = 10 AND _cdc_reason IS NULL").count() == 1


def test_unknown_value_of_on_bad_rows_is_refused(lab: QuarantineLab) -> None:
    rows = lab.spark.createDataFrame([(1, "UPSERT")], "ID INT, _CHANGE_TYPE STRING")
    with pytest.raises(InvalidRequest, match="fail, quarantine"):
        lab.engine.write_changes(lab.table(), rows, on_bad_rows="ignore")


@pytest.mark.thorough
def test_streaming_sink_quarantines_bad_rows_once(lab: QuarantineLab) -> None:
    sink = lab.engine.change_sink(lab.table(), query="q", on_bad_rows="quarantine")
    batch = lab.spark.createDataFrame([(1, "a", 1, "UPSERT"), (2, "b", 2, "MOVE")], CHANGES)
    for _ in range(2):
        sink(batch, 0)
    assert lab.apply_all() == [(1, "a", 1)]
    assert lab.held() == [(2, 2, Reason.TYPE)]
