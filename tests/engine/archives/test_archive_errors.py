"""What archives refuse: a clear error, and nothing is written."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest
from archive_lab import ArchiveLab
from stream_lab import Crash, CrashAt

from airflow_provider_cdc.engine import (
    CdcError,
    InvalidRange,
    InvalidRequest,
    ProtocolPoint,
    StreamStale,
    TableNotFound,
    Timestamp,
    Version,
)
from airflow_provider_cdc.engine.core.archives.definition import Archive
from airflow_provider_cdc.engine.core.names import TableName
from airflow_provider_cdc.engine.spark.archives.archive_tables import ArchiveTables
from airflow_provider_cdc.engine.spark.archives.archived_changes import ArchivedChanges

UPDATE = "UPDATE {src} SET v = 'x' WHERE id = 1"
APPEND_ONLY = "ALTER TABLE {log} SET TBLPROPERTIES ('delta.appendOnly' = '%s')"
BY_HAND = (
    "INSERT INTO {log} SELECT * FROM {log} WHERE id = 1",
    "DELETE FROM {log} WHERE id = 1",
    "UPDATE {log} SET v = 'z'",
)


def refuses(call: Callable[[], object], kind: type[CdcError], match: str) -> None:
    with pytest.raises(kind, match=match):
        call()


def test_unknown_table_is_refused_and_nothing_is_created(lab: ArchiveLab) -> None:
    with pytest.raises(TableNotFound):
        lab.engine.archive_changes(lab.path("other"), lab.path("log"))
    assert lab.engine.describe_streams() == []
    refuses(lab.replay, TableNotFound, "does not exist")
    refuses(lambda: lab.archived(from_version=1), TableNotFound, "does not exist")


def test_table_that_is_no_archive_is_refused(lab: ArchiveLab) -> None:
    lab.make("log", "id INT, v STRING")
    refuses(lab.archive, InvalidRequest, "is not an archive")
    refuses(lab.replay, InvalidRequest, "is not an archive")
    refuses(lambda: lab.archived(from_version=1), InvalidRequest, "is not an archive")
    call = lab.engine.archive_changes
    refuses(lambda: call(lab.path("src"), lab.path("src")), InvalidRequest, "archive")
    assert lab.engine.describe_streams() == []


def test_archive_of_another_table_is_refused(lab: ArchiveLab) -> None:
    lab.archive()
    lab.make("src2", "id INT, v STRING", properties="'delta.enableRowTracking' = 'true'")
    call, other, log = lab.engine.archive_changes, lab.path("src2"), lab.path("log")
    refuses(lambda: call(other, log), InvalidRequest, "is not an archive of")
    read = lab.engine.change_feed
    refuses(lambda: read(other, from_version=0, archive=log), InvalidRequest, "an archive of")


@pytest.mark.in_ci("DELETE*")
@pytest.mark.parametrize("statement", BY_HAND)
def test_archive_changed_by_hand_is_refused_until_it_is_restored(
    lab: ArchiveLab, statement: str
) -> None:
    lab.archive()
    lab.sql(UPDATE)
    lab.archive()
    good, written = lab.version("log"), lab.rows("log")
    lab.sql(APPEND_ONLY % "false", statement)
    lab.sql("UPDATE {src} SET v = 'y' WHERE id = 1")
    for call in (lab.archive, lab.replay, lambda: lab.archived(from_version=2)):
        refuses(call, InvalidRequest, "was changed by hand")
    lab.sql(f"RESTORE TABLE {{log}} TO VERSION AS OF {good}")
    assert lab.rows("log") == written
    lab.archive()
    lab.check_replays(1, 2, 3)


@pytest.mark.thorough
def test_archive_refuses_statements_that_remove_rows(lab: ArchiveLab) -> None:
    lab.archive()
    with pytest.raises(Exception, match="DELTA_CANNOT_MODIFY_APPEND_ONLY"):
        lab.sql("DELETE FROM {log} WHERE id = 1")


@pytest.mark.thorough
def test_optimized_archive_is_continued(lab: ArchiveLab) -> None:
    lab.archive()
    lab.sql(UPDATE)
    lab.archive()
    lab.sql("OPTIMIZE {log}", "UPDATE {src} SET v = 'y' WHERE id = 1")
    lab.archive()
    lab.check_replays(1, 2, 3)


@pytest.mark.in_ci("consumed")
@pytest.mark.parametrize("moved", ["consumed", "advanced", "rewound"])
def test_stream_moved_by_hand_is_refused_until_it_is_dropped(lab: ArchiveLab, moved: str) -> None:
    stream = lab.archive().stream
    lab.sql(UPDATE)
    if moved == "consumed":
        lab.make("copy", "id INT")
        lab.consume(f"INSERT INTO {{copy}} SELECT id FROM {stream}")
    elif moved == "advanced":
        lab.engine.advance_stream(stream)
    else:
        lab.archive()
        lab.engine.rewind_stream(stream, to=Version(1))
    refuses(lab.archive, InvalidRequest, "its stream was moved by hand")
    lab.engine.drop_stream(stream)
    lab.archive()
    lab.check_replays(1, 2)


@pytest.mark.thorough
def test_stream_of_a_new_archive_that_was_advanced_is_refused(lab: ArchiveLab) -> None:
    crashing = lab.new_engine(CrashAt(ProtocolPoint.BEFORE_BEGIN))
    with pytest.raises(Crash):
        crashing.archive_changes(lab.path("src"), lab.path("log"))
    (status,) = lab.engine.describe_streams()
    lab.engine.advance_stream(status.name)
    refuses(lab.archive, InvalidRequest, "its initial rows were skipped")
    refuses(lab.replay, InvalidRequest, "holds nothing yet")
    lab.engine.drop_stream(status.name)
    lab.archive()
    lab.check_replays(1)


def test_advanced_stream_hides_no_change_from_feed_and_replay(lab: ArchiveLab) -> None:
    stream = lab.archive().stream
    lab.sql(UPDATE)
    lab.engine.advance_stream(stream)

    assert lab.archived(from_version=2) == lab.table_feed(2)
    refuses(lambda: lab.replay(as_of=Version(2)), InvalidRange, "version 2")


@pytest.mark.thorough
def test_call_that_was_killed_while_it_replaced_the_stream_is_finished(
    lab: ArchiveLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = lab.archive().stream
    lab.engine.drop_stream(stream)
    lab.sql(UPDATE)

    def crash(*_: object) -> None:
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(ArchiveTables, "adopt", crash)
        with pytest.raises(Crash):
            lab.archive()
    lab.archive()
    lab.check_replays(1, 2)


@pytest.mark.thorough
def test_two_first_calls_at_once_fill_one_archive(
    lab: ArchiveLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    find, others = ArchiveTables.find, iter([True])

    def find_then_create(tables: ArchiveTables, name: TableName) -> object:
        found = find(tables, name)
        if found is None and next(others, False):
            lab.new_engine().archive_changes(lab.path("src"), lab.path("log"))
        return found

    monkeypatch.setattr(ArchiveTables, "find", find_then_create)
    lab.sql(UPDATE)
    lab.archive()
    lab.check_replays(2)
    assert len(lab.engine.describe_streams()) == 1


@pytest.mark.thorough
def test_copy_of_the_source_with_the_same_id_is_refused(lab: ArchiveLab) -> None:
    lab.archive()
    shutil.copytree(lab.path("src"), lab.path("twin"))
    call = lab.engine.archive_changes
    refuses(lambda: call(lab.path("twin"), lab.path("log")), InvalidRequest, "another folder")


@pytest.mark.thorough
def test_changes_archived_during_a_read_are_on_one_side_of_the_seam(
    lab: ArchiveLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.archive()
    lab.sql(UPDATE)
    lab.archive()
    lab.sql("INSERT INTO {src} VALUES (9, 'z')")
    reach, others = ArchivedChanges.reach, iter([True])

    def reach_then_archive(changes: ArchivedChanges, archive: Archive) -> object:
        found = reach(changes, archive)
        if next(others, False):
            lab.new_engine().archive_changes(lab.path("src"), lab.path("log"))
        return found

    monkeypatch.setattr(ArchivedChanges, "reach", reach_then_archive)
    assert lab.archived(from_version=2) == lab.table_feed(2)


def test_missing_archive_of_a_stream_is_not_created_again(lab: ArchiveLab) -> None:
    outcome = lab.archive()
    (lab.root / "log").rename(lab.root / "away")
    refuses(lab.archive, InvalidRequest, "has filled it")
    lab.engine.drop_stream(outcome.stream)
    # A killed CREATE TABLE leaves this folder without a commit.
    (lab.root / "log" / "_delta_log").mkdir(parents=True)
    assert lab.archive().rows == 3


def test_points_outside_the_archive_are_refused(lab: ArchiveLab) -> None:
    lab.sql(UPDATE)
    lab.archive()
    lab.sql("UPDATE {src} SET v = 'y' WHERE id = 1")
    early = Timestamp("2001-01-01T00:00:00Z")
    for point in (Version(1), Version(3), Timestamp("2999-01-01T00:00:00Z"), early):
        refuses(lambda: lab.replay(as_of=point), InvalidRange, "cannot return the rows at")  # noqa: B023
    refuses(lambda: lab.archived(from_version=2), InvalidRange, "begins before archive")
    assert lab.archived(from_version=3) == lab.table_feed(3)


@pytest.mark.thorough
def test_archive_without_bootstrap_cannot_be_replayed(lab: ArchiveLab) -> None:
    lab.archive(bootstrap=False)
    refuses(lab.replay, InvalidRequest, "bootstrap=True")


@pytest.mark.thorough
def test_beginning_that_was_not_recorded_is_refused(lab: ArchiveLab) -> None:
    call = lab.archive
    refuses(lambda: call(from_version=99), InvalidRange, "99")
    refuses(lambda: call(from_version=-1), InvalidRange, "-1")
    both = {"from_version": 1, "from_timestamp": "2026-01-01"}
    refuses(lambda: call(**both), InvalidRequest, "two bounds")
    assert lab.engine.describe_streams() == []


def test_source_with_a_column_of_every_archive_is_refused(lab: ArchiveLab) -> None:
    lab.archive()
    lab.sql("ALTER TABLE {src} ADD COLUMN _schema_version INT", UPDATE)
    before = lab.version("log")
    refuses(lab.archive, InvalidRequest, "_schema_version")
    assert lab.version("log") == before


@pytest.mark.in_ci("no_such_schema*")
@pytest.mark.parametrize("archive", ["`" + "x" * 500 + "`", "no_such_schema.log", "/proc/1/log"])
def test_archive_that_cannot_be_created_leaves_no_stream(lab: ArchiveLab, archive: str) -> None:
    with pytest.raises(CdcError):
        lab.engine.archive_changes(lab.path("src"), archive)
    assert lab.engine.describe_streams() == []


def test_source_that_was_created_again_needs_a_new_archive(lab: ArchiveLab) -> None:
    lab.archive()
    shutil.rmtree(lab.path("src"))
    lab.make("src", "id INT, v STRING", properties="'delta.enableRowTracking' = 'true'")
    refuses(lab.archive, StreamStale, "replaced")
    lab.engine.drop_stream(lab.engine.describe_streams()[0].name)
    refuses(lab.archive, InvalidRequest, "needs a new one")


def test_cleaned_up_commits_are_reported_and_nothing_is_archived(lab: ArchiveLab) -> None:
    lab.archive()
    lab.sql(UPDATE, "UPDATE {src} SET v = 'y' WHERE id = 1")
    before = lab.version("log")
    (lab.root / "src/_delta_log/00000000000000000002.json").unlink()
    refuses(lab.archive, StreamStale, "version 2")
    assert lab.version("log") == before
