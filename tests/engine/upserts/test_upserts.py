"""Upsert tables, by BigQuery's page on CDC: its examples, which change wins, how stale a read may
be.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from stream_lab import PASSED_POINTS, Crash, CrashAt
from upsert_lab import Clock, UpsertLab

from airflow_provider_cdc.engine import (
    Engine,
    InvalidRequest,
    ProtocolPoint,
    StreamStale,
)
from airflow_provider_cdc.engine.consumption.consumer import Consumer
from airflow_provider_cdc.engine.spark.session.session_settings import settings
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.state.apply_times import ApplyTimes


def test_changes_of_the_bigquery_example_give_the_documented_table(lab: UpsertLab) -> None:
    lab.write(
        (100, "Charlie", 2000, "UPSERT"), (101, "Tal", 3000, "UPSERT"), (102, "Lee", 5000, "UPSERT")
    )
    lab.apply()

    lab.write(
        (100, None, None, "DELETE"), (101, "Tal", 8000, "UPSERT"), (105, "Izumi", 6000, "UPSERT")
    )
    expected = [(101, "Tal", 8000), (102, "Lee", 5000), (105, "Izumi", 6000)]
    assert lab.read() == expected
    assert len(lab.applied()) == 3
    assert [row[0] for row in lab.applied()] == [100, 101, 102]

    outcome = lab.apply()

    assert lab.applied() == lab.read() == expected
    assert outcome.streams[0].rows["inserted"] == 3
    assert lab.apply() is None
    recommended = lab.engine.recommended_max_staleness(lab.table())
    assert recommended is not None
    assert recommended >= timedelta(minutes=8)
    # The recommendation uses the schedule's own measure, if there is one.
    stream_id = outcome.streams[0].stream_id
    times = ApplyTimes(str(lab.root / "state"), Files(), lambda: datetime.now(UTC))
    times.note(stream_id, timedelta(hours=1))
    assert lab.engine.recommended_max_staleness(lab.table()) == timedelta(minutes=127)


# Two changes of one key in order of ingestion, and which one wins; the first four are BigQuery's.
PAIRS = [
    ("77", "7B", 2),
    ("FFF/B", "FFF/ABC", 2),
    ("BA/FFFFFFFF", "ABC", 2),
    ("FFF/ABC", "ABC", 1),
    ("fff/abc", "FFF/ABC", 2),
    ("0/0/0/0", "FFFFFFFFFFFFFFFF/FFFFFFFFFFFFFFFF/FFFFFFFFFFFFFFFF/FFFFFFFFFFFFFFFF", 2),
    ("FFF/0", "FFF", 1),
    ("0", None, 1),
    (None, "0", 2),
    (None, None, 2),
    ("00FF", "FF", 2),
]


@pytest.mark.thorough
@pytest.mark.parametrize("applied", [False, True], ids=["one apply", "two applies"])
def test_greater_sequence_number_wins_and_the_later_among_equal_ones(
    lab: UpsertLab, applied: bool
) -> None:
    lab.write(*((key, "first", 1, "UPSERT", pair[0]) for key, pair in enumerate(PAIRS)))
    if applied:
        lab.apply()
    lab.write(*((key, "second", 2, "UPSERT", pair[1]) for key, pair in enumerate(PAIRS)))
    expected = {key: pair[2] for key, pair in enumerate(PAIRS)}
    assert {row[0]: row[2] for row in lab.read()} == expected
    lab.apply()

    assert {row[0]: row[2] for row in lab.applied()} == expected


@pytest.mark.thorough
def test_later_row_of_one_write_wins_without_numbers(lab: UpsertLab) -> None:
    rows = [(key, f"v{number}", number, "UPSERT") for number in range(50) for key in (1, 2)]
    lab.write(*rows)
    lab.apply()

    assert lab.applied() == [(1, "v49", 49), (2, "v49", 49)]


@pytest.mark.thorough
def test_delete_keeps_an_older_change_from_coming_back(lab: UpsertLab) -> None:
    lab.write((1, "a", 1, "UPSERT", "5"))
    lab.apply()
    lab.write((1, None, None, "DELETE", "9"))
    lab.apply()
    lab.write((1, "late", 2, "UPSERT", "7"), (2, "b", 2, "UPSERT", "1"))
    assert lab.read() == [(2, "b", 2)]
    lab.apply()
    assert lab.applied() == [(2, "b", 2)]

    lab.write((1, "back", 3, "UPSERT", "A"))
    lab.apply()
    assert lab.applied() == [(1, "back", 3), (2, "b", 2)]


@pytest.mark.thorough
def test_delete_that_arrives_before_its_older_upsert_still_wins(lab: UpsertLab) -> None:
    lab.write((1, None, None, "DELETE", "9"))
    lab.apply()
    lab.write((1, "late", 2, "UPSERT", "8"))

    assert lab.read() == []
    lab.apply()
    assert lab.applied() == []


@pytest.mark.thorough
def test_sequence_numbers_are_read_alike_under_any_escape_setting(lab: UpsertLab) -> None:
    with settings(lab.spark, {"spark.sql.parser.escapedStringLiterals": "true"}):
        lab.write((1, "a", 10, "UPSERT", "F/1"), (1, "a", 11, "UPSERT", "F/0"))
        lab.apply()
        for number in ("", "F/", "F\n", "F/1 ", "0/1/2/3/4", "12345678901234567"):
            with pytest.raises(InvalidRequest, match="malformed sequence number"):
                lab.write((2, "b", 20, "UPSERT", number))

    assert lab.applied() == [(1, "a", 10)]


@pytest.mark.thorough
def test_names_with_quotes_are_the_same_under_any_escape_setting(
    spark: SparkSession, tmp_path: Path
) -> None:
    lab = UpsertLab(spark, tmp_path)
    schema = "`k'\\ü` INT, `it's` INT, `a\\b` STRING"

    def write(*row: object) -> None:
        columns = f"{schema}, _CHANGE_TYPE STRING, _CHANGE_SEQUENCE_NUMBER STRING"
        given = f"{columns}, _CHANGE_UNCHANGED ARRAY<STRING>"
        lab.engine.write_changes(lab.table(), spark.createDataFrame([row], given))

    unescaped = {"spark.sql.parser.escapedStringLiterals": "true"}
    with settings(spark, unescaped):
        lab.engine.create_upsert_table(lab.table(), schema, "k'\\ü", partial_changes=True)
    write(1, 5, "five", "UPSERT", "1", [])
    lab.apply()
    write(1, None, "six", "UPSERT", "2", ["it's"])
    with settings(spark, unescaped):
        assert lab.read() == [(1, 5, "six")]
        lab.apply()
    # This change is late for one column, in sessions of both settings.
    write(1, 7, "late", "UPSERT", "1", [])
    with settings(spark, unescaped):
        lab.apply()
    assert lab.applied() == [(1, 7, "six")]
    lab.engine.drop_upsert_table(lab.table())
    assert not Path(lab.table()).exists()


@pytest.mark.thorough
def test_timestamps_are_the_same_under_any_session_timestamp_type(
    spark: SparkSession, tmp_path: Path
) -> None:
    lab = UpsertLab(spark, tmp_path)
    schema = "ID INT, at TIMESTAMP_LTZ"
    used = "TIMESTAMP_NTZ"
    moment = datetime(2026, 1, 2, 3, 4, 5)
    for made in ("TIMESTAMP_LTZ", used):
        table = lab.path(made)
        with settings(spark, {"spark.sql.timestampType": made}):
            lab.engine.create_upsert_table(table, schema, "ID", tombstone_horizon="PT0S")
        with settings(spark, {"spark.sql.timestampType": used}):
            for kind in ("UPSERT", "DELETE", "UPSERT"):
                rows = spark.createDataFrame([(1, moment, kind)], f"{schema}, _CHANGE_TYPE STRING")
                lab.engine.write_changes(table, rows)
                pending = lab.engine.read_upsert_table(table).collect()
                lab.engine.apply_upserts(table)
                assert lab.engine.read_upsert_table(table).collect() == pending
        assert [tuple(row) for row in pending] == [(1, moment)]


@pytest.mark.thorough
def test_session_that_disables_broadcast_joins_is_respected(
    lab: UpsertLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans: list[str] = []
    consume = Consumer.consume

    def noted(self: Consumer, statements: list[str], **given: Any) -> Any:
        plans.extend(statements)
        return consume(self, statements, **given)

    monkeypatch.setattr(Consumer, "consume", noted)
    for threshold in ("10MB", "-1"):
        lab.write((1, "a", 10, "UPSERT"))
        with settings(lab.spark, {"spark.sql.autoBroadcastJoinThreshold": threshold}):
            lab.apply()
    assert ["BROADCAST" in plan for plan in plans] == [True, False]


@pytest.mark.thorough
def test_changes_that_change_nothing_write_no_data_file(lab: UpsertLab) -> None:
    rows = [(1, "a", 1, "UPSERT", "5"), (2, None, None, "DELETE", "5"), (3, "c", 3, "UPSERT", "5")]
    lab.write(*rows)
    lab.apply()

    lab.write(*rows)
    outcome = lab.apply()

    metrics = outcome.statements[0].metrics
    assert metrics["numTargetFilesAdded"] == metrics["numTargetFilesRemoved"] == 0
    assert lab.applied() == [(1, "a", 1), (3, "c", 3)]


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(2))
def test_changes_in_any_order_and_batches_match_a_plain_model(lab: UpsertLab, seed: int) -> None:
    chance = random.Random(seed)
    changes = [
        (
            key,
            f"v{step}" if kind == "UPSERT" else None,
            step if kind == "UPSERT" else None,
            kind,
            f"{step:X}",
        )
        for step in range(60)
        for key in [chance.randrange(8)]
        for kind in [chance.choice(["UPSERT", "UPSERT", "DELETE"])]
    ]
    expected = {change[0]: change for change in changes}
    sent = changes + chance.choices(changes, k=20)
    chance.shuffle(sent)
    lab.send_in_batches(sent, chance, least=1)

    rows = [change[:3] for change in expected.values() if change[3] == "UPSERT"]
    assert lab.applied() == lab.read() == sorted(rows, key=repr)


@pytest.mark.thorough
@pytest.mark.parametrize("most_writes", [32, 0], ids=["known from the log", "searched"])
def test_changes_with_no_or_equal_sequence_numbers_keep_arrival_order(
    lab: UpsertLab, monkeypatch: pytest.MonkeyPatch, most_writes: int
) -> None:
    monkeypatch.setattr(
        "airflow_provider_cdc.engine.core.upserts.change_rows.MOST_WRITES", most_writes
    )
    chance = random.Random(most_writes)
    held: dict[int, tuple[str, Any]] = {}
    for _ in range(8):
        batch = []
        for step in range(chance.randrange(1, 15)):
            key, kind = chance.randrange(5), chance.choice(["UPSERT", "DELETE"])
            number = chance.choice([None, None, "5", "6"])
            row = (key, f"v{step}", step) if kind == "UPSERT" else (key, None, None)
            batch.append((*row, kind, number))
            if (number or "") >= held.get(key, ("", None))[0]:
                held[key] = (number or "", row if kind == "UPSERT" else None)
        lab.write(*batch)
        expected = sorted((row for _, row in held.values() if row), key=repr)
        assert lab.read() == expected
        if chance.random() < 0.5:
            lab.apply()
            assert lab.applied() == lab.read() == expected


@pytest.mark.thorough
def test_rows_of_a_read_stay_the_same_after_later_applies(lab: UpsertLab) -> None:
    lab.write((1, "a", 1, "UPSERT"), (3, "c", 3, "UPSERT"))
    rows = lab.engine.read_upsert_table(lab.table())
    lab.apply()
    lab.write((3, None, None, "DELETE"), (1, "b", 2, "UPSERT"))
    lab.apply()

    assert sorted(map(tuple, rows.collect())) == [(1, "a", 1), (3, "c", 3)]
    assert lab.read() == [(1, "b", 2)]


@pytest.mark.thorough
@pytest.mark.parametrize("point", PASSED_POINTS)
def test_killed_apply_is_finished_by_the_next_apply(lab: UpsertLab, point: ProtocolPoint) -> None:
    lab.write((1, "a", 1, "UPSERT"), (2, "b", 2, "UPSERT"))
    lab.apply()
    lab.write((1, None, None, "DELETE"), (3, "c", 3, "UPSERT"))
    with pytest.raises(Crash):
        lab.apply(lab.new_engine(CrashAt(point)))
    lab.write((2, "B", 2, "UPSERT"))
    while lab.apply() is not None:
        pass
    assert lab.applied() == [(2, "B", 2), (3, "c", 3)]
    assert lab.engine.describe_upsert_table(lab.table()).pending_commits == 0


@pytest.mark.thorough
def test_reads_are_as_stale_as_max_staleness_allows(lab: UpsertLab) -> None:
    """BigQuery's example: applied at T20, read at T25 and at T35, ten minutes allowed."""
    clock = Clock()
    engine = Engine(lab.spark, str(lab.root / "state"), clock=clock)
    engine.alter_upsert_table(lab.table(), max_staleness="INTERVAL 10 MINUTE")
    status = engine.describe_upsert_table(lab.table())
    assert status.max_staleness == "0-0 0 0:10:0 (10 minutes)"
    # The stream's maximum lag makes its monitor report a missed promise.
    assert engine.describe_stream(status.stream).max_lag == timedelta(minutes=10)
    lab.write((1, "at T20", 20, "UPSERT"))
    lab.apply(engine)
    lab.write((1, "after T20", 21, "UPSERT"))
    since = engine.describe_upsert_table(lab.table()).pending_since
    assert since is not None

    clock.now = since + timedelta(minutes=5)
    assert lab.read(engine) == [(1, "at T20", 20)]
    clock.now = since + timedelta(minutes=15)
    assert lab.read(engine) == [(1, "after T20", 21)]
    # A clock slower than the writer's clock cannot show how long the change has waited.
    clock.now = since - timedelta(seconds=1)
    assert lab.read(engine) == [(1, "after T20", 21)]
    clock.now = since + timedelta(minutes=15)
    assert lab.applied() == [(1, "at T20", 20)]

    engine.alter_upsert_table(lab.table(), max_staleness="INTERVAL 15 MINUTE")
    assert lab.read(engine) == [(1, "at T20", 20)]
    engine.alter_upsert_table(lab.table(), max_staleness=None)
    clock.now = since
    assert lab.read(engine) == [(1, "after T20", 21)]


