"""Changes that cannot be applied: they wait in quarantine, nothing overtakes them, none is lost."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from stream_lab import Crash, CrashAt
from upsert_lab import CHANGES, SALARIES, Clock, UpsertLab

from airflow_provider_cdc.engine import Engine, InvalidRequest, ProtocolPoint, StreamCatalog
from airflow_provider_cdc.engine.core.upserts.changes import Reason
from airflow_provider_cdc.engine.core.upserts.definition import UpsertTable
from airflow_provider_cdc.engine.core.upserts.quarantine_size import QuarantineSize
from airflow_provider_cdc.engine.spark.session_settings import settings
from airflow_provider_cdc.engine.spark.upserts import quarantine as quarantining
from airflow_provider_cdc.engine.spark.upserts.pruning import BaseShare, Pruning
from airflow_provider_cdc.engine.spark.upserts.quarantine import Quarantine
from airflow_provider_cdc.engine.spark.upserts.upkeep import Upkeep
from airflow_provider_cdc.engine.storage.files import Files
from airflow_provider_cdc.engine.storage.source_log import SourceLog
from airflow_provider_cdc.engine.upsert_status import UpsertTableStatus, quarantine_of

BAD = "no number"


class QuarantineLab(UpsertLab):
    """An upsert table whose bad changes go to quarantine."""

    def send(self, *rows: tuple[Any, ...]) -> None:
        self.engine.write_changes(self.table(), self.frame(rows), on_bad_rows="quarantine")

    def quarantine(self) -> str:
        return f"delta.`{self.table()}/_cdc/quarantine`"

    def held(self) -> list[tuple[Any, ...]]:
        """Key, salary and reason of what is in quarantine, in the order of their ingestion."""
        found = self.spark.sql(
            f"SELECT ID, Salary, _cdc_reason FROM {self.quarantine()}"
            " WHERE _cdc_redrive IS NULL ORDER BY _cdc_since, _cdc_order"
        )
        return [tuple(row) for row in found.collect()]

    def engine_catalog(self) -> StreamCatalog:
        return StreamCatalog(str(self.root / "state"))

    def counted(self, outcome: Any) -> tuple[int, int]:
        """How many changes an apply says are held and late."""
        metrics = outcome.statements[-1].metrics
        return metrics["heldChanges"], metrics["lateChanges"]

    def correct(self, salary: int, number: str | None) -> None:
        value = "NULL" if number is None else f"'{number}'"
        self.sql(
            f"UPDATE {self.quarantine()} SET _CHANGE_SEQUENCE_NUMBER = {value}"
            f" WHERE Salary = {salary}"
        )

    def apply_all(self) -> list[tuple[Any, ...]]:
        """Apply, after a look at what that will give; what the table holds then."""
        expected = self.read()
        self.apply()
        assert self.read() == self.applied() == expected
        return expected


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> QuarantineLab:
    lab = QuarantineLab(spark, tmp_path)
    lab.engine.create_upsert_table(lab.table(), SALARIES, "ID")
    return lab


def test_bad_changes_and_what_follows_them_wait_while_the_others_are_applied(
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


def test_corrected_changes_are_applied_in_their_order(lab: QuarantineLab) -> None:
    lab.send((1, "a", 10, "UPSERT", None), (1, "a", 11, "UPSERT", BAD))
    lab.apply()
    lab.send((1, "a", 12, "UPSERT", None))
    lab.apply()
    assert lab.engine.redrive(lab.table()) == 0

    lab.correct(11, None)
    assert lab.engine.redrive(lab.table()) == 2
    lab.send((1, "a", 13, "UPSERT", None))
    assert lab.apply_all() == [(1, "a", 13)]

    assert lab.held() == []
    assert lab.spark.sql(f"SELECT * FROM {lab.quarantine()}").count() == 0
    assert lab.engine.redrive(lab.table()) == 0


def test_delete_below_the_watermark_that_is_held_is_told_until_it_is_applied(
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

    # The watermark has passed the DELETE, and yet the row is there.
    assert lab.applied() == [(1, "a", 10), (2, "b", 20)]
    assert status().upsert_stream_apply_watermark > between
    held_since = status().held_since
    assert held_since is not None
    assert before <= held_since <= between
    assert (status().held_changes, lab.counted(outcome)) == (3, (3, 0))

    lab.sql(f"DELETE FROM {lab.quarantine()} WHERE Salary = 11")
    lab.engine.redrive(lab.table())
    assert (status().held_changes, status().held_since) == (0, held_since)
    (summary,) = lab.engine_catalog().upsert_tables()
    assert (summary.location, summary.quarantined_changes) == (lab.table(), 2)
    assert lab.counted(lab.apply()) == (0, 0)
    assert (status().held_since, lab.applied()) == (None, [(1, "a", 12), (2, "b", 20)])
    (summary,) = lab.engine_catalog().upsert_tables()
    assert (summary.pending_commits, summary.quarantined_changes) == (0, 0)


def test_what_waited_goes_on_when_the_bad_change_is_removed(lab: QuarantineLab) -> None:
    lab.send((1, "a", 10, "UPSERT", BAD), (1, None, None, "DELETE", "2"))
    lab.apply()
    lab.sql(f"DELETE FROM {lab.quarantine()} WHERE Salary = 10")
    lab.send((1, "a", 12, "UPSERT", "1"))
    # It follows what waits, whether or not that can go on by now.
    assert lab.apply_all() == []

    assert lab.engine.redrive(lab.table()) == 2
    assert lab.apply_all() == []
    assert lab.held() == []


def test_what_follows_a_change_that_is_still_bad_stays(lab: QuarantineLab) -> None:
    rows = [(1, "a", 10 + step, "UPSERT", BAD if step in (0, 2) else None) for step in range(4)]
    lab.send(*rows)
    lab.apply()
    lab.correct(10, "1")

    assert lab.engine.redrive(lab.table()) == 2
    # 11 has no number and loses to 10.
    assert lab.apply_all() == [(1, "a", 10)]
    assert [row[1] for row in lab.held()] == [12, 13]


def test_correction_that_is_bad_again_is_refused_and_nothing_moves(lab: QuarantineLab) -> None:
    lab.send((1, "a", 10, "UPSERT", BAD))
    lab.apply()
    lab.correct(10, "still bad")

    assert lab.engine.redrive(lab.table()) == 0
    assert lab.held() == [(1, 10, Reason.NUMBER)]


@pytest.mark.parametrize(
    "point", [ProtocolPoint.AFTER_BEGIN, ProtocolPoint.AFTER_STATEMENT, ProtocolPoint.BEFORE_COMMIT]
)
def test_apply_that_is_killed_while_it_diverts_loses_nothing(
    lab: QuarantineLab, point: ProtocolPoint
) -> None:
    lab.send((1, "a", 10, "UPSERT", "1"), (1, "a", 11, "UPSERT", BAD), (2, "b", 20, "UPSERT", "1"))
    try:
        lab.apply(lab.new_engine(CrashAt(point)))
    except Crash:
        lab.send((1, "a", 12, "UPSERT", "3"), (2, "b", 21, "UPSERT", "2"))
        while lab.apply() is not None:
            pass
    assert lab.applied() in ([(1, "a", 10), (2, "b", 20)], [(1, "a", 10), (2, "b", 21)])
    held = [row[1] for row in lab.held()]
    assert held == ([11, 12] if lab.applied()[1][2] == 21 else [11])


@pytest.mark.parametrize(
    "point", [ProtocolPoint.AFTER_BEGIN, ProtocolPoint.AFTER_STATEMENT, ProtocolPoint.BEFORE_COMMIT]
)
@pytest.mark.parametrize("other", [False, True], ids=["same name", "other name"])
def test_redriven_changes_are_applied_whenever_the_apply_is_killed(
    lab: QuarantineLab, point: ProtocolPoint, other: bool
) -> None:
    lab.send((1, "a", 10, "UPSERT", BAD), (1, "a", 11, "UPSERT", None))
    lab.apply()
    lab.correct(10, None)
    assert lab.engine.redrive(lab.table()) == 2
    with pytest.raises(Crash):
        lab.apply(lab.new_engine(CrashAt(point)))
    lab.send((1, "a", 12, "UPSERT", None))
    assert lab.read() == [(1, "a", 12)]
    name = f"delta.`{lab.table()}`" if other else lab.table()
    while lab.engine.apply_upserts(name) is not None:
        pass

    assert lab.applied() == lab.read() == [(1, "a", 12)]
    assert lab.spark.sql(f"SELECT * FROM {lab.quarantine()}").count() == 0


@pytest.mark.parametrize(
    ("kind", "method"), [(Quarantine, "memory"), (SourceLog, "span")], ids=["first", "later"]
)
def test_redriven_changes_that_are_applied_while_a_reader_looks_are_not_overtaken(
    lab: QuarantineLab, monkeypatch: pytest.MonkeyPatch, kind: type, method: str
) -> None:
    lab.send((1, "a", 10, "UPSERT", BAD))
    lab.apply()
    lab.send((1, "a", 11, "UPSERT", "5"))
    lab.correct(10, "9")
    look = getattr(kind, method)

    def look_after_an_apply(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(kind, method, look)
        assert lab.engine.redrive(lab.table()) == 1
        lab.apply()
        return look(*args, **options)

    monkeypatch.setattr(kind, method, look_after_an_apply)
    assert lab.read() in ([], [(1, "a", 10)])
    assert lab.read() == [(1, "a", 10)]


def test_change_that_came_after_the_look_waits_for_one_that_was_held_since(
    lab: QuarantineLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.send((2, "b", 20, "UPSERT", None))
    look = Pruning.share

    def look_before_an_apply(*args: Any) -> BaseShare:
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
    assert lab.engine.redrive(lab.table()) == 2
    assert lab.apply_all() == [(1, "a", 11), (2, "b", 20)]


def test_change_that_waits_twice_at_one_place_counts_once(lab: QuarantineLab) -> None:
    """It was redriven, and then the consumption was undone that had put it into quarantine."""
    lab.send((1, "a", 10, "UPSERT", BAD), (1, "a", 11, "UPSERT", None))
    engine = lab.new_engine(CrashAt(ProtocolPoint.BEFORE_STATEMENT, 1))
    with pytest.raises(Crash):
        lab.apply(engine)
    lab.correct(10, "1")
    assert lab.engine.redrive(lab.table()) == 2
    assert lab.read() == [(1, "a", 10)]
    while lab.apply() is not None:
        pass
    assert lab.applied() == lab.read() == [(1, "a", 10)]


def test_change_whose_release_is_under_way_waits_for_its_copy(
    lab: QuarantineLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed call left it among the changes too: applied from there, its copy would come behind
    what is newer.
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
    assert lab.engine.redrive(lab.table()) == 1
    monkeypatch.undo()

    assert lab.apply_all() == [(1, "waits", 11)]
    assert lab.engine.redrive(lab.table()) == 1
    assert lab.apply_all() == [(1, "newer", 12)]
    assert lab.held() == []


def test_quarantine_of_a_session_whose_tables_have_the_feed_can_be_corrected(
    spark: SparkSession, tmp_path: Path
) -> None:
    lab = QuarantineLab(spark, tmp_path)
    name = "spark.databricks.delta.properties.defaults.enableChangeDataFeed"
    with settings(spark, {name: "true"}):
        lab.engine.create_upsert_table(lab.table(), SALARIES, "ID")
    lab.send((1, "a", 10, "UPSERT", None), (1, "a", 11, "UPSERT", BAD))
    lab.apply()
    lab.correct(11, None)

    assert lab.engine.redrive(lab.table()) == 1
    assert lab.apply_all() == [(1, "a", 11)]


def test_waiting_change_that_is_late_by_now_does_not_come_back_unasked(
    aged: tuple[QuarantineLab, Clock, Engine],
) -> None:
    lab, _, engine = aged
    lab.send((1, "bad", 10, "UPSERT", BAD), (1, "late", 11, "UPSERT", "4"))
    lab.apply()
    lab.sql(f"DELETE FROM {lab.quarantine()} WHERE Salary = 10")
    assert engine.redrive(lab.table()) == 1
    assert lab.apply_all() == [(9, "i", 90)]
    assert lab.held() == [(1, 11, Reason.LATE)]
    assert engine.redrive(lab.table(), late=True) == 1
    assert lab.apply_all() == [(1, "late", 11), (9, "i", 90)]


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
    assert lab.engine.redrive(lab.table()) == 3
    assert lab.apply_all() == [(1, "a", 12)]


def test_apply_that_was_killed_while_it_diverted_decides_anew_where_the_quarantine_was_changed(
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
            lab.engine.redrive(lab.table())
    # What comes meanwhile still waits for what was released and has not arrived.
    lab.send((1, "a", 12, "UPSERT", None))
    assert lab.apply_all() == []

    # The mark that was left, and what came since, which had not to wait for more.
    assert [lab.engine.redrive(lab.table()) for _ in range(2)] == [3, 0]
    assert lab.apply_all() == [(1, "a", 12)]
    assert lab.held() == []
    changes = lab.spark.read.format("delta").load(lab.changes())
    assert changes.where("Salary = 10 AND _cdc_reason IS NULL").count() == 1


@pytest.fixture
def aged(spark: SparkSession, tmp_path: Path) -> tuple[QuarantineLab, Clock, Engine]:
    """A table of which two deletes are older than its horizon, and ended; one came lately."""
    lab, clock = QuarantineLab(spark, tmp_path), Clock()
    lab.engine.create_upsert_table(lab.table(), SALARIES, "ID", tombstone_horizon="PT1H")
    engine = Engine(spark, str(lab.root / "state"), clock=clock)
    lab.write((1, None, None, "DELETE", "5"), (2, None, None, "DELETE", "5"))
    lab.apply(engine)
    assert tombstones(lab) == [1, 2]
    clock.now += timedelta(hours=2)
    for hour, left in ((1, [1, 2]), (2, [])):
        lab.write((9, "i", 90, "UPSERT", f"{hour}"))
        lab.apply(engine)
        # Remembered, and ended by the next upkeep.
        assert tombstones(lab) == left
        clock.now += timedelta(hours=1)
    clock.now = datetime.now(UTC)
    lab.write((3, None, None, "DELETE", "5"))
    lab.apply(engine)
    return lab, clock, engine


def tombstones(lab: QuarantineLab) -> list[int]:
    base = lab.spark.read.format("delta").load(lab.table())
    return sorted(row["ID"] for row in base.where("_cdc.deleted_at IS NOT NULL").collect())


def test_change_that_is_older_than_a_delete_of_long_ago_is_counted_and_not_applied(
    aged: tuple[QuarantineLab, Clock, Engine],
) -> None:
    lab, _, engine = aged
    lab.write((1, "late", 10, "UPSERT", "4"), (2, "newer", 20, "UPSERT", "6"))
    lab.write((1, None, None, "DELETE", "3"), (3, "older", 30, "UPSERT", "4"))

    assert lab.apply_all() == [(2, "newer", 20), (9, "i", 90)]
    assert lab.held() == [(1, 10, Reason.LATE)]
    status = engine.describe_upsert_table(lab.table())
    assert (status.held_changes, status.held_since, status.late_changes) == (0, None, 1)
    # The statistics tell so too.
    found = quarantine_of(engine.history(status.stream)[-1].stream, Files())
    assert found == QuarantineSize(1, are_late=True)
    # It holds nobody up.
    lab.write((1, "back", 11, "UPSERT", "7"))
    assert lab.apply_all() == [(1, "back", 11), (2, "newer", 20), (9, "i", 90)]


def test_late_change_is_applied_on_demand_alone(
    aged: tuple[QuarantineLab, Clock, Engine],
) -> None:
    lab, _, engine = aged
    lab.write((1, "late", 10, "UPSERT", "4"))
    lab.apply()
    assert engine.redrive(lab.table()) == 0
    assert engine.redrive(lab.table(), late=True) == 1
    assert lab.apply_all() == [(1, "late", 10), (9, "i", 90)]
    assert lab.held() == []


def test_delete_that_is_sent_again_after_its_horizon_changes_nothing_for_readers(
    aged: tuple[QuarantineLab, Clock, Engine],
) -> None:
    lab, _, _ = aged
    lab.write((1, None, None, "DELETE", "5"))
    assert lab.apply_all() == [(9, "i", 90)]
    assert lab.held() == []


def test_upkeep_is_done_once_in_a_while_and_not_by_each_apply(
    lab: QuarantineLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, runs = Clock(), []
    engine = Engine(lab.spark, str(lab.root / "state"), clock=clock)
    monkeypatch.setattr(Upkeep, "_run", lambda self, table: runs.append(self._note(table, clock())))
    for number, hours in enumerate((0, 5, 2, 1, 6)):
        clock.now += timedelta(hours=hours)
        lab.write((number, "a", 1, "UPSERT"))
        lab.apply(engine)
    # After seven hours, and six after that: an eighth of two days each.
    assert len(runs) == 2


def test_upkeep_that_fails_is_told_and_stops_nobody(
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
    assert "was put off" in caplog.text


def test_changes_of_long_ago_are_removed_and_those_that_wait_are_not(lab: QuarantineLab) -> None:
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


def test_unknown_wish_for_bad_rows_is_refused(lab: QuarantineLab) -> None:
    rows = lab.spark.createDataFrame([(1, "UPSERT")], "ID INT, _CHANGE_TYPE STRING")
    with pytest.raises(InvalidRequest, match="fail, quarantine"):
        lab.engine.write_changes(lab.table(), rows, on_bad_rows="ignore")


@dataclass
class Entry:
    """A change as the model knows it."""

    place: int
    key: int
    row: tuple[Any, ...] | None
    number: str | None
    is_redriven: bool = False

    @property
    def is_bad(self) -> bool:
        return self.number == BAD


@dataclass
class Model:
    """What upsert tables do, one change after the other."""

    pending: list[Entry] = field(default_factory=list)
    quarantine: list[Entry] = field(default_factory=list)
    state: dict[int, tuple[str, tuple[Any, ...] | None]] = field(default_factory=dict)

    def judged(self) -> tuple[list[Entry], list[Entry]]:
        """What would be applied now, and what would be held."""
        passed: list[Entry] = []
        held: list[Entry] = []
        waiting = [entry for entry in self.quarantine if entry not in self.pending]
        for entry in sorted(self.pending, key=lambda each: each.place):
            earlier = [each for each in waiting + held if each.place < entry.place]
            is_held = entry.is_bad or any(each.key == entry.key for each in earlier)
            (held if is_held else passed).append(entry)
        return passed, held

    def rows(self) -> list[tuple[Any, ...]]:
        state = dict(self.state)
        for entry in sorted(self.judged()[0], key=lambda each: (each.number or "", each.place)):
            if (entry.number or "") >= state.get(entry.key, ("", None))[0]:
                state[entry.key] = (entry.number or "", entry.row)
        self._next = state
        return sorted((row for _, row in state.values() if row), key=repr)

    def apply(self) -> None:
        self.rows()
        passed, held = self.judged()
        self.state = self._next
        stays = [each for each in self.quarantine if each not in passed and each not in held]
        self.quarantine, self.pending = stays + held, []

    def redrive(self) -> None:
        waiting = [each for each in self.quarantine if each not in self.pending]
        for entry in sorted(waiting, key=lambda each: each.place):
            before = [each for each in waiting if each.key == entry.key]
            if not any(each.is_bad for each in before if each.place <= entry.place):
                self.pending.append(entry)


@pytest.mark.parametrize("seed", range(1))
def test_bad_changes_corrections_and_redrives_in_any_order_end_as_in_a_plain_model(
    lab: QuarantineLab, seed: int
) -> None:
    chance, model, place = random.Random(seed), Model(), 0
    for _ in range(6):
        batch = []
        for _ in range(chance.randrange(1, 8)):
            place += 1
            key, kind = chance.randrange(4), chance.choice(["UPSERT", "UPSERT", "DELETE"])
            number = chance.choice([None, None, "5", "6", BAD])
            row = (key, f"v{place}", place)
            # A delete keeps its salary: corrections find it by that.
            batch.append((*row, kind, number))
            model.pending.append(Entry(place, key, row if kind == "UPSERT" else None, number))
        lab.send(*batch)
        assert lab.read() == model.rows()
        if chance.random() < 0.6:
            model.apply()
            assert lab.apply_all() == model.rows()
        for entry in model.quarantine:
            if entry.is_bad and chance.random() < 0.5:
                entry.number = chance.choice([None, "5", "7"])
                lab.correct(entry.place, entry.number)
        if chance.random() < 0.5:
            model.redrive()
            lab.engine.redrive(lab.table())
            assert lab.read() == model.rows()
    model.apply()
    assert lab.apply_all() == model.rows()


def test_streaming_batches_and_jobs_can_put_bad_rows_aside(lab: QuarantineLab) -> None:
    sink = lab.engine.change_sink(lab.table(), query="q", on_bad_rows="quarantine")
    batch = lab.spark.createDataFrame([(1, "a", 1, "UPSERT"), (2, "b", 2, "MOVE")], CHANGES)
    for _ in range(2):
        sink(batch, 0)
    assert lab.apply_all() == [(1, "a", 1)]
    assert lab.held() == [(2, 2, Reason.TYPE)]
