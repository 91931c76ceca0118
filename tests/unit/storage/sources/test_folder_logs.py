"""Refreshing the logs of folders: which files count, concurrent processes, a crash half-way."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import fsspec
import pytest
from streams import NOON, new_stream

from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.catalog.stream_status import status_of
from airflow_provider_cdc.engine.clock import utc_now
from airflow_provider_cdc.engine.core.change_sets.new_files import unread_files
from airflow_provider_cdc.engine.core.consumption.batches import BatchLimit
from airflow_provider_cdc.engine.core.errors import FilesChanged, StreamUnusable
from airflow_provider_cdc.engine.core.folders.folder_log import FolderFile
from airflow_provider_cdc.engine.core.model.lifecycle import Transition
from airflow_provider_cdc.engine.core.model.sources import FileFormat, Folder, Source
from airflow_provider_cdc.engine.core.model.stream import Stream, StreamMode
from airflow_provider_cdc.engine.storage.delta.delta_log import DeltaLog
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.registry.registry import Registry
from airflow_provider_cdc.engine.storage.registry.registry_snapshot import Change
from airflow_provider_cdc.engine.storage.sources import folder_logs
from airflow_provider_cdc.engine.storage.sources.folder_logs import FolderLogs, log_location
from airflow_provider_cdc.engine.storage.sources.source_log import SourceLog, SourceRange
from airflow_provider_cdc.engine.storage.sources.source_pins import SourcePins

SCHEMA = json.dumps({"type": "struct", "fields": []})


class Inbox:
    """A folder, its log, and a stream at the log's newest version."""

    def __init__(self, root: str, name_glob: str | None = None) -> None:
        self.uri = f"{root}/in"
        self.state = f"{root}/state"
        self.folder = Folder(self.uri, FileFormat.CSV, {}, SCHEMA, name_glob)
        self.location = log_location(self.state, self.uri, name_glob)
        self.files = Files()
        self.logs = FolderLogs(self.files)
        self.files.write(f"{self.uri}/.keep", b"")
        self.put("old.csv", b"1")

    def put(self, path: str, content: bytes = b"1\n2\n") -> None:
        """Write a file at once: a reader sees all of it or nothing."""
        filesystem, whole = fsspec.core.url_to_fs(f"{self.uri}/{path}")
        folder, _, name = whole.rpartition("/")
        filesystem.makedirs(folder, exist_ok=True)
        filesystem.pipe_file(f"{folder}/.{name}", content)
        filesystem.mv(f"{folder}/.{name}", whole)

    def remove(self, path: str) -> None:
        self.files.remove(f"{self.uri}/{path}")

    def new_stream(self) -> Stream:
        self.logs.open(self.location, self.folder)
        offset = SourceLog(self.files).newest_offset(self.location)
        table_id = offset.table_id
        return new_stream(
            source=Source(self.uri, self.location, table_id),
            offset=offset,
            mode=StreamMode.INSERT_ONLY,
            folder=self.folder,
        )

    @property
    def version(self) -> int:
        return DeltaLog(self.location, self.files).latest_version()

    def logged(self) -> set[str]:
        return set(self.logs.open(self.location, self.folder).files)

    def range(self, stream: Stream, **arguments: Any) -> SourceRange:
        return SourceLog(self.files).range(stream, **arguments)

    def unread(self, stream: Stream) -> list[str]:
        return paths_of(self.range(stream))


def paths_of(span: SourceRange) -> list[str]:
    return sorted(FolderFile.of(file).path for file in unread_files(span.commits).files)


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    return Inbox(str(tmp_path / "an ünbox"))