@pytest.mark.thorough
def test_watermark_never_decreases_and_is_before_waiting_changes(lab: UpsertLab) -> None:
    def status() -> Any:
        return lab.engine.describe_upsert_table(lab.table())

    seen = [status().upsert_stream_apply_watermark]
    for number in range(3):
        lab.write((number, "a", 1, "UPSERT"))
        seen.append(status().upsert_stream_apply_watermark)
        assert seen[-1] < status().pending_since
        lab.apply()
        seen.append(status().upsert_stream_apply_watermark)
        assert (status().pending_since, status().pending_commits) == (None, 0)
        # A commit without changes, as maintenance makes them.
        lab.sql(f"ALTER TABLE delta.`{lab.changes()}` SET TBLPROPERTIES ('number' = '{number}')")
        seen.append(status().upsert_stream_apply_watermark)
    assert seen == sorted(seen)


@pytest.mark.thorough
def test_change_is_pending_since_its_commit_not_since_one_without_data(lab: UpsertLab) -> None:
    lab.sql(f"ALTER TABLE delta.`{lab.changes()}` SET TBLPROPERTIES ('a' = 'b')")
    lab.write((1, "a", 1, "UPSERT"))

    history = lab.spark.sql(f"DESCRIBE HISTORY delta.`{lab.changes()}`")
    written = history.orderBy("version", ascending=False).first()
    assert written is not None
    status = lab.engine.describe_upsert_table(lab.table())
    assert status.pending_since == written["timestamp"].astimezone(UTC)


def test_table_with_missing_change_commits_is_not_read_as_up_to_date(lab: UpsertLab) -> None:
    lab.engine.alter_upsert_table(lab.table(), max_staleness="INTERVAL 10 MINUTE")
    lab.write((1, "a", 1, "UPSERT"))
    lab.write((1, "b", 2, "UPSERT"))
    Path(lab.changes(), "_delta_log", f"{1:020d}.json").unlink()

    for call in (
        lab.engine.read_upsert_table,
        lab.engine.describe_upsert_table,
        lab.engine.apply_upserts,
    ):
        with pytest.raises(StreamStale, match="version 1 is missing"):
            call(lab.table())
