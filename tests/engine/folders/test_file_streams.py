"""Insert-only streams on folders of files."""

from __future__ import annotations

import bz2
import gzip
import json
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kept_frames import KeptFrames
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from stream_lab import Change, Crash, CrashAt, StreamLab, row_ids
from streams import delta_row_id

from airflow_provider_cdc.engine import (
    FilesChanged,
    FileUnreadable,
    InvalidRange,
    InvalidRequest,
    OffsetOf,
    ProtocolPoint,
    StatementFailed,
    Stream,
    StreamCatalog,
    StreamMode,
    StreamUnusable,
    Timestamp,
    Version,
    shown,
)
from airflow_provider_cdc.engine.clock import utc_now
from airflow_provider_cdc.engine.core.folders.file_options import FileOptions
from airflow_provider_cdc.engine.core.folders.folder_log import ROW_IDS_PER_FILE
from airflow_provider_cdc.engine.spark.reading import file_sources
from airflow_provider_cdc.engine.spark.session.session_settings import settings

COLUMNS = "id INT, v STRING"
FORMATS = ["csv", "json", "orc", "parquet"]


@dataclass(eq=False)
class Inbox(StreamLab):
    """A folder of files next to the tables; its files are written as other programs would."""

    @property
    def folder(self) -> Path:
        return self.root / "in ü%20"

    def put(self, path: str, *rows: str) -> Path:
        """Write a CSV file of ``rows`` under a temporary name, then rename it."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_name(f".{file.name}")
        draft.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
        return draft.rename(file)

    def put_as(self, file_format: str, path: str, rows: Sequence[tuple[int, str]]) -> Path:
        """Write a file of ``rows`` in a format that Spark writes."""
        out = self.root / "written" / path
        frame = self.spark.createDataFrame(list(rows), COLUMNS).coalesce(1)
        frame.write.mode("overwrite").format(file_format).save(str(out))
        (part,) = out.glob("part-*")
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        return part.rename(file)

    def stream(self, name: str = "s", **options: Any) -> Stream:
        given = {"file_format": "csv", "file_schema": COLUMNS, "mode": "insert_only"} | options
        return self.engine.create_stream(name, on_files=str(self.folder), **given)

    def ids(self, stream: str = "s") -> list[int]:
        changes = self.changes(stream)
        assert {(change.action, change.is_update) for change in changes} <= {("INSERT", False)}
        return [change.values[0] for change in changes]

    def take(self, **options: Any) -> Any:
        return self.consume("INSERT INTO {t} SELECT id, v FROM s", **options)

    def taken(self) -> list[int]:
        return [row[0] for row in self.rows("t")]


@pytest.fixture
def inbox(spark: SparkSession, tmp_path: Path) -> Inbox:
    """A folder with one old file."""
    found = Inbox(spark, tmp_path)
    found.put("old.csv", "0,zero")
    return found


@pytest.fixture
def target(inbox: Inbox) -> Inbox:
    """The inbox with a stream ``s`` and an empty table ``t``."""
    inbox.stream()
    inbox.make("t", COLUMNS)
    return inbox


@pytest.mark.thorough
@pytest.mark.parametrize("file_format", FORMATS)
def test_rows_of_new_files_are_inserts_in_every_format(inbox: Inbox, file_format: str) -> None:
    (inbox.folder / "old.csv").unlink()
    inbox.put_as(file_format, "old", [(0, "zero")])
    inbox.stream(file_format=file_format)
    assert inbox.changes("s") == []

    inbox.put_as(file_format, "a", [(number, f"v{number}") for number in range(1, 5)])
    inbox.put_as(file_format, "b", [(9, "ü")])

    changes = inbox.changes("s")
    assert [change[:3] for change in changes] == [
        *[((number, f"v{number}"), "INSERT", False) for number in range(1, 5)],
        ((9, "ü"), "INSERT", False),
    ]
    assert positions(changes) == [(1, 0), (1, 1), (1, 2), (1, 3), (2, 0)]
    assert inbox.engine.read_stream("s").schema.simpleString() == (
        "struct<id:int,v:string,METADATA$ACTION:string,METADATA$ISUPDATE:boolean,"
        "METADATA$ROW_ID:string>"
    )


def positions(changes: Sequence[Change]) -> list[tuple[int, int]]:
    """For each change, the number of its file and the number of its row in the file."""
    return [divmod(delta_row_id(change.row_id), ROW_IDS_PER_FILE) for change in changes]


def test_avro_without_its_package_is_refused_when_the_stream_is_created(inbox: Inbox) -> None:
    try:
        inbox.spark.read.format("avro").schema(COLUMNS).load(str(inbox.folder))
    except PySparkException:
        with pytest.raises(InvalidRequest, match=r"as avro.*spark-avro_2\.13"):
            inbox.stream(file_format="avro")
        with pytest.raises(InvalidRequest, match=r"spark-avro_2\.13"):
            inbox.stream(file_format="avro", file_schema=None)
        assert inbox.engine.describe_streams() == []
    else:
        (inbox.folder / "old.csv").unlink()
        inbox.stream(file_format="avro")
        inbox.put_as("avro", "a", [(1, "a"), (2, "b")])
        assert positions(inbox.changes("s")) == [(0, 0), (0, 1)]


def test_overwritten_file_is_read_whole_again_and_a_removed_one_is_not(inbox: Inbox) -> None:
    """Snowflake: file 1 removed and file 2 added between two offsets gives file 2 alone."""
    inbox.put("1.csv", "1,a")
    inbox.stream()
    before = inbox.changes("s")
    inbox.put("2.csv", "2,b")
    (inbox.folder / "1.csv").unlink()
    inbox.put("old.csv", "0,zero", "3,c")

    assert before == []
    assert inbox.ids() == [0, 2, 3]


@pytest.mark.thorough
def test_appended_file_is_read_whole_again(target: Inbox) -> None:
    target.put("log.csv", "1,a")
    target.take()
    with (target.folder / "log.csv").open("a", encoding="utf-8") as file:
        file.write("2,b\n")
    target.take()
    assert target.taken() == [1, 1, 2]


def test_file_removed_before_its_read_counts_as_no_data(target: Inbox) -> None:
    file = target.put("a.csv", "1,a")
    assert target.engine.stream_has_data("s")
    file.unlink()
    assert not target.engine.stream_has_data("s")
    assert target.engine.explain_stream("s").reason == "no new file remains"
    assert target.ids() == []


@pytest.mark.thorough
def test_consumption_takes_present_files_and_the_next_one_later_files(target: Inbox) -> None:
    target.put("a.csv", "1,a", "2,b")
    outcome = target.take()
    assert outcome.streams[0].rows == {"inserted": 2, "updated": 0, "deleted": 0}
    assert outcome.streams[0].strategy == "inserted_files"
    assert not target.engine.stream_has_data("s")

    target.put("b.csv", "3,c")
    target.take()
    target.take()
    assert target.taken() == [1, 2, 3]


@pytest.mark.thorough
def test_transaction_takes_only_the_files_present_at_its_start(target: Inbox) -> None:
    target.put("a.csv", "1,a")
    with target.engine.transaction(consumer="tests") as transaction:
        target.put("b.csv", "2,b")
        transaction.sql(target.text("INSERT INTO {t} SELECT id, v FROM s"))
    assert target.taken() == [1]
    target.take()
    assert target.taken() == [1, 2]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "point",
    [
        ProtocolPoint.AFTER_BEGIN,
        ProtocolPoint.BEFORE_STATEMENT,
        ProtocolPoint.AFTER_STATEMENT,
        ProtocolPoint.BEFORE_COMMIT,
    ],
)
def test_killed_consumption_is_finished_with_the_files_it_began_with(
    target: Inbox, point: ProtocolPoint
) -> None:
    target.put("a.csv", "1,a")
    with pytest.raises(Crash):
        target.take(engine=target.new_engine(CrashAt(point)))
    target.put("b.csv", "2,b")
    assert target.engine.stream_has_data("s")

    target.take()
    assert target.taken() == [1]
    target.take()
    assert target.taken() == [1, 2]


@pytest.mark.thorough
def test_killed_consumption_with_an_overwritten_file_is_undone_and_retried(
    target: Inbox,
) -> None:
    target.make("u", COLUMNS)
    statements = [
        "INSERT INTO {t} SELECT id, v FROM s",
        "INSERT INTO {u} SELECT id, v FROM s",
    ]
    target.put("a.csv", "1,a")
    with pytest.raises(Crash):
        target.consume(*statements, engine=target.new_engine(crash_after_first()))
    target.put("a.csv", "2,b")
    assert target.taken() == [1]

    with pytest.raises(FilesChanged, match=r"1 of 1 changed, a\.csv is a different file"):
        target.consume(*statements)
    assert target.taken() == []

    target.consume(*statements)
    assert (target.rows("t"), target.rows("u")) == ([(2, "b")], [(2, "b")])


def crash_after_first() -> CrashAt:
    return CrashAt(ProtocolPoint.AFTER_STATEMENT, 0)


@pytest.mark.thorough
def test_killed_applied_consumption_is_committed_despite_a_missing_file(
    target: Inbox,
) -> None:
    file = target.put("a.csv", "1,a")
    with pytest.raises(Crash):
        target.take(engine=target.new_engine(CrashAt(ProtocolPoint.BEFORE_COMMIT)))
    file.unlink()

    target.take()
    assert target.taken() == [1]
    target.take()
    assert target.taken() == [1]


@pytest.mark.thorough
def test_file_overwritten_while_it_is_read_applies_nothing(target: Inbox) -> None:
    target.put("a.csv", "1,a")

    def overwrite(progress: Any) -> None:
        if progress.point is ProtocolPoint.AFTER_BEGIN:
            target.put("a.csv", "2,b")

    with pytest.raises(FilesChanged, match="consume again") as raised:
        target.take(engine=target.new_engine(overwrite))
    assert raised.value.retryable
    assert target.taken() == []

    target.take()
    assert target.taken() == [2]


@pytest.mark.thorough
def test_rows_lost_with_an_executor_are_not_read_again(
    target: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file may have been replaced, and the next consumption takes the rows of the new file."""
    frames = KeptFrames(monkeypatch)
    target.put("a.csv", "1,a")

    def lose(progress: Any) -> None:
        if progress.point is ProtocolPoint.BEFORE_STATEMENT:
            target.put("a.csv", "2,b")
            frames.lose()

    with pytest.raises(StatementFailed, match=r"(?i)checkpoint"):
        target.take(engine=target.new_engine(lose))
    assert target.taken() == []
    target.take()
    assert target.taken() == [2]


