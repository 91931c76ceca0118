"""Upsert tables (seed 004): what the page prints, what wins, and what is refused."""

from __future__ import annotations

import random
import shutil
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from stream_lab import Crash, CrashAt, StreamLab
from upsert_lab import CHANGES, NUMBERED, SALARIES, Clock, UpsertLab

from airflow_provider_cdc.engine import (
    Engine,
    InvalidRequest,
    ProtocolPoint,
    StreamStale,
    TableExists,
    TableNotFound,
)
from airflow_provider_cdc.engine.core.lifecycle import Transition
from airflow_provider_cdc.engine.spark.consumption import Consumer
from airflow_provider_cdc.engine.spark.session_settings import settings
from airflow_provider_cdc.engine.storage.apply_times import ApplyTimes
from airflow_provider_cdc.engine.storage.files import Files
from airflow_provider_cdc.jobs.model import (
    AlterUpsertTable,
    Answer,
    ApplyUpserts,
    CreateUpsertTable,
    JobKind,
    Request,
    WriteChanges,
)
from airflow_provider_cdc.jobs.run import run


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> UpsertLab:
    lab = UpsertLab(spark, tmp_path)
    lab.engine.create_upsert_table(lab.table(), SALARIES, "ID")
    return lab


def test_changes_of_the_page_give_the_table_of_the_page(lab: UpsertLab) -> None:
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
    # By the schedule's own measure, where there is one.
    stream_id = outcome.streams[0].stream_id
    times = ApplyTimes(str(lab.root / "state"), Files(), lambda: datetime.now(UTC))
    times.note(stream_id, timedelta(hours=1))
    assert lab.engine.recommended_max_staleness(lab.table()) == timedelta(minutes=127)


# Of two changes of one key, ingested in this order, which wins; the first four are the page's.
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


def test_later_row_of_one_write_wins_without_numbers(lab: UpsertLab) -> None:
    rows = [(key, f"v{number}", number, "UPSERT") for number in range(50) for key in (1, 2)]
    lab.write(*rows)
    lab.apply()

    assert lab.applied() == [(1, "v49", 49), (2, "v49", 49)]


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


def test_delete_that_comes_before_its_row_wins_all_the_same(lab: UpsertLab) -> None:
    lab.write((1, None, None, "DELETE", "9"))
    lab.apply()
    lab.write((1, "late", 2, "UPSERT", "8"))

    assert lab.read() == []
    lab.apply()
    assert lab.applied() == []


def test_writes_are_not_left_out_by_an_id_that_the_session_was_left_with(lab: UpsertLab) -> None:
    left = {
        "spark.databricks.delta.write.txnAppId": "left behind",
        "spark.databricks.delta.write.txnVersion": "1",
    }
    with settings(lab.spark, left):
        lab.write((1, "a", 10, "UPSERT"))
        lab.write((2, "b", 20, "UPSERT"))
        lab.apply()
        lab.write((3, "c", 30, "UPSERT"))
        assert lab.spark.conf.get("spark.databricks.delta.write.txnAppId") == "left behind"

    assert lab.read() == [(1, "a", 10), (2, "b", 20), (3, "c", 30)]


def test_numbers_are_read_alike_whatever_the_session_makes_of_backslashes(lab: UpsertLab) -> None:
    with settings(lab.spark, {"spark.sql.parser.escapedStringLiterals": "true"}):
        lab.write((1, "a", 10, "UPSERT", "F/1"), (1, "a", 11, "UPSERT", "F/0"))
        lab.apply()
        for number in ("", "F/", "F\n", "F/1 ", "0/1/2/3/4", "12345678901234567"):
            with pytest.raises(InvalidRequest, match="malformed sequence number"):
                lab.write((2, "b", 20, "UPSERT", number))

    assert lab.applied() == [(1, "a", 10)]


