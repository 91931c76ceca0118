"""Reading a source's log, as far as files alone show."""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from counting_files import CountingFiles
from streams import new_offset, new_stream

from airflow_provider_cdc.engine.core.consumption.batches import BatchLimit
from airflow_provider_cdc.engine.core.delta.log_actions import ROW_TRACKING_DOMAIN
from airflow_provider_cdc.engine.core.errors import (
    ChangeTrackingDisabled,
    StreamStale,
    StreamUnusable,
)
from airflow_provider_cdc.engine.core.model.sources import Base, Source, View
from airflow_provider_cdc.engine.core.model.stream import AppendSemantics, Stream, StreamMode
from airflow_provider_cdc.engine.storage.delta.delta_log import DeltaLog, LogIncomplete
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.sources.source_log import SourceLog
from airflow_provider_cdc.engine.storage.sources.source_pins import SourcePins

MARK = {"domain": ROW_TRACKING_DOMAIN, "configuration": '{"rowIdHighWaterMark": 9}'}
METADATA = {"id": "a-table-id", "configuration": {"delta.enableRowTracking": "true"}}


class Log:
    """A log written by hand; its first commit is the offset of ``stream``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "_delta_log"
        self.folder.mkdir()
        self.write(0, {"metaData": METADATA})
        content = self.path(0).read_bytes()
        self.stream: Stream = new_stream(
            source=Source("t", str(root), "a-table-id"),
            offset=replace(
                new_offset(0, METADATA),
                fingerprint=hashlib.sha256(content).hexdigest(),
            ),
        )

    def path(self, version: int) -> Path:
        return self.folder / f"{version:020d}.json"

    def write(self, version: int, *actions: dict[str, Any]) -> None:
        self.path(version).write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")

    def insert(self, version: int) -> None:
        tracked = {"baseRowId": version * 10, "defaultRowCommitVersion": version}
        self.write(version, {"add": {"path": f"{version}.parquet", "dataChange": True} | tracked})

    def rearrange(self, version: int) -> None:
        self.write(version, {"add": {"path": f"{version}.parquet", "dataChange": False}})


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def test_probe_reads_no_commit_older_than_those_that_answer(log: Log) -> None:
    for version in range(1, 50):
        log.insert(version)
    for version in range(1, 48):
        log.path(version).write_text("not JSON", encoding="utf-8")

    found = SourceLog(Files()).probe(log.stream)

    assert (found.latest_version, found.may_have_data) == (49, True)


def test_probe_without_a_plain_answer_reads_the_whole_log(log: Log) -> None:
    log.insert(1)
    for version in range(2, 50):
        log.rearrange(version)

    assert SourceLog(Files()).probe(log.stream).may_have_data


def test_probe_of_commits_that_rearrange_files_finds_no_data(log: Log) -> None:
    for version in range(1, 50):
        log.rearrange(version)

    found = SourceLog(Files()).probe(log.stream)

    assert (found.latest_version, found.may_have_data) == (49, False)


def test_data_version_of_a_probe_stays_if_files_are_rearranged(log: Log) -> None:
    log.insert(1)
    before = SourceLog(Files()).probe(log.stream)
    log.rearrange(2)
    after = SourceLog(Files()).probe(log.stream)
    log.insert(3)

    assert (before.data_version, before.latest_version) == (1, 1)
    assert (after.data_version, after.latest_version) == (1, 2)
    assert SourceLog(Files()).probe(log.stream).data_version == 3


def test_data_version_is_found_before_many_commits_that_rearrange_files(
    log: Log,
) -> None:
    log.insert(1)
    for version in range(2, 50):
        log.rearrange(version)

    assert SourceLog(Files()).probe(log.stream).data_version == 1


def test_data_version_of_a_probe_without_data_is_the_offset(log: Log) -> None:
    log.rearrange(1)

    assert SourceLog(Files()).probe(log.stream).data_version == 0


def test_probe_without_new_commits_finds_no_data(log: Log) -> None:
    found = SourceLog(Files()).probe(log.stream)

    assert (found.latest_version, found.may_have_data) == (0, False)


def test_probe_refuses_a_log_gap_that_it_need_not_read(log: Log) -> None:
    for version in range(1, 50):
        log.insert(version)
    log.path(1).unlink()

    with pytest.raises(StreamStale, match="version 1 is missing"):
        SourceLog(Files()).probe(log.stream)


def test_probe_refuses_a_source_with_change_tracking_switched_off(log: Log) -> None:
    log.insert(1)
    log.write(2, {"metaData": METADATA | {"configuration": {}}})

    with pytest.raises(ChangeTrackingDisabled):
        SourceLog(Files()).probe(log.stream)


def test_replaced_source_is_reported_if_the_offset_commit_is_missing(
    log: Log,
) -> None:
    log.path(0).unlink()
    log.insert(2)
    log.write(1, {"metaData": METADATA}, {"protocol": {}}, {"domainMetadata": MARK})
    assert SourceLog(Files()).probe(log.stream).may_have_data

    # A log whose first commits are missing needs this checkpoint.
    other = {"metaData": METADATA | {"id": "another table"}}
    checkpoint = log.folder / f"{1:020d}.checkpoint.a.json"
    checkpoint.write_text("\n".join(map(json.dumps, (other, {"protocol": {}}))), encoding="utf-8")
    log.insert(1)
    for ask in (SourceLog(Files()).probe, SourceLog(Files()).range):
        with pytest.raises(StreamStale, match="belongs to the table with the id another table"):
            ask(log.stream)


@pytest.mark.parametrize(
    ("protocol", "cause"),
    [
        ({"writerFeatures": ["catalogManaged"]}, "only its catalog knows its newest commits"),
        ({"writerFeatures": ["coordinatedCommits-preview"]}, "only its catalog knows"),
        ({"readerFeatures": ["futureReader"]}, "this release knows, found futureReader"),
        ({"minReaderVersion": 4}, "expected reader version 3 or lower, found 4"),
    ],
)
def test_range_of_a_source_with_an_unreadable_log_is_refused(
    log: Log, protocol: dict[str, Any], cause: str
) -> None:
    log.insert(1)
    log.write(2, {"protocol": {"minReaderVersion": 3} | protocol})
    staged = log.folder / "_staged_commits"
    staged.mkdir()
    # A commit that only the catalog can name, as a catalog-managed table has it.
    (staged / f"{3:020d}.{uuid.uuid4()}.json").write_text("{}", encoding="utf-8")

    for ask in (SourceLog(Files()).probe, SourceLog(Files()).range):
        with pytest.raises(StreamUnusable, match=cause):
            ask(log.stream)


def test_bounded_range_before_a_catalog_took_over_is_read(log: Log) -> None:
    log.insert(1)
    log.write(2, {"protocol": {"minReaderVersion": 3, "writerFeatures": ["catalogManaged"]}})

    found = SourceLog(Files()).range(log.stream, limit=BatchLimit(max_commits=1))

    assert found.end.version == 1


def test_commits_report_the_first_missing_version(log: Log) -> None:
    for version in range(1, 9):
        log.insert(version)
    log.path(5).unlink()
    log.path(7).unlink()

    with pytest.raises(LogIncomplete) as caught:
        list(DeltaLog(str(log.root), Files()).commits(after=0, through=8))

    assert caught.value.missing_version == 5


def test_state_after_a_drop_of_row_tracking_has_no_row_ids(log: Log) -> None:
    def mark(row_id: int, *, removed: bool = False) -> dict[str, Any]:
        configuration = json.dumps({"rowIdHighWaterMark": row_id})
        return {"domain": ROW_TRACKING_DOMAIN, "configuration": configuration, "removed": removed}

    log.write(1, {"domainMetadata": mark(99)}, {"protocol": {"minReaderVersion": 1}})
    log.write(2, {"domainMetadata": mark(99, removed=True)})
    log.write(3, {"metaData": METADATA})
    log.write(4, {"domainMetadata": mark(9)})
    table = DeltaLog(str(log.root), Files())

    marks = [table.state_at(version).row_id_high_water_mark for version in (1, 2, 3, 4)]
    assert marks == [99, -1, -1, 9]


def test_commits_of_a_long_range_are_read_in_order(log: Log) -> None:
    for version in range(1, 1203):
        log.insert(version)

    found = list(DeltaLog(str(log.root), Files()).commits(after=100, through=1202))

    assert [commit.version for commit in found] == list(range(101, 1203))
    assert [commit.adds[0].path for commit in found] == [f"{v}.parquet" for v in range(101, 1203)]


def test_bounded_range_ends_with_the_commit_that_fills_it(log: Log) -> None:
    for version in range(1, 9):
        log.insert(version)

    found = SourceLog(Files()).range(log.stream, limit=BatchLimit(max_commits=3))

    assert [commit.version for commit in found.commits] == [1, 2, 3]
    assert found.end.version == 3


def test_bounded_range_reads_few_commits_after_its_end(log: Log) -> None:
    for version in range(1, 1203):
        log.insert(version)
    for version in range(600, 1203):
        log.path(version).write_text("not JSON", encoding="utf-8")

    found = SourceLog(Files()).range(log.stream, limit=BatchLimit(max_commits=10))

    assert found.end.version == 10


@pytest.mark.parametrize("commits", [0, 3, 50])
def test_probe_lists_the_log_once(log: Log, commits: int) -> None:
    for version in range(1, commits + 1):
        log.rearrange(version)
    files = CountingFiles()

    SourceLog(files).probe(log.stream)

    assert len(files.listings) == 1


def test_newest_offset_lists_the_log_once(log: Log) -> None:
    files = CountingFiles()
    log.write(1, {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7}})

    offset = SourceLog(files).newest_offset(str(log.root))

    assert offset.version == 1
    assert len(files.listings) == 1


def append_only(
    stream: Stream, semantics: AppendSemantics = AppendSemantics.INSERTED, *, is_on_view: bool
) -> Stream:
    view = View("v", "f", (0,)) if is_on_view else None
    mode = StreamMode.APPEND_ONLY
    return replace(stream, mode=mode, append_semantics=semantics, view=view)


def test_inserted_then_deleted_rows_are_a_change_of_tables_and_views(log: Log) -> None:
    log.insert(1)
    log.write(2, {"remove": {"path": "1.parquet", "dataChange": True}})

    for is_on_view in (False, True):
        span = SourceLog(Files()).span(append_only(log.stream, is_on_view=is_on_view))
        assert not span.holds_nothing


def test_deletion_is_a_change_of_an_append_only_view_but_not_of_a_table(log: Log) -> None:
    log.write(1, {"remove": {"path": "old.parquet", "dataChange": True}})

    found = {
        is_on_view: SourceLog(Files())
        .span(append_only(log.stream, is_on_view=is_on_view))
        .holds_nothing
        for is_on_view in (False, True)
    }
    assert found == {False: True, True: False}


@pytest.mark.parametrize("is_on_view", [False, True])
def test_surviving_stream_does_not_skip_rows_that_a_restore_may_return(
    log: Log, is_on_view: bool
) -> None:
    stream = append_only(log.stream, AppendSemantics.SURVIVING, is_on_view=is_on_view)
    log.write(1, {"commitInfo": {"operation": "SET TBLPROPERTIES"}})
    assert SourceLog(Files()).span(stream).holds_nothing

    log.insert(2)
    log.write(3, {"remove": {"path": "2.parquet", "dataChange": True}})
    span = SourceLog(Files()).span(stream)
    assert not any(table.candidates.are_there for table in span.tables)
    assert not span.holds_nothing


def test_transaction_pins_one_version_for_two_spellings_of_a_table(
    log: Log,
) -> None:
    spelt = replace(log.stream.source, location=f"file://{log.root}/")
    streams = [log.stream, replace(log.stream, bases=(Base(spelt, log.stream.offset),))]
    files = CountingFiles()

    pins = SourcePins(SourceLog(files), streams)
    assert len(files.listings) == 1
    log.insert(1)

    ends = [pins.span(stream, BatchLimit()).tables[0].end.version for stream in streams]
    assert ends == [0, 0]


def test_range_from_before_version_0_begins_with_commit_0(log: Log) -> None:
    log.insert(1)
    beginning = replace(log.stream.offset, version=-1, fingerprint="", row_id_high_water_mark=-1)

    found = SourceLog(Files()).range_from(log.stream.with_offsets(beginning))
    none = SourceLog(Files()).range_from(log.stream.with_offsets(beginning), through=-1)

    assert [commit.version for commit in found.commits] == [0, 1]
    assert (none.commits, none.end) == ((), beginning)


def test_range_from_before_version_0_of_an_untracked_table_is_refused(
    log: Log,
) -> None:
    untracked = {"id": "a-table-id", "configuration": {}}
    beginning = replace(log.stream.offset, version=-1, metadata=untracked)
    with pytest.raises(ChangeTrackingDisabled, match="before version 0 of t"):
        SourceLog(Files()).range_from(log.stream.with_offsets(beginning))


@pytest.mark.parametrize("semantics", [AppendSemantics.INSERTED, AppendSemantics.SURVIVING])
def test_pinned_append_only_range_ends_before_rows_an_undo_may_return(
    log: Log, semantics: AppendSemantics
) -> None:
    def info(operation: str, **more: Any) -> dict[str, Any]:
        return {"commitInfo": {"operation": operation, **more}}

    def restore(version: int, to: int) -> None:
        mark = {"userMetadata": "cdc undo c1"}
        log.write(version, info("RESTORE", operationParameters={"version": to}, **mark))

    def added(version: int) -> dict[str, Any]:
        tracked = {"baseRowId": version * 10, "defaultRowCommitVersion": version}
        return {"add": {"path": f"{version}.parquet", "dataChange": True} | tracked}

    stream = append_only(log.stream, semantics, is_on_view=False)
    log.insert(1)
    log.write(2, info("MERGE"), {"txn": {"appId": "cdc/c1/0/0", "version": 1}}, added(2))
    log.write(3, info("WRITE"), added(3))
    restore(4, to=1)

    def end() -> int:
        pins = SourcePins(SourceLog(Files()), [stream])
        return pins.span(stream, BatchLimit()).tables[0].end.version

    assert end() == 1
    # A transaction that has begun reads the range that it pinned.
    pinned = SourceLog(Files()).span(stream, through=[4])
    assert pinned.tables[0].end.version == 4
    restore(5, to=3)
    assert end() == 5
