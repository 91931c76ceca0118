"""Change streams are created, replaced, captured at the same time, kept for a while and dropped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from change_stream_lab import ChangeStreamLab, moment
from pyspark.sql import SparkSession
from stream_lab import Crash

from airflow_provider_cdc.engine import (
    CdcError,
    Engine,
    InvalidPartitionToken,
    InvalidRequest,
    Progress,
    ProtocolPoint,
    StreamConflict,
    StreamExists,
    StreamNotFound,
    TableNotFound,
    Watch,
)

BY_ID = {"src": Watch(keys=["id"])}
TRACKED = "'delta.enableRowTracking' = 'true'"


def sources(lab: ChangeStreamLab) -> set[str]:
    """The streams that feed change streams."""
    return {stream.name for stream in lab.engine.describe_streams()}


def test_creation_that_is_refused_leaves_nothing(lab: ChangeStreamLab) -> None:
    path = lab.path("src")
    for tables, given, kind, text in (
        ({}, {}, InvalidRequest, "watches no table"),
        ({"missing": Watch()}, {}, TableNotFound, "missing"),
        ({path: Watch(keys=["idd"])}, {}, InvalidRequest, "the columns are id, v, n"),
        ({path: Watch(["id"], ["id"])}, {}, InvalidRequest, "in keys and in columns"),
        ({path: Watch(["id"], ["v", "V"])}, {}, InvalidRequest, "twice"),
        ({path: Watch(["id"], "all")}, {}, InvalidRequest, "expected ALL or a list"),
        ({path: Watch(["id"]), f"{path}/": Watch(["id"])}, {}, InvalidRequest, "the same table"),
        ({path: Watch(["id"])}, {"partitions": 1025}, InvalidRequest, "1 to 1024"),
        ({path: Watch(["id"])}, {"retention_period": "8d"}, InvalidRequest, "1 to 7 days"),
        ({path: Watch(["id"])}, {"value_capture_type": "OLD"}, InvalidRequest, "NEW_ROW"),
        (
            {path: Watch(["id"])},
            {"or_replace": True, "if_not_exists": True},
            InvalidRequest,
            "contradict",
        ),
    ):
        with pytest.raises(kind, match=text):
            lab.engine.create_change_stream("cs", tables, **given)
    assert sources(lab) == set()
    assert lab.engine.list_change_streams() == []


def test_names_ignore_case_and_are_taken_once(lab: ChangeStreamLab) -> None:
    first = lab.create(BY_ID)

    with pytest.raises(StreamExists, match="exists already"):
        lab.engine.create_change_stream("CS", {lab.path("src"): Watch(keys=["id"])})
    again = lab.create(BY_ID, if_not_exists=True)
    assert again == first
    with pytest.raises(StreamNotFound, match="did you mean cs"):
        lab.engine.advance_change_stream("css")


def test_replaced_change_stream_begins_anew_and_refuses_old_tokens(lab: ChangeStreamLab) -> None:
    first = lab.create(BY_ID)
    (old,) = lab.tokens(first.created)
    lab.sql("INSERT INTO {src} VALUES (3, 'c', 30)")
    lab.advance()
    second = lab.create(BY_ID, or_replace=True)
    lab.sql("INSERT INTO {src} VALUES (4, 'd', 40)")
    lab.advance()

    assert [mod[1] for mod in lab.mods()] == [{"id": "4"}]
    with pytest.raises(InvalidPartitionToken, match="of an earlier one"):
        lab.read(second.created, partition_token=old)
    assert sources(lab) == {second.tables[0].stream}


def test_dropped_change_stream_leaves_nothing(lab: ChangeStreamLab) -> None:
    stream = lab.create(BY_ID)
    lab.advance()
    lab.engine.drop_change_stream("cs")

    assert sources(lab) == set()
    with pytest.raises(StreamNotFound):
        lab.engine.drop_change_stream("cs")
    lab.engine.drop_change_stream("cs", if_exists=True)
    assert not list(Path(lab.path("state")).rglob(f"{stream.stream_id}*"))


def test_captures_at_the_same_time_capture_each_change_once(lab: ChangeStreamLab) -> None:
    lab.create(BY_ID, partitions=2)
    lab.sql("INSERT INTO {src} SELECT CAST(id AS INT), 'x', id FROM range(10, 50)")
    errors: list[BaseException] = []

    def advance() -> None:
        engine = Engine(lab.spark, lab.path("state"))
        for _ in range(3):
            try:
                engine.advance_change_stream("cs")
            except StreamConflict:
                continue
            except BaseException as error:
                errors.append(error)

    in_threads(advance, advance, advance)
    lab.advance()

    assert errors == []
    assert len(lab.mods()) == len({mod[1]["id"] for mod in lab.mods()}) == 40


def in_threads(*works: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_source_that_was_seen_empty_is_captured_on(lab: ChangeStreamLab) -> None:
    stream = lab.create(BY_ID)
    lab.sql("OPTIMIZE {src} ZORDER BY (id)")
    source = stream.tables[0].stream
    assert lab.engine.stream_has_data(source, exact=True) is False
    span = lab.engine._parts.sources.span(lab.engine._parts.catalog.get_stream(source))
    assert lab.engine._parts.catalog.skip_range(span, younger=True)
    lab.sql("INSERT INTO {src} VALUES (3, 'c', 30)")
    lab.advance()

    assert [mod[1] for mod in lab.mods()] == [{"id": "3"}]


def test_source_that_was_moved_by_hand_is_refused(lab: ChangeStreamLab) -> None:
    stream = lab.create(BY_ID)
    lab.sql("INSERT INTO {src} VALUES (3, 'c', 30)")
    source = stream.tables[0].stream
    lab.engine.advance_stream(source)

    with pytest.raises(InvalidRequest, match="was moved by hand") as caught:
        lab.advance()
    run_fix(lab, caught.value)
    lab.advance()
    assert [mod[1] for mod in lab.mods()] == [{"id": "3"}]


def run_fix(lab: ChangeStreamLab, error: CdcError) -> None:
    """Do what a message advises."""
    from airflow_provider_cdc.engine import Version

    eval(error.fix, {"engine": lab.engine, "Version": Version})


def test_commits_of_one_consumption_are_one_transaction(lab: ChangeStreamLab) -> None:
    for table in ("one", "two"):
        lab.make(table, "id INT, v STRING", properties="'delta.enableRowTracking' = 'true'")
    lab.engine.create_stream("s", on_table=lab.path("src"))
    lab.create({"one": Watch(["id"]), "two": Watch(["id"])})
    lab.sql("INSERT INTO {src} VALUES (3, 'c', 30)")
    lab.consume("INSERT INTO {one} SELECT id, v FROM s", "INSERT INTO {two} SELECT id, v FROM s")
    lab.advance()

    first, second = lab.records()
    assert {first.table_name, second.table_name} == {lab.path("one"), lab.path("two")}
    assert first.server_transaction_id == second.server_transaction_id
    assert moment(first) == moment(second)
    assert (first.number_of_records_in_transaction, first.number_of_partitions_in_transaction) == (
        2,
        1,
    )
    assert [row.is_last_record_in_transaction_in_partition for row in (first, second)] == [
        False,
        True,
    ]


def test_records_older_than_the_retention_period_are_removed(lab: ChangeStreamLab) -> None:
    lab.stopped = datetime.now(UTC)
    stream = lab.create(BY_ID)
    lab.sql("INSERT INTO {src} VALUES (3, 'c', 30)")
    (old,) = lab.tokens(stream.created)
    lab.engine.split_partition("cs", old)
    lab.advance()
    # The clock of the machine runs on, so later commits are later than this.
    lab.stopped += timedelta(days=2)
    lab.sql("INSERT INTO {src} VALUES (4, 'd', 40)")
    stream = lab.advance()

    assert len(stream.layout.steps) == 1
    assert stored_captures(lab) == []
    assert not list(Path(lab.path("state"), "change_streams").rglob("*.parquet"))
    with pytest.raises(InvalidPartitionToken, match="ended before the retention period"):
        lab.read(lab.stopped, partition_token=old)


def test_compacted_captures_have_the_same_records(lab: ChangeStreamLab) -> None:
    lab.make("other", "v STRING", "INSERT INTO {t} VALUES ('a')", properties=TRACKED)
    lab.stopped = created = datetime.now(UTC)
    lab.create({"src": Watch(keys=["id"]), "other": Watch()}, partitions=2)
    lab.stopped = created + timedelta(hours=5)
    lab.advance()
    for number in range(3, 6):
        lab.sql(f"INSERT INTO {{src}} VALUES ({number}, 'c', 30)")
        lab.advance()
    lab.sql("ALTER TABLE {src} ADD COLUMNS (w INT)", "UPDATE {src} SET w = id")
    lab.sql("DELETE FROM {other}")
    lab.advance()
    before = lab.records()
    captures = stored_captures(lab)

    # Records from before the third hour are removed, and captures are compacted.
    lab.stopped = created + timedelta(hours=26, minutes=30)
    lab.advance()
    assert lab.records() == before
    # The next removal takes what the compaction has replaced.
    lab.stopped = created + timedelta(hours=28, minutes=40)
    lab.advance()
    assert lab.records() == before
    assert (len(captures), len(stored_captures(lab))) == (4, 1)


def stored_captures(lab: ChangeStreamLab) -> list[Path]:
    return list(Path(lab.path("state"), "change_streams").glob("*/*/captures/*.json"))


def test_history_of_a_source_that_was_cut_off_is_reported(lab: ChangeStreamLab) -> None:
    lab.create(BY_ID)
    lab.sql("INSERT INTO {src} VALUES (3, 'c', 30)", "INSERT INTO {src} VALUES (4, 'd', 40)")
    Path(lab.path("src"), "_delta_log", f"{2:020d}.json").unlink()

    error: Any
    with pytest.raises(CdcError, match="version 2 was cleaned up") as error:
        lab.advance()
    assert error.value.subject == "change stream cs"


def test_altered_settings_hold_for_later_commits(lab: ChangeStreamLab) -> None:
    lab.create(BY_ID)
    lab.sql("UPDATE {src} SET n = 11 WHERE id = 1")
    altered = lab.engine.alter_change_stream(
        "cs", value_capture_type="NEW_ROW", exclude_insert=True, retention_period="2d", comment="c"
    )
    lab.sql("UPDATE {src} SET n = 12 WHERE id = 1", "INSERT INTO {src} VALUES (3, 'c', 30)")
    lab.advance()

    assert (altered.settings.retention, altered.comment) == (timedelta(days=2), "c")
    assert lab.mods() == [
        ("UPDATE", {"id": "1"}, {"n": "11"}, {"n": "10"}),
        ("UPDATE", {"id": "1"}, {"v": "a", "n": "12"}, {}),
    ]
    kinds = [row.value_capture_type for row in lab.records()]
    assert kinds == ["OLD_AND_NEW_VALUES", "NEW_ROW"]


def test_altered_change_stream_watches_other_tables_and_columns(lab: ChangeStreamLab) -> None:
    lab.make("other", "id INT, v STRING", properties="'delta.enableRowTracking' = 'true'")
    first = lab.create(BY_ID)
    watched = {lab.path("src"): Watch(["id"], ["v"]), lab.path("other"): Watch(["id"])}
    lab.sql("UPDATE {src} SET n = 11 WHERE id = 1", "INSERT INTO {other} VALUES (1, 'x')")
    lab.engine.alter_change_stream("cs", tables=watched)
    lab.sql("UPDATE {src} SET n = 12 WHERE id = 1", "INSERT INTO {other} VALUES (2, 'y')")
    lab.advance()

    assert [mod[:2] for mod in lab.mods()] == [("UPDATE", {"id": "1"}), ("INSERT", {"id": "2"})]
    altered = lab.engine.alter_change_stream("cs", tables={lab.path("other"): Watch(["id"])})
    lab.sql("INSERT INTO {src} VALUES (9, 'z', 1)")
    lab.advance()
    assert len(lab.mods()) == 2
    assert sources(lab) == {table.stream for table in altered.tables}
    assert first.tables[0].stream not in sources(lab)
    with pytest.raises(InvalidRequest, match="by another key"):
        lab.engine.alter_change_stream("cs", tables={lab.path("other"): Watch(["v"])})


def test_capture_that_duplicate_keys_stopped_goes_on_after_an_alteration(
    lab: ChangeStreamLab,
) -> None:
    lab.create(BY_ID)
    lab.sql("INSERT INTO {src} VALUES (3, 'c', 30), (4, 'x', 1), (4, 'y', 2)")
    with pytest.raises(InvalidRequest, match="with the same key"):
        lab.advance()
    lab.engine.alter_change_stream("cs", on_duplicate_key="quarantine")
    lab.advance()

    assert [mod[1] for mod in lab.mods()] == [{"id": "3"}]


def test_commits_of_an_open_consumption_wait_until_it_has_ended(lab: ChangeStreamLab) -> None:
    for table in ("one", "two"):
        lab.make(table, "id INT, v STRING", properties="'delta.enableRowTracking' = 'true'")
    lab.engine.create_stream("s", on_table=lab.path("src"))
    lab.create({"one": Watch(["id"]), "two": Watch(["id"])})
    lab.sql("INSERT INTO {src} VALUES (3, 'c', 30)")
    statements = [
        lab.text(f"INSERT INTO {{{name}}} SELECT id, v FROM s") for name in ("one", "two")
    ]

    def crash(progress: Progress) -> None:
        if (progress.point, progress.statement_index) == (ProtocolPoint.BEFORE_STATEMENT, 1):
            raise Crash

    with pytest.raises(Crash):
        lab.new_engine(crash).consume(statements, consumer="c")
    lab.sql("INSERT INTO {two} VALUES (9, 'z')")
    lab.advance()
    assert [mod[1] for mod in lab.mods()] == [{"id": "9"}]
    lab.engine.consume(statements, consumer="c")
    lab.advance()

    whole = lab.records()[1:]
    assert [moment(row) for row in whole] == [moment(whole[0])] * 2
    assert [row.number_of_records_in_transaction for row in whole] == [2, 2]


def test_state_folder_with_any_name_is_written_and_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    lab = ChangeStreamLab(spark, tmp_path / "odd {y} é")
    lab.make("src", "id INT, v STRING, n BIGINT", properties=TRACKED)
    start = lab.create(BY_ID).created
    lab.sql("INSERT INTO {src} VALUES (3, 'c', 30)")
    lab.advance()

    assert [mod[1] for mod in lab.mods()] == [{"id": "3"}]
    assert len(lab.walk(start)) == 1