@pytest.mark.parametrize("kind", ["VARCHAR(3)", "ARRAY<CHAR(5)>"])
def test_column_with_a_length_is_refused(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    lab = UpsertLab(spark, tmp_path)
    with pytest.raises(InvalidRequest, match="expected STRING"):
        lab.engine.create_upsert_table(lab.table(), f"ID INT, code {kind}", "ID")
    assert not Path(lab.table()).exists()


def test_timestamps_are_the_same_whatever_the_session_calls_so(
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
                pending = lab.engine.read_table(table).collect()
                lab.engine.apply_upserts(table)
                assert lab.engine.read_table(table).collect() == pending
        assert [tuple(row) for row in pending] == [(1, moment)]


def test_session_that_sends_no_table_to_tasks_is_heeded(
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


def test_copy_of_a_table_takes_nothing_from_it(lab: UpsertLab) -> None:
    lab.write((1, "a", 10, "UPSERT"))
    copy = lab.path("copy")
    shutil.copytree(lab.table(), copy)

    for use in (
        lab.engine.apply_upserts,
        lab.engine.read_table,
        lab.engine.describe_upsert_table,
        lambda name: lab.engine.write_changes(name, lab.frame([(2, "b", 20, "UPSERT")])),
        lambda name: lab.engine.alter_upsert_table(name, max_staleness=None),
    ):
        with pytest.raises(InvalidRequest, match="was copied or moved"):
            use(copy)
    lab.engine.drop_upsert_table(copy)

    assert not Path(copy).exists()
    lab.apply()
    assert lab.applied() == [(1, "a", 10)]


def test_table_one_part_of_which_was_altered_can_be_dropped(lab: UpsertLab) -> None:
    lab.sql("ALTER TABLE {t} ADD COLUMNS (Age INT)")
    lab.engine.drop_upsert_table(lab.table())
    assert not Path(lab.table()).exists()


def test_comment_on_a_field_of_the_base_is_no_other_column(
    spark: SparkSession, tmp_path: Path
) -> None:
    lab = UpsertLab(spark, tmp_path)
    lab.engine.create_upsert_table(lab.table(), "ID INT, s STRUCT<x: INT>", "ID")
    lab.sql("ALTER TABLE {t} ALTER COLUMN s.x COMMENT 'a field'")
    rows = spark.sql("SELECT 1 AS ID, struct(2 AS x) AS s, 'UPSERT' AS _CHANGE_TYPE")

    lab.engine.write_changes(lab.table(), rows)

    assert lab.engine.read_table(lab.table()).count() == 1


def test_changes_that_change_nothing_write_no_data_file(lab: UpsertLab) -> None:
    rows = [(1, "a", 1, "UPSERT", "5"), (2, None, None, "DELETE", "5"), (3, "c", 3, "UPSERT", "5")]
    lab.write(*rows)
    lab.apply()

    lab.write(*rows)
    outcome = lab.apply()

    metrics = outcome.statements[0].metrics
    assert metrics["numTargetFilesAdded"] == metrics["numTargetFilesRemoved"] == 0
    assert lab.applied() == [(1, "a", 1), (3, "c", 3)]


@pytest.mark.parametrize("seed", range(2))
def test_changes_in_any_order_and_any_batches_end_as_in_a_plain_model(
    lab: UpsertLab, seed: int
) -> None:
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


@pytest.mark.parametrize("most_writes", [32, 0], ids=["told by the log", "looked for"])
def test_changes_without_numbers_or_with_equal_ones_end_as_they_came(
    lab: UpsertLab, monkeypatch: pytest.MonkeyPatch, most_writes: int
) -> None:
    monkeypatch.setattr("airflow_provider_cdc.engine.core.upserts.changes.MOST_WRITES", most_writes)
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


def test_rows_that_were_read_do_not_change_while_they_are_collected(lab: UpsertLab) -> None:
    lab.write((1, "a", 1, "UPSERT"), (3, "c", 3, "UPSERT"))
    rows = lab.engine.read_table(lab.table())
    lab.apply()
    lab.write((3, None, None, "DELETE"), (1, "b", 2, "UPSERT"))
    lab.apply()

    assert sorted(map(tuple, rows.collect())) == [(1, "a", 1), (3, "c", 3)]
    assert lab.read() == [(1, "b", 2)]


@pytest.mark.parametrize("point", list(ProtocolPoint))
def test_apply_that_is_killed_is_finished_by_whoever_comes_next(
    lab: UpsertLab, point: ProtocolPoint
) -> None:
    lab.write((1, "a", 1, "UPSERT"), (2, "b", 2, "UPSERT"))
    lab.apply()
    lab.write((1, None, None, "DELETE"), (3, "c", 3, "UPSERT"))
    crashing = lab.new_engine(CrashAt(point))
    try:
        lab.apply(crashing)
    except Crash:
        lab.write((2, "B", 2, "UPSERT"))
        while lab.apply() is not None:
            pass
        assert lab.applied() == [(2, "B", 2), (3, "c", 3)]
    else:
        assert lab.applied() == [(2, "b", 2), (3, "c", 3)]
    assert lab.engine.describe_upsert_table(lab.table()).pending_commits == 0


def test_writers_beside_applies_lose_nothing_and_nothing_is_applied_twice(lab: UpsertLab) -> None:
    """Each of two writers owns its keys, and counts them up; a third one key."""

    def write(first: int) -> None:
        for step in range(1, 6):
            lab.write(*((first + key, f"w{first}", step, "UPSERT") for key in range(5)))

    def write_numbered() -> None:
        for step in range(5):
            lab.write((100, "numbered", step, "UPSERT", f"{step:X}"))

    with ThreadPoolExecutor(3) as pool:
        writers = [pool.submit(write, 0), pool.submit(write, 10), pool.submit(write_numbered)]
        while not all(writer.done() for writer in writers):
            lab.apply()
        for writer in writers:
            writer.result()
    lab.apply()

    assert lab.spark.read.format("delta").load(lab.changes()).count() == 55
    keys = [*range(5), *range(10, 15)]
    assert lab.applied() == sorted(
        [(key, f"w{key // 10 * 10}", 5) for key in keys] + [(100, "numbered", 4)], key=repr
    )
    history = lab.engine.history(lab.engine.describe_upsert_table(lab.table()).stream)
    applied = [record for record in history if record.transition is Transition.COMMITTED]
    counts = [record.stream.last_outcome.streams[0].rows["inserted"] for record in applied]
    assert sum(counts) == 55


def test_reads_are_as_stale_as_max_staleness_allows(lab: UpsertLab) -> None:
    """The page's example: applied at T20, read at T25 and at T35, ten minutes allowed."""
    clock = Clock()
    engine = Engine(lab.spark, str(lab.root / "state"), clock=clock)
    engine.alter_upsert_table(lab.table(), max_staleness="INTERVAL 10 MINUTE")
    status = engine.describe_upsert_table(lab.table())
    assert status.max_staleness == "0-0 0 0:10:0"
    # Whoever watches streams is told when the promise is missed.
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
    assert lab.applied() == [(1, "at T20", 20)]

    engine.alter_upsert_table(lab.table(), max_staleness="INTERVAL 15 MINUTE")
    assert lab.read(engine) == [(1, "at T20", 20)]
    engine.alter_upsert_table(lab.table(), max_staleness=None)
    clock.now = since
    assert lab.read(engine) == [(1, "after T20", 21)]


def test_watermark_never_goes_back_and_is_behind_what_waits(lab: UpsertLab) -> None:
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
        # A commit that holds no change, as maintenance makes them.
        lab.sql(f"ALTER TABLE delta.`{lab.changes()}` SET TBLPROPERTIES ('number' = '{number}')")
        seen.append(status().upsert_stream_apply_watermark)
    assert seen == sorted(seen)


def test_change_waits_from_its_own_commit_on_and_not_from_one_without_data(lab: UpsertLab) -> None:
    lab.sql(f"ALTER TABLE delta.`{lab.changes()}` SET TBLPROPERTIES ('a' = 'b')")
    lab.write((1, "a", 1, "UPSERT"))

    history = lab.spark.sql(f"DESCRIBE HISTORY delta.`{lab.changes()}`")
    written = history.orderBy("version", ascending=False).first()
    assert written is not None
    status = lab.engine.describe_upsert_table(lab.table())
    assert status.pending_since == written["timestamp"].astimezone(UTC)


def test_table_whose_changes_are_gone_is_not_read_as_if_none_waited(lab: UpsertLab) -> None:
    lab.engine.alter_upsert_table(lab.table(), max_staleness="INTERVAL 10 MINUTE")
    lab.write((1, "a", 1, "UPSERT"))
    lab.write((1, "b", 2, "UPSERT"))
    Path(lab.changes(), "_delta_log", f"{1:020d}.json").unlink()

    for call in (lab.engine.read_table, lab.engine.describe_upsert_table, lab.engine.apply_upserts):
        with pytest.raises(StreamStale, match="version 1 is gone"):
            call(lab.table())


def test_batch_of_a_streaming_query_that_comes_again_is_written_once(lab: UpsertLab) -> None:
    sink = lab.engine.change_sink(lab.table(), query="orders")
    other = lab.engine.change_sink(lab.table(), query="refunds")
    batch = lab.frame([(1, "a", 1, "UPSERT")])
    for write, batch_id in ((sink, 0), (sink, 0), (sink, 1), (other, 0), (other, 0)):
        write(batch, batch_id)

    assert lab.spark.read.format("delta").load(lab.changes()).count() == 3


def test_streaming_query_writes_changes(lab: UpsertLab) -> None:
    lab.make("src", CHANGES)
    lab.sql("INSERT INTO {src} VALUES (1, 'a', 1, 'UPSERT'), (2, 'b', 2, 'UPSERT')")
    query = (
        lab.spark.readStream.format("delta")
        .load(lab.path("src"))
        .writeStream.foreachBatch(lab.engine.change_sink(lab.table(), query="src"))
        .option("checkpointLocation", lab.path("checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    lab.apply()

    assert lab.applied() == [(1, "a", 1), (2, "b", 2)]


@pytest.fixture(scope="module")
def untouched(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> UpsertLab:
    """A table that refuses whatever is written to it."""
    lab = UpsertLab(spark, tmp_path_factory.mktemp("untouched"))
    lab.engine.create_upsert_table(lab.table(), SALARIES, "ID")
    return lab


@pytest.mark.parametrize(
    ("schema", "row", "message"),
    [
        (CHANGES, (1, "a", 1, "INSERT"), "not a valid CHANGE_TYPE"),
        (CHANGES, (1, "a", 1, None), "not a valid CHANGE_TYPE"),
        (CHANGES, (1, "a", 1, "upsert"), "not a valid CHANGE_TYPE"),
        (CHANGES, (None, "a", 1, "DELETE"), "a column of the primary key is NULL"),
        (SALARIES, (1, "a", 1), "lack the column _CHANGE_TYPE"),
        ("Name STRING, _CHANGE_TYPE STRING", ("a", "UPSERT"), "lack the column ID"),
        (f"{CHANGES}, id INT", (1, "a", 1, "UPSERT", 1), "hold a column twice"),
        (f"{CHANGES}, extra INT", (1, "a", 1, "UPSERT", 1), "hold a column extra"),
        (f"{CHANGES}, _cdc_order INT", (1, "a", 1, "UPSERT", 1), "the engine's own"),
        ("ID STRING, _CHANGE_TYPE STRING", ("1", "DELETE"), "hold ID as string"),
        ("ID BIGINT, _CHANGE_TYPE STRING", (1, "DELETE"), "hold ID as bigint"),
        *[
            (NUMBERED, (1, "a", 1, "UPSERT", number), "malformed sequence number")
            for number in ("", "G", "1/", "/1", "1//2", "1/2/3/4/5", "1" * 17, " 1", "1\n", "-1")
        ],
    ],
)
def test_changes_that_do_not_fit_are_refused_and_nothing_is_written(
    untouched: UpsertLab, schema: str, row: tuple[Any, ...], message: str
) -> None:
    good = untouched.frame([(9, "good", 9, "UPSERT")])
    bad = untouched.spark.createDataFrame([row], schema)
    if set(good.columns) == set(bad.columns):
        bad = good.union(bad)
    with pytest.raises(InvalidRequest, match=message) as caught:
        untouched.engine.write_changes(untouched.table(), bad)
    assert "nothing was written" in str(caught.value)
    assert untouched.spark.read.format("delta").load(untouched.changes()).count() == 0


def test_refused_row_is_named(lab: UpsertLab) -> None:
    with pytest.raises(InvalidRequest) as caught:
        lab.write((1, "a", 1, "UPSERT", "1"), (42, "b", 2, "DELETE", "xyz"))
    assert '"ID":42' in str(caught.value)
    assert '"_CHANGE_SEQUENCE_NUMBER":"xyz"' in str(caught.value)


def test_changes_may_have_fewer_and_narrower_columns(lab: UpsertLab) -> None:
    rows = lab.spark.createDataFrame([(1, "UPSERT")], "id SMALLINT, _change_type STRING")
    lab.engine.write_changes(lab.table(), rows)
    lab.apply()

    assert lab.applied() == [(1, None, None)]


def test_table_that_is_there_is_not_made_again(lab: UpsertLab) -> None:
    with pytest.raises(TableExists):
        lab.engine.create_upsert_table(lab.table(), SALARIES, "ID")
    lab.engine.create_upsert_table(lab.table(), SALARIES, "ID", if_not_exists=True)


def test_key_without_statistics_is_a_key_all_the_same(spark: SparkSession, tmp_path: Path) -> None:
    lab = UpsertLab(spark, tmp_path)
    schema = "flag BOOLEAN, code BINARY, v INT"
    lab.engine.create_upsert_table(lab.table(), schema, ["flag", "code"])
    rows = [(True, b"x", 1, "UPSERT"), (False, b"x", 2, "UPSERT"), (True, b"x", 3, "UPSERT")]
    given = f"{schema}, _CHANGE_TYPE STRING"
    lab.engine.write_changes(lab.table(), spark.createDataFrame(rows, given))
    lab.apply()

    assert [row[2] for row in lab.applied()] == [2, 3]


def test_clustering_by_what_is_no_column_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    lab = UpsertLab(spark, tmp_path)
    with pytest.raises(InvalidRequest, match="there is no column nothing"):
        lab.engine.create_upsert_table(lab.table(), SALARIES, "ID", cluster_by=["nothing"])


def test_table_whose_creation_was_not_finished_is_finished_and_not_written_before(
    lab: UpsertLab,
) -> None:
    shutil.rmtree(lab.changes())
    lab.engine.drop_stream(lab.engine.show_streams()[0].name)
    for call in (
        lambda: lab.write((1, "a", 1, "UPSERT")),
        lambda: lab.engine.change_sink(lab.table(), query="q"),
        lab.read,
        lab.apply,
    ):
        with pytest.raises(InvalidRequest, match="is not whole"):
            call()
    assert not Path(lab.changes()).exists()

    lab.engine.create_upsert_table(lab.table(), SALARIES, "ID", if_not_exists=True)
    lab.write((1, "a", 1, "UPSERT"))
    lab.apply()
    assert lab.applied() == [(1, "a", 1)]


def test_table_that_is_no_upsert_table_is_refused(lab: UpsertLab) -> None:
    lab.make("plain", "id INT")
    for call in (lab.engine.apply_upserts, lab.engine.read_table, lab.engine.describe_upsert_table):
        with pytest.raises(InvalidRequest, match="is no upsert table"):
            call(lab.path("plain"))


@pytest.mark.parametrize("partial", [False, True], ids=["whole rows", "parts of rows"])
def test_composite_key_and_odd_names_are_applied(
    spark: SparkSession, tmp_path: Path, partial: bool
) -> None:
    lab = UpsertLab(spark, tmp_path)
    schema = (
        "`Tag'e` DATE, `größe\\1` STRING, `a.b` STRUCT<`my-field`: INT, y: ARRAY<INT>>, `Ö'\\n` INT"
    )
    lab.engine.create_upsert_table(
        lab.table(), schema, ["tag'e", "größe\\1"], partial_changes=partial
    )
    day = datetime(2026, 1, 1).date()
    given = f"{schema}, _CHANGE_TYPE STRING"
    rows: list[tuple[Any, ...]]
    rows = [(day, "a", (1, [2]), 5, "UPSERT"), (day, "b", (3, None), 6, "UPSERT")]
    lab.engine.write_changes(lab.table(), spark.createDataFrame(rows, given))

    assert [tuple(row)[1] for row in lab.read()] == ["a", "b"]
    lab.apply()
    assert lab.read() == [(day, "a", (1, [2]), 5), (day, "b", (3, None), 6)]
    given += ", _CHANGE_SEQUENCE_NUMBER STRING"
    rows = [(day, "b", (4, []), 7, "UPSERT", "1")]
    if partial:
        given += ", _CHANGE_UNCHANGED ARRAY<STRING>"
        rows = [(*rows[0], ["a.B"]), (day, "a", None, 8, "UPSERT", "1", ["ö'\\N"])]
    lab.engine.write_changes(lab.table(), spark.createDataFrame(rows, given))
    expected = [(day, "a", (1, [2]), 5), (day, "b", (4, []), 7)]
    if partial:
        expected = [(day, "a", None, 5), (day, "b", (3, None), 7)]
    assert lab.read() == expected
    lab.apply()
    assert lab.applied() == expected


def test_jobs_write_once_and_apply(lab: UpsertLab) -> None:
    """What the operators submit: a write that is repeated writes nothing."""

    def answer(kind: JobKind, **task: Any) -> Answer:
        state = str(lab.root / "state")
        found = run(Request(uuid.uuid4().hex, state, kind, **task), lab.spark)
        assert found.error is None, found.error
        return found

    query = "SELECT 1 AS ID, 'a' AS Name, 2 AS Salary, 'UPSERT' AS _CHANGE_TYPE"
    write = WriteChanges(lab.table(), query, "a-run")
    for _ in range(2):
        answer(JobKind.WRITE_CHANGES, write_changes=write)
    assert lab.spark.read.format("delta").load(lab.changes()).count() == 1
    applied = answer(JobKind.APPLY_UPSERTS, apply_upserts=ApplyUpserts(lab.table()))
    assert applied.outcome is not None
    assert lab.applied() == [(1, "a", 2)]
    assert answer(JobKind.APPLY_UPSERTS, apply_upserts=ApplyUpserts(lab.table())).outcome is None

    for query, problem in (
        ("SELECT 1 AS ID, 'MOVE' AS _CHANGE_TYPE", "hold a row of another type"),
        (f"INSERT INTO delta.`{lab.table()}` (ID) VALUES (7)", "is no query"),
    ):
        bad = WriteChanges(lab.table(), query, "b")
        request = Request(
            uuid.uuid4().hex, str(lab.root / "state"), JobKind.WRITE_CHANGES, write_changes=bad
        )
        error = run(request, lab.spark).error
        assert error is not None
        assert not error.retryable
        assert problem in error.message
    assert lab.applied() == [(1, "a", 2)]


def test_jobs_make_a_table_alter_it_and_finish_what_was_killed(
    spark: SparkSession, tmp_path: Path
) -> None:
    lab = UpsertLab(spark, tmp_path)

    def answer(kind: JobKind, **task: Any) -> Answer:
        return run(Request(uuid.uuid4().hex, str(lab.root / "state"), kind, **task), spark)

    ten = timedelta(minutes=10)
    create = CreateUpsertTable(lab.table(), SALARIES, ("id",), ten, cluster_by=("Name",))
    made = answer(JobKind.CREATE_UPSERT_TABLE, create_upsert_table=create)
    assert made.upsert_table is not None
    assert (made.upsert_table.primary_key, made.upsert_table.max_staleness) == (("ID",), ten)
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{lab.table()}`").first()
    assert detail is not None
    assert detail["clusteringColumns"] == ["Name"]
    again = answer(JobKind.CREATE_UPSERT_TABLE, create_upsert_table=create)
    assert again.error is not None
    assert not again.error.retryable

    shutil.rmtree(lab.changes())
    lab.engine.drop_stream(made.upsert_table.stream)
    retry = replace(create, if_not_exists=True)
    finished = answer(JobKind.CREATE_UPSERT_TABLE, create_upsert_table=retry)
    assert finished.upsert_table == made.upsert_table

    for longest, shown in ((timedelta(hours=1), "0-0 0 1:0:0"), (None, None)):
        alter = AlterUpsertTable(lab.table(), longest)
        altered = answer(JobKind.ALTER_UPSERT_TABLE, alter_upsert_table=alter)
        assert altered.error is None
        status = lab.engine.describe_upsert_table(lab.table())
        assert status.max_staleness == shown
        assert lab.engine.describe_stream(status.stream).max_lag == longest


def test_dropped_table_leaves_nothing_and_can_be_made_anew(lab: UpsertLab) -> None:
    lab.write((1, "a", 1, "UPSERT"))
    lab.engine.drop_upsert_table(lab.table())
    assert not Path(lab.table()).exists()
    assert lab.engine.show_streams() == []
    with pytest.raises(TableNotFound):
        lab.engine.drop_upsert_table(lab.table())

    lab.engine.create_upsert_table(lab.table(), SALARIES, "ID")
    assert lab.read() == []
    # A call that was killed when the log was gone already.
    lab.engine._catalog.drop(lab.engine.show_streams()[0].name)
    shutil.rmtree(Path(lab.table(), "_delta_log"))
    lab.engine.drop_upsert_table(lab.table())
    assert not Path(lab.table()).exists()


@pytest.fixture
def named(spark: SparkSession, tmp_path: Path) -> Iterator[StreamLab]:
    spark.sql("CREATE SCHEMA IF NOT EXISTS upserts_lab")
    spark.sql("USE upserts_lab")
    yield StreamLab(spark, tmp_path)
    spark.sql("USE default")
    spark.sql("DROP SCHEMA upserts_lab CASCADE")


def test_table_of_the_catalog_shows_its_data_columns_alone(
    named: StreamLab, spark: SparkSession
) -> None:
    engine = named.engine
    engine.create_upsert_table(
        "employees", "id INT, name STRING", "id", max_staleness="INTERVAL 10 MINUTE"
    )
    rows = [(1, "a", "UPSERT", "1"), (2, "b", "UPSERT", "1"), (3, None, "DELETE", "1")]
    given = "id INT, name STRING, _CHANGE_TYPE STRING, _CHANGE_SEQUENCE_NUMBER STRING"
    engine.write_changes("employees", spark.createDataFrame(rows, given))
    engine.apply_upserts("employees")

    assert spark.table("employees").columns == ["id", "name"]
    assert sorted(map(tuple, spark.table("employees").collect())) == [(1, "a"), (2, "b")]
    properties = spark.sql("SHOW TBLPROPERTIES employees__base").collect()
    assert ("airflow_provider_cdc.upsert.max_staleness", "P0DT600S") in map(tuple, properties)
    assert engine.describe_upsert_table("employees").primary_key == ("id",)

    engine.drop_upsert_table("employees")
    assert spark.sql("SHOW TABLES").collect() == []


def test_table_that_was_dropped_past_the_engine_and_made_again_has_a_view_of_its_columns(
    named: StreamLab, spark: SparkSession
) -> None:
    engine = named.engine
    engine.create_upsert_table("again", "id INT", "id")
    spark.sql("DROP TABLE again__base")

    engine.create_upsert_table("again", "id INT, name STRING", "id")

    assert spark.table("again").columns == ["id", "name"]


@pytest.mark.parametrize(
    "kind", ["TABLE taken (id INT) USING delta", "VIEW taken AS SELECT 1 AS id"]
)
def test_name_that_another_table_or_view_has_is_refused(
    named: StreamLab, spark: SparkSession, kind: str
) -> None:
    spark.sql(f"CREATE {kind}")
    for if_not_exists in (False, True):
        with pytest.raises(TableExists, match="exists already"):
            named.engine.create_upsert_table("taken", "id INT", "id", if_not_exists=if_not_exists)
    assert not spark.catalog.tableExists("taken__base")