@pytest.fixture(params=["local", "memory"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Inbox]:
    """An inbox on a local disk, and one in a store without folders."""
    if request.param == "local":
        yield Inbox(str(tmp_path))
    else:
        yield Inbox("memory://root")
        fsspec.filesystem("memory").store.clear()


def test_new_stream_starts_after_the_existing_files(anywhere: Inbox) -> None:
    stream = anywhere.new_stream()
    assert stream.offset.version == 1
    assert anywhere.unread(stream) == []
    assert anywhere.version == 1


def test_new_overwritten_and_removed_files_are_found(anywhere: Inbox) -> None:
    anywhere.put("removed.csv")
    stream = anywhere.new_stream()
    anywhere.put("new.csv")
    anywhere.put("k=1/deep/new.csv")
    anywhere.put("old.csv", b"another")
    anywhere.remove("removed.csv")

    assert anywhere.unread(stream) == ["k=1/deep/new.csv", "new.csv", "old.csv"]

    anywhere.remove("new.csv")
    assert anywhere.unread(stream) == ["k=1/deep/new.csv", "old.csv"]
    assert anywhere.version == stream.offset.version + 2


def test_hidden_and_empty_files_do_not_count(anywhere: Inbox) -> None:
    stream = anywhere.new_stream()
    for path in ("_SUCCESS", ".x.crc", "_temporary/0/a.csv", ".hidden/a.csv", "a._COPYING_"):
        anywhere.put(path)
    anywhere.put("empty.csv", b"")
    assert not SourceLog(anywhere.files).probe(stream).may_have_data
    anywhere.put("empty.csv", b"1")
    assert SourceLog(anywhere.files).probe(stream).may_have_data


def test_file_rewritten_with_the_same_size_is_a_new_file(inbox: Inbox) -> None:
    stream = inbox.new_stream()
    path = Path(inbox.uri, "old.csv")
    before = path.stat()
    path.write_bytes(b"2")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert inbox.unread(stream) == ["old.csv"]


def test_name_glob_leaves_out_other_names_and_has_its_own_log(tmp_path: Path) -> None:
    inbox = Inbox(str(tmp_path), "*.csv")
    stream = inbox.new_stream()
    inbox.put("a.json")
    inbox.put("sub/b.csv")
    assert inbox.unread(stream) == ["sub/b.csv"]
    assert inbox.location != Inbox(str(tmp_path)).location


def test_links_are_followed_but_not_in_circles(inbox: Inbox, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.csv").write_text("1")
    Path(inbox.uri, "link").symlink_to(outside)
    (outside / "circle").symlink_to(inbox.uri)
    Path(inbox.uri, "broken.csv").symlink_to(outside / "nothing")
    Path(inbox.uri, "itself.csv").symlink_to(inbox.uri + "/itself.csv")
    assert inbox.logged() == {"old.csv", "link/a.csv"}


def test_missing_folder_is_not_reported_as_empty(inbox: Inbox, tmp_path: Path) -> None:
    stream = inbox.new_stream()
    away = tmp_path / "away"
    Path(inbox.uri).rename(away)
    with pytest.raises(StreamUnusable, match="bring the folder back"):
        inbox.unread(stream)
    away.rename(inbox.uri)
    assert inbox.unread(stream) == []
    assert inbox.version == 1


def test_folder_exchanged_during_a_listing_is_listed_again(
    inbox: Inbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = inbox.new_stream()
    scan = os.scandir

    def exchanged(path: str) -> Any:
        monkeypatch.undo()
        entries = scan(path)
        Path(inbox.uri).rename(tmp_path / "away")
        Path(inbox.uri).mkdir()
        (tmp_path / "away" / "old.csv").rename(f"{inbox.uri}/old.csv")
        return entries

    monkeypatch.setattr(os, "scandir", exchanged)
    assert inbox.unread(stream) == []
    assert inbox.version == 1


def test_file_name_that_is_not_utf_8_is_refused_and_not_skipped(inbox: Inbox) -> None:
    stream = inbox.new_stream()
    name = os.fsencode(inbox.uri) + b"/\xff.csv"
    with open(name, "wb") as file:
        file.write(b"1")
    with pytest.raises(StreamUnusable, match="1 names are not UTF-8"):
        inbox.unread(stream)
    os.unlink(name)
    assert inbox.unread(stream) == []


def test_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    inbox = Inbox(str(tmp_path))
    inbox.folder = Folder(f"{inbox.uri}/old.csv", FileFormat.CSV, {}, SCHEMA)
    with pytest.raises(StreamUnusable, match="expected a folder"):
        inbox.new_stream()


@pytest.fixture
def somebody_else() -> Iterator[None]:
    """Runs the test with another user's rights where tests have all rights."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_folder_that_may_not_be_listed_is_refused_and_named(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    inbox = Inbox(str(tmp_path))
    stream = inbox.new_stream()
    inbox.put("secret/a.csv")
    secret = tmp_path / "in/secret"
    closed = [path for path in tmp_path.parents if not path.stat().st_mode & 0o001]
    for path in (tmp_path, *closed, *tmp_path.rglob("*")):
        path.chmod(0o777)
    secret.chmod(0)
    request.getfixturevalue("somebody_else")
    with pytest.raises(StreamUnusable, match=r"may not read .*in/secret.*no file was recorded"):
        inbox.unread(stream)


def test_changed_or_missing_file_is_refused(anywhere: Inbox) -> None:
    stream = anywhere.new_stream()
    anywhere.put("a.csv")
    anywhere.put("b.csv")
    files = [FolderFile.of(file) for file in unread_files(anywhere.range(stream).commits).files]
    anywhere.logs.check_unchanged(stream, files)

    anywhere.put("b.csv", b"another")
    with pytest.raises(FilesChanged, match=r"1 of 2 changed, b\.csv is a different file"):
        anywhere.logs.check_unchanged(stream, files)
    anywhere.remove("b.csv")
    with pytest.raises(FilesChanged, match=r"b\.csv is missing.*next listing"):
        anywhere.logs.check_unchanged(stream, files)


def test_bounded_range_leaves_out_files_overwritten_later(inbox: Inbox) -> None:
    stream = inbox.new_stream()
    for path in ("a.csv", "b.csv"):
        inbox.put(path)
        inbox.unread(stream)
    inbox.put("a.csv", b"again")

    first = inbox.range(stream, limit=BatchLimit(max_commits=1))
    assert paths_of(first) == []
    assert (first.end.version, first.seen_through) == (2, 4)

    inbox.put("b.csv", b"again")
    inbox.unread(stream)
    pinned = inbox.range(stream, through=3, seen_through=4)
    assert paths_of(pinned) == ["b.csv"]
    assert paths_of(inbox.range(stream, through=3)) == ["a.csv", "b.csv"]


def test_transaction_sees_only_the_files_present_at_its_start(inbox: Inbox) -> None:
    stream = inbox.new_stream()
    inbox.put("a.csv")
    pins = SourcePins(SourceLog(inbox.files), [stream])
    inbox.put("b.csv")
    inbox.unread(stream)
    (span,) = pins.span(stream, BatchLimit()).tables
    assert paths_of(span) == ["a.csv"]


def test_pinned_range_does_not_list_the_folder_again(inbox: Inbox) -> None:
    stream = inbox.new_stream()
    inbox.put("a.csv")
    assert inbox.range(stream, through=1).commits == ()
    assert inbox.version == 1


def test_concurrent_refreshes_list_every_file_once(anywhere: Inbox) -> None:
    stream = anywhere.new_stream()
    ready = threading.Barrier(4)

    def refresh(number: int) -> None:
        ready.wait()
        for turn in range(5):
            anywhere.put(f"{number}-{turn}.csv")
            FolderLogs(Files()).refresh(stream)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(refresh, range(4)))

    span = anywhere.range(stream)
    adds = [file for commit in span.commits for file in commit.adds]
    assert sorted(file.path for file in adds) == sorted(
        f"{number}-{turn}.csv" for number in range(4) for turn in range(5)
    )
    assert not [file for commit in span.commits for file in commit.removes]
    assert len({file.base_row_id for file in adds}) == len(adds)


def test_overtaken_refresh_lists_again_and_removes_no_file(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process lists a later file and writes its version between these two steps."""
    stream = inbox.new_stream()
    inbox.put("a.csv")
    create: Callable[..., bool] = Files.create
    overtaken = []

    def slow(self: Files, uri: str, content: bytes) -> bool:
        if not overtaken:
            overtaken.append(uri)
            inbox.put("later.csv")
            FolderLogs(Files()).refresh(stream)
        return create(self, uri, content)

    monkeypatch.setattr(Files, "create", slow)
    span = inbox.range(stream)
    assert paths_of(span) == ["a.csv", "later.csv"]
    assert len(span.commits) == 1
    assert not span.commits[0].removes


def test_crash_before_a_version_is_written_leaves_nothing(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = inbox.new_stream()
    inbox.put("a.csv")

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", crash)
        with pytest.raises(KeyboardInterrupt):
            inbox.logs.refresh(stream)
    assert inbox.version == 1
    assert inbox.unread(stream) == ["a.csv"]


def test_lost_answer_writes_no_second_version(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = inbox.new_stream()
    inbox.put("a.csv")
    create: Callable[..., bool] = Files.create

    def lossy(self: Files, uri: str, content: bytes) -> bool:
        create(self, uri, content)
        raise TimeoutError

    with monkeypatch.context() as patched:
        patched.setattr(Files, "create", lossy)
        with pytest.raises(TimeoutError):
            inbox.logs.refresh(stream)
    assert inbox.unread(stream) == ["a.csv"]
    assert inbox.version == 2


def test_long_log_is_read_from_a_snapshot(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = inbox.new_stream()
    for number in range(35):
        inbox.put(f"{number}.csv")
        inbox.logs.refresh(stream)
    asked: list[int] = []
    commits = DeltaLog.commits

    def counted(self: DeltaLog, *, after: int, through: int) -> Any:
        asked.append(through - after)
        return commits(self, after=after, through=through)

    monkeypatch.setattr(DeltaLog, "commits", counted)
    assert len(inbox.logged()) == 36
    assert max(asked) <= folder_logs._COMMITS_WITHOUT_SNAPSHOT
    assert len(Files().names(f"{inbox.location}/snapshots")) == 2


def test_crash_during_a_snapshot_write_loses_no_file(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = inbox.new_stream()
    files = folder_logs._COMMITS_WITHOUT_SNAPSHOT - 2
    for number in range(files):
        inbox.put(f"{number}.csv")
        inbox.logs.refresh(stream)

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Files, "write", crash)
        with pytest.raises(KeyboardInterrupt):
            inbox.logs.refresh(stream)
    assert len(inbox.logged()) == files + 1


def test_complete_through_of_a_folder_uses_the_write_times_of_its_files(
    inbox: Inbox, tmp_path: Path
) -> None:
    stream, now = inbox.new_stream(), utc_now()
    sources = SourceLog(Files())
    assert status_of(stream, sources, now).complete_through == now
    written = now - timedelta(hours=2)
    for name, moment in (("new.csv", now), ("moved.csv", written)):
        inbox.put(name)
        os.utime(Path(inbox.uri, name), (moment.timestamp(), moment.timestamp()))
    found = status_of(stream, sources, utc_now())
    assert found.behind_since is not None
    assert found.behind_since > now
    assert found.complete_through is not None
    lag = written - found.complete_through
    assert timedelta(milliseconds=1) <= lag <= timedelta(milliseconds=2)
    inbox.remove("moved.csv")
    assert status_of(stream, sources, utc_now()).complete_through > written


def test_catalog_probe_and_status_list_the_folder_without_a_jvm(
    inbox: Inbox, tmp_path: Path
) -> None:
    stream = inbox.new_stream()
    registry = Registry(inbox.state)
    registry.transact(registry.snapshot(), [Change(stream, Transition.CREATED)], actor="test")
    catalog = StreamCatalog(inbox.state, clock=lambda: NOON + timedelta(days=3650))

    assert not catalog.probe_stream("s").may_have_data
    inbox.put("a.csv", b"12345")
    assert catalog.probe_stream("s").may_have_data

    status = catalog.describe_stream("s")
    assert (status.commits_behind, status.bytes_behind, status.stale) == (1, 5, False)
    assert status.stale_after > NOON + timedelta(days=36_000)

    Path(inbox.uri).rename(tmp_path / "away")
    assert "expected a folder" in str(catalog.describe_stream("s").invalid_reason)

    clone = catalog.clone_stream("t", "s")
    assert clone.folder == stream.folder