def test_file_removed_while_it_is_read_applies_nothing(target: Inbox) -> None:
    file = target.put("a.csv", "1,a")

    def remove(progress: Any) -> None:
        if progress.point is ProtocolPoint.AFTER_BEGIN:
            file.unlink(missing_ok=True)

    with pytest.raises(FilesChanged, match=r"a\.csv is missing"):
        target.take(engine=target.new_engine(remove))
    target.take()
    assert target.taken() == []


def test_file_overwritten_between_its_listing_and_its_read_is_refused(
    target: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    target.put("a.csv", "1,a")
    span = target.engine._parts.sources.span(target.engine._parts.catalog.get_stream("s"))
    target.put("a.csv", "2,b")
    monkeypatch.setattr(target.engine._parts.sources, "span", lambda *_, **__: span)
    with pytest.raises(FilesChanged):
        target.engine.read_stream("s")


@pytest.mark.thorough
def test_batches_follow_refreshes_and_skip_files_overwritten_later(target: Inbox) -> None:
    for path in ("a.csv", "b.csv", "c.csv"):
        target.put(path, f"{'abc'.index(path[0])},x")
        assert target.engine.stream_has_data("s", exact=False)
    target.put("a.csv", "7,x")

    rows = [target.take(max_commits=1).streams[0].rows["inserted"] for _ in range(4)]
    assert rows == [0, 1, 1, 1]
    assert target.taken() == [1, 2, 7]


@pytest.mark.thorough
def test_killed_batch_is_finished_as_it_began_despite_later_files(
    target: Inbox,
) -> None:
    for path in ("a.csv", "b.csv"):
        target.put(path, f"{'ab'.index(path[0])},x")
        target.engine.stream_has_data("s", exact=False)
    target.put("a.csv", "7,x")
    with pytest.raises(Crash):
        target.take(max_commits=2, engine=target.new_engine(crash_after_first()))
    target.put("c.csv", "8,x")
    target.engine.stream_has_data("s", exact=False)

    target.take(max_commits=2)
    assert target.taken() == [1]
    target.take()
    assert target.taken() == [1, 7, 8]


def test_max_bytes_bounds_a_batch_of_files(target: Inbox) -> None:
    for number in range(3):
        target.put(f"{number}.csv", f"{number},x")
        target.engine.stream_has_data("s", exact=False)
    target.take(max_bytes=8)
    assert target.taken() == [0, 1]


@pytest.mark.thorough
def test_columns_are_read_from_folder_names(inbox: Inbox) -> None:
    inbox.stream(file_schema="id INT, v STRING, Day DATE, k INT")
    inbox.put("day=2026-01-02/k=7/a.csv", "1,a")
    inbox.put("day=2026-01-03/b.csv", "2,b,8")
    inbox.put("k=__HIVE_DEFAULT_PARTITION__/day=2026-01-04/x=1/c.csv", "3,c")
    inbox.put("c.csv", "4,d,2026-01-05,9")

    days = [datetime(2026, 1, day).date() for day in (2, 3, 4, 5)]
    assert [change.values for change in inbox.changes("s")] == [
        (1, "a", days[0], 7),
        (2, "b", days[1], 8),
        (3, "c", days[2], None),
        (4, "d", days[3], 9),
    ]
    assert len(set(row_ids(inbox.changes("s")).values())) == 4


def test_columns_from_folder_names_can_be_switched_off(inbox: Inbox) -> None:
    inbox.stream(file_schema="id INT, k INT", file_options={"recursiveFileLookup": True})
    inbox.put("k=7/a.csv", "1,8")
    assert [change.values for change in inbox.changes("s")] == [(1, 8)]


def test_schema_is_inferred_from_existing_files_and_stays_fixed(inbox: Inbox) -> None:
    (inbox.folder / "old.csv").unlink()
    options = {"header": True, "inferSchema": True}
    with pytest.raises(InvalidRequest, match="to infer them from, found none"):
        inbox.stream(file_schema=None, file_options=options)
    inbox.put("day=2026-01-02/a.csv", "id,v", "1,a")
    stream = inbox.stream(file_schema=None, file_options=options)
    assert stream.folder is not None
    kinds = {field["name"]: field["type"] for field in json.loads(stream.folder.schema)["fields"]}
    assert kinds == {"id": "integer", "v": "string", "day": "date"}

    inbox.put("day=2026-01-03/b.csv", "id,v,w", "2,b,new")
    (change,) = inbox.changes("s")
    assert change.values == (2, "b", datetime(2026, 1, 3).date())


def test_files_with_any_characters_in_their_names_are_read(inbox: Inbox) -> None:
    inbox.stream()
    names = ["[x]*{y}.csv", "a%20 b?#.csv", "q:'\"\\;=&+$,~@!.csv", "日本\u00a0ü/e\u0301\t\n.csv"]
    for number, name in enumerate(names):
        inbox.put(name, f"{number},x")
    assert inbox.ids() == [0, 1, 2, 3]


def test_row_ids_are_the_same_in_every_stream_and_for_any_file_split(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox.stream()
    inbox.stream("later", at=Version(1))
    inbox.put("big.csv", *[f"{number},{'x' * 50}" for number in range(5_000)])
    inbox.put("small.csv", "9999,y")

    changes = inbox.changes("s")
    assert positions(sorted(changes, key=lambda change: change.values[0]))[:5_000] == [
        (1, number) for number in range(5_000)
    ]
    monkeypatch.setattr("airflow_provider_cdc.engine.spark.change_sets.file_rows.LITTLE_BYTES", 0)
    inbox.spark.conf.set("spark.sql.files.maxPartitionBytes", "20000")
    try:
        assert inbox.changes("later") == changes
    finally:
        inbox.spark.conf.unset("spark.sql.files.maxPartitionBytes")


@pytest.mark.thorough
def test_streams_of_one_folder_have_independent_offsets(inbox: Inbox) -> None:
    inbox.make("t", COLUMNS)
    first = inbox.stream()
    inbox.put("a.csv", "1,a")
    second = inbox.stream("other")
    assert second.source == first.source
    assert (inbox.ids("s"), inbox.ids("other")) == ([1], [])

    inbox.take()
    inbox.put("b.csv", "2,b")
    assert (inbox.ids("s"), inbox.ids("other")) == ([2], [2])
    assert inbox.changes("s") == inbox.changes("other")


def test_streams_start_at_earlier_points(inbox: Inbox) -> None:
    inbox.stream()
    before = utc_now()
    inbox.put("a.csv", "1,a")
    inbox.engine.stream_has_data("s")
    inbox.put("b.csv", "2,b")

    inbox.stream("all_there_is", at=Version(0))
    inbox.stream("since", at=Timestamp(before))
    inbox.stream("beside", at=OffsetOf("s"))
    inbox.stream("from_a", before=Version(2))
    assert inbox.ids("all_there_is") == [0, 1, 2]
    assert inbox.ids("since") == inbox.ids("beside") == inbox.ids("from_a") == [1, 2]

    with pytest.raises(InvalidRange, match="from 0 to 3"):
        inbox.stream("never", at=Version(9))
    with pytest.raises(InvalidRange, match="before version 0"):
        inbox.stream("never", at=Timestamp(before - timedelta(days=1)))


def test_file_streams_can_be_advanced_cloned_undropped_and_replaced(target: Inbox) -> None:
    target.put("a.csv", "1,a")
    target.engine.clone_stream("copy", "s")
    assert target.engine.advance_stream("s").offset.version == 2
    assert (target.ids("s"), target.ids("copy")) == ([], [1])

    target.engine.drop_stream("copy")
    target.put("b.csv", "2,b")
    target.engine.undrop_stream("copy")
    target.engine.alter_stream("copy", comment="of files")
    target.engine.rename_stream("copy", "again")
    assert target.ids("again") == [1, 2]

    target.stream(or_replace=True)
    assert target.ids("s") == []
    assert target.stream(if_not_exists=True) == target.engine._parts.catalog.get_stream("s")


def test_status_reports_files_that_are_not_read(inbox: Inbox) -> None:
    now = utc_now()
    catalog = StreamCatalog(str(inbox.root / "state"))
    inbox.stream()
    inbox.put("a.csv", "1,a")
    assert catalog.probe_stream("s").may_have_data
    status = catalog.describe_stream("s")
    assert (status.commits_behind, status.bytes_behind, status.may_have_data) == (1, 4, True)
    assert not status.stale
    assert status.stale_after - now > timedelta(days=36_000)
    line = shown(status)
    assert (line["table_on"], line["mode"], line["type"]) == (
        str(inbox.folder),
        "insert_only",
        "CSV",
    )


def test_missing_folder_makes_the_stream_unusable_until_it_is_back(
    target: Inbox, tmp_path: Path
) -> None:
    os.rename(target.folder, tmp_path / "away")
    for look in (
        target.engine.read_stream,
        target.engine.stream_has_data,
        target.engine.explain_stream,
    ):
        with pytest.raises(StreamUnusable, match="expected a folder, found none"):
            look("s")
    os.rename(tmp_path / "away", target.folder)
    assert target.ids() == []


def test_stream_on_files_in_databend_style_has_databend_columns(inbox: Inbox) -> None:
    inbox.stream(column_style="databend")
    inbox.put("a.csv", "1,a")
    assert inbox.engine.read_stream("s").columns[-3:] == [
        "change$action",
        "change$is_update",
        "change$row_id",
    ]


def refused() -> dict[str, tuple[dict[str, Any], str]]:
    def on(**options: Any) -> dict[str, Any]:
        return {"file_format": "csv", "file_schema": COLUMNS, "mode": "insert_only"} | options

    files = {"on_files": "{folder}"}
    return {
        "nothing": ({}, "one of on_table, on_view and on_files, found 0"),
        "both": (on(**files, on_table="t"), "one of on_table, on_view and on_files, found 2"),
        "a mode of tables": (on(**files, mode="standard"), "mode standard needs a table"),
        "another mode of tables": (on(**files, mode="append_only"), "append_only needs a table"),
        "a mode of files": ({"on_table": "t", "mode": "insert_only"}, "belongs to on_files"),
        "a format of a table": ({"on_table": "t", "file_format": "csv"}, "belong to on_files"),
        "initial rows": (on(**files, show_initial_rows=True), r"at=Version\(0\) begins with"),
        "no format": (
            on(**files, file_format=None),
            r"expected a file_format with on_files, found none.*one of avro, csv",
        ),
        "another format": (on(**files, file_format="xlsx"), "'xlsx' is not a file format"),
        "a table's name": (on(on_files="a.b"), "not a folder that a stream can be on"),
        "an option that hides files": (
            on(**files, file_options={"modifiedAfter": "2026-01-01"}),
            "the option modifiedAfter",
        ),
        "an option that hides rows": (
            on(**files, file_options={"ignoreCorruptFiles": True}),
            "the option ignoreCorruptFiles",
        ),
        "a mode that drops rows": (
            on(**files, file_options={"mode": "DROPMALFORMED"}),
            "would leave files or rows out",
        ),
        "an option misspelt": (on(**files, file_options={"heder": True}), "did you mean header"),
        "an option's value": (on(**files, file_options={"maxColumns": "x"}), "an integer"),
        "an encoding that Spark lacks": (
            on(**files, file_options={"encoding": "windows-1252"}),
            "expects one of the iso-8859-1.*windows-1252",
        ),
        "a text with a length": (on(**files, file_schema="c CHAR(5)"), "Fix: use STRING"),
        "a text with a length inside": (
            on(**files, file_format="json", file_schema="c ARRAY<STRUCT<v: VARCHAR(5)>>"),
            "Fix: use STRING",
        ),
        "no columns": (on(**files, file_schema=" "), "expected columns, found none"),
        "a column twice": (on(**files, file_schema="a INT, A INT"), "`a` already exists"),
        "malformed rows as numbers": (
            on(**files, file_schema="id INT, _corrupt_record INT"),
            "must have the nullable STRING type",
        ),
        "malformed rows alone": (
            on(**files, file_schema="_corrupt_record STRING"),
            "only include the internal corrupt record column|as csv",
        ),
        "a glob that is not one": (
            on(**files, file_options={"pathGlobFilter": "{a"}),
            "is not a pattern of file names",
        ),
        "columns that are not any": (on(**files, file_schema="id NONE"), "as csv"),
        "a type that the format lacks": (on(**files, file_schema="a MAP<INT, INT>"), "as csv"),
        "a column of a change set": (
            on(**files, file_schema="id INT, `metadata$action` STRING"),
            "already has a column metadata\\$action",
        ),
    }


def test_stream_on_files_is_insert_only_by_default(inbox: Inbox) -> None:
    assert inbox.stream(mode=None).mode is StreamMode.INSERT_ONLY


@pytest.mark.parametrize("case", refused())
def test_invalid_definition_of_a_stream_on_files_is_refused(inbox: Inbox, case: str) -> None:
    arguments, message = refused()[case]
    given = {
        name: value.format(folder=inbox.folder) if name == "on_files" else value
        for name, value in arguments.items()
    }
    with pytest.raises(InvalidRequest, match=message):
        inbox.engine.create_stream("s", **given)
    assert inbox.engine.describe_streams() == []


def test_delta_table_and_state_folder_are_refused_as_file_sources(inbox: Inbox) -> None:
    inbox.make("t", COLUMNS)
    for folder, cause in ((inbox.path("t"), "it is a Delta table"), (inbox.root, "state folder")):
        with pytest.raises(InvalidRequest, match=cause):
            inbox.engine.create_stream(
                "s", on_files=str(folder), file_format="parquet", mode="insert_only"
            )


def test_broken_files_are_refused_when_columns_are_inferred(inbox: Inbox) -> None:
    with pytest.raises(InvalidRequest, match=r"as parquet.*old\.csv.*remove the file, or hide it"):
        inbox.stream(file_format="parquet", file_schema=None)
    inbox.put("old.csv.gz", "id,v")
    with pytest.raises(InvalidRequest, match=r"as csv.*old\.csv\.gz.*remove the file, or hide it"):
        inbox.stream(file_schema=None, file_options={"header": True})


def test_glob_takes_only_matching_files_from_a_mixed_folder(inbox: Inbox) -> None:
    inbox.stream(file_options={"pathGlobFilter": "*.csv"})
    inbox.put("a.json", '{"id": 1}')
    inbox.put("b.csv", "2,b")
    assert inbox.ids() == [2]
    with pytest.raises(InvalidRequest, match="that stream is on"):
        inbox.stream("all", at=OffsetOf("s"))


def test_broken_file_is_named_even_if_the_session_ignores_corrupt_files(target: Inbox) -> None:
    whole = target.put_as("parquet", "sub/a.parquet", [(1, "a")])
    files = {"pathGlobFilter": "*.parquet"}
    target.stream("p", file_format="parquet", file_options=files, at=Version(0))
    broken = target.folder / "sub/b ü.parquet"
    broken.write_bytes(whole.read_bytes()[:-9])
    reads = [
        target.engine.read_stream,
        lambda name: target.consume(f"INSERT INTO {{t}} SELECT id, v FROM {name}"),
    ]
    with settings(target.spark, {"spark.sql.files.ignoreCorruptFiles": "true"}):
        for read in reads:
            with pytest.raises(FileUnreadable, match=r"cannot read sub/b ü\.parquet in") as raised:
                read("p")
            assert raised.value.retryable
            assert "not a Parquet file" in raised.value.cause
            assert target.taken() == []
    broken.rename(broken.with_name(f".{broken.name}"))
    reads[1]("p")
    assert target.taken() == [1]


def of_no_format(whole: bytes) -> dict[str, tuple[str, str, bytes, dict[str, Any]]]:
    packed = gzip.compress(b"1,a\n" * 5_000)
    return {
        "a Parquet file whose middle is lost": ("parquet", "a", whole[:4] + whole[40:], {}),
        "a Parquet file of another type": ("parquet", "a", whole, {"file_schema": "v INT"}),
        "a file that is not ORC": ("orc", "a", b"no such thing, at any rate", {}),
        "a packed file cut short": ("csv", "a.csv.gz", packed[:-20], {}),
        "a file that is not packed": ("json", "a.json.gz", b"{}", {}),
        "a packed file with a fault": ("csv", "a.csv.bz2", bz2.compress(packed)[:-20], {}),
    }


def test_files_that_do_not_match_the_format_are_named(inbox: Inbox) -> None:
    whole = inbox.put_as("parquet", "whole", [(1, "a")])
    cases = of_no_format(whole.read_bytes())
    whole.unlink()
    for name, (file_format, path, content, options) in cases.items():
        inbox.stream(file_format=file_format, or_replace=True, **options)
        file = inbox.folder / path
        file.write_bytes(content)
        with pytest.raises(FileUnreadable, match=f"cannot read {path} in"):
            pytest.fail(f"{name}: {inbox.changes('s')}")
        with pytest.raises(FileUnreadable):
            pytest.fail(f"{name}: {inbox.engine.stream_has_data('s')}")
        file.unlink()


@pytest.mark.thorough
@pytest.mark.parametrize("file_format", ["csv", "json"])
def test_malformed_row_fails_fast_for_any_requested_columns(
    target: Inbox, file_format: str
) -> None:
    good, bad = {"csv": ("1,a", "x,b"), "json": ('{"id": 1, "v": "a"}', '{"id": "x"}')}[file_format]
    target.stream(file_format=file_format, file_options={"mode": "FAILFAST"}, or_replace=True)
    target.put("a", bad)
    for read in (
        lambda: target.engine.read_stream("s").select("v").count(),
        lambda: target.engine.stream_has_data("s"),
        lambda: target.consume("INSERT INTO {t} (v) SELECT v FROM s"),
    ):
        with pytest.raises(FileUnreadable, match=r"cannot read a in.*(?i:malformed|parse)"):
            read()
    target.put("a", good)
    assert target.engine.stream_has_data("s")
    target.take()
    assert target.rows("t") == [(1, "a")]


def test_malformed_rows_are_the_same_for_any_requested_columns(inbox: Inbox) -> None:
    inbox.stream(file_schema="id INT, v STRING, _corrupt_record STRING")
    inbox.put("a.csv", "1,a", "x,b", "2,c,d")
    rows = inbox.engine.read_stream("s")
    assert [tuple(row[:3]) for row in rows.sort(rows.columns[-1]).collect()] == [
        (1, "a", None),
        (None, "b", "x,b"),
        (2, "c", "2,c,d"),
    ]
    faults = rows.select("_corrupt_record").where("_corrupt_record IS NOT NULL")
    assert (rows.count(), faults.count()) == (3, 2)
    with settings(inbox.spark, {"spark.sql.columnNameOfCorruptRecord": "another"}):
        assert inbox.engine.read_stream("s").where("_corrupt_record IS NOT NULL").count() == 2


def test_streams_that_drop_malformed_rows_count_what_they_return(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such streams were created before that mode was refused."""
    options = FileOptions({"mode": "DROPMALFORMED"}, None)
    monkeypatch.setattr(file_sources, "file_options", lambda *_: options)
    inbox.stream()
    inbox.put("a.csv", "x,b")
    assert not inbox.engine.stream_has_data("s")
    inbox.put("b.csv", "x,b", "1,a", "2,c,d")
    assert inbox.engine.stream_has_data("s")
    rows = inbox.engine.read_stream("s")
    assert (rows.count(), rows.select("v").count(), len(rows.collect())) == (1, 1, 1)


def test_long_lines_are_read_despite_a_line_limit_of_the_session(inbox: Inbox) -> None:
    inbox.stream()
    inbox.put("a.csv", "1,a", f"2,{'x' * 100}")
    with settings(inbox.spark, {"mapreduce.input.linerecordreader.line.maxlength": "50"}):
        assert inbox.ids() == [1, 2]


def test_json_file_of_several_values_is_refused_in_multiline_mode(inbox: Inbox) -> None:
    options = {"multiLine": True, "allowComments": True}
    inbox.stream(file_format="json", file_options=options)
    inbox.put("a.json", "[ // all of them", "{'id': 1},", '{"id": 2, "v": "[]"}', "]")
    inbox.put("b.json", "{", '"id": 3}')
    inbox.put("c.json", "no JSON")
    assert [change.values[0] for change in inbox.changes("s")] == [1, 2, 3, None]
    inbox.put("d é.json", '{"id": 4}', '{"id": 5}')
    with pytest.raises(FileUnreadable, match=r"cannot read d é\.json in.*found several values"):
        inbox.changes("s")


def test_columns_of_a_header_are_matched_by_name(inbox: Inbox) -> None:
    (inbox.folder / "old.csv").unlink()
    options = {"header": True, "comment": "#", "mode": "FAILFAST"}
    inbox.stream(file_schema="id INT, name STRING, day DATE", file_options=options)
    contents = {
        "a.csv": b"id,name,day\n1,a,2026-01-01\n",
        "b.csv": b"name,id,day\nb,2,2026-01-02\n",
        "c.csv": b"\n# a comment\n,Name,x,ID,day,\n,c,y,3,,\n",
        "d.csv": b'name\r\n"d"\r\n',
        "e.csv.gz": gzip.compress("\ufeffname,id\ne,5\n".encode()),
        "f.csv.deflate": zlib.compress(b"name,id\nf,6\n"),
        "day=2026-01-07/g.csv": b"name,id\ng,7\n",
        "day=2026-01-08/h.csv": b"day,name,id\nnever,h,8\n",
        "i.csv": b"\n \n",
        "j.csv": b"name,id",
    }
    for path, content in contents.items():
        file = inbox.put(path)
        file.write_bytes(content)

    days = [datetime(2026, 1, day).date() for day in (1, 2, 7, 8)]
    changes = inbox.changes("s")
    assert [change.values for change in changes] == [
        (1, "a", days[0]),
        (2, "b", days[1]),
        (3, "c", None),
        (5, "e", None),
        (6, "f", None),
        (7, "g", days[2]),
        (8, "h", days[3]),
        (None, "d", None),
    ]
    assert {place for _, place in positions(changes)} == {0}
    assert len(set(row_ids(changes).values())) == 8


def test_missing_or_misspelt_header_is_refused(target: Inbox) -> None:
    target.stream(file_options={"header": True}, or_replace=True)
    for path, header, found in (
        ("data/a.csv", "1,a", "found the header 1, a: it lacks id, v and has 1, a instead"),
        ("b.csv", "id,vv", "it lacks v and has vv instead"),
    ):
        file = target.put(path, header, "2,b")
        with pytest.raises(FileUnreadable, match=f"cannot read {path} in.*{found}.*enforceSchema"):
            target.take()
        file.unlink()
    target.put("c.csv", "number,text", "3,c")
    with pytest.raises(FileUnreadable, match=r'or_replace=True and at=OffsetOf\("s"\)'):
        target.engine.stream_has_data("s")

    options = {"header": True, "enforceSchema": True}
    target.stream(file_options=options, or_replace=True, at=OffsetOf("s"))
    target.take()
    assert target.rows("t") == [(3, "c")]

    target.stream(file_options=options | {"enforceSchema": False}, or_replace=True)
    target.put("d.csv", "v,id", "d,4")
    with pytest.raises(FileUnreadable, match=r"cannot read d\.csv in.*(?s:.)*does not conform"):
        target.take()


def test_columns_are_inferred_from_files_of_one_header(inbox: Inbox) -> None:
    inbox.put("old.csv", "name,age", "Ada,36")
    inbox.put("new.csv", "age,name", "54,Sam")
    os.utime(inbox.folder / "old.csv", (1, 1))
    stream = inbox.stream(
        file_schema=None, file_options={"header": True, "inferSchema": True}, at=Version(0)
    )
    assert stream.folder is not None
    kinds = {field["name"]: field["type"] for field in json.loads(stream.folder.schema)["fields"]}
    assert kinds == {"age": "integer", "name": "string"}
    assert [change.values for change in inbox.changes("s")] == [(36, "Ada"), (54, "Sam")]


@pytest.mark.in_ci("false")
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_folder_whose_name_is_not_a_valid_value_is_named(target: Inbox, ansi: str) -> None:
    target.stream(file_schema="id INT, v STRING, day DATE", or_replace=True)
    target.put("x=1/day=2024-13-45/y=2/a.csv", "1,a")
    with settings(target.spark, {"spark.sql.ansi.enabled": ansi}):
        with pytest.raises(
            FileUnreadable,
            match=r"cannot read x=1/day=2024-13-45 in.*expected a value of day date, found"
            r" '2024-13-45'.*remove it, or hide it by a name that begins with a dot",
        ):
            target.take()
        folder = target.folder / "x=1/day=2024-13-45"
        folder.rename(folder.with_name("day=2024-12-31"))
        target.take()
    assert target.taken() == [1]


def test_folder_name_cannot_give_a_value_to_an_array_column(inbox: Inbox) -> None:
    inbox.stream(file_format="json", file_schema="id INT, k ARRAY<INT>")
    inbox.put("k=1/a.json", '{"id": 1}')
    with pytest.raises(FileUnreadable, match="expected a value of k array<int>, found '1'"):
        inbox.changes("s")


def test_returned_rows_stay_the_same_after_their_files_change(inbox: Inbox) -> None:
    inbox.stream()
    inbox.put("a.csv", "1,a")
    inbox.put("b.csv", "2,b")
    rows = inbox.engine.read_stream("s")
    inbox.put("a.csv", "7,a")
    (inbox.folder / "b.csv").unlink()
    assert (sorted(row[0] for row in rows.collect()), rows.count()) == ([1, 2], 2)


def test_every_reader_reports_a_file_that_changes_while_it_is_read(
    target: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = target.engine._parts.reader.read
    contents = iter(range(10, 20))

    def overtaken(span: Any) -> Any:
        changes = opened(span)
        target.put("a.csv", f"{next(contents)},x")
        return changes

    def query() -> None:
        with target.engine.transaction(consumer="tests") as transaction:
            transaction.sql("SELECT id FROM s")

    target.put("a.csv", "1,a")
    monkeypatch.setattr(target.engine._parts.reader, "read", overtaken)
    for read in (
        lambda: target.engine.read_stream("s"),
        lambda: target.engine.stream_has_data("s"),
        lambda: target.engine.read_and_consume("SELECT id FROM s", consumer="tests"),
        query,
        target.take,
    ):
        with pytest.raises(FilesChanged, match=r"a\.csv is a different file"):
            read()
    monkeypatch.undo()
    assert target.ids() == [14]


def test_session_that_treats_names_as_patterns_is_refused(target: Inbox) -> None:
    target.put("a.csv", "1,a")
    name = "spark.sql.parser.quotedRegexColumnNames"
    with (
        settings(target.spark, {name: "true"}),
        pytest.raises(StreamUnusable, match=f"with {name}"),
    ):
        target.changes("s")
    assert target.ids() == [1]
