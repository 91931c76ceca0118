"""The engine without Spark on an object store: by s3fs and by delta-rs, over HTTP."""

from __future__ import annotations

import json
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from aiobotocore.client import AioBaseClient
from deltalake import write_deltalake
from fsspec.core import url_to_fs
from registry_scenes import WRITERS, advance, create, drop
from streams import new_offset, new_stream

from airflow_provider_cdc.engine.catalog.log_glances import LogGlances
from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.clock import utc_now
from airflow_provider_cdc.engine.core.delta.log_actions import fingerprint_of
from airflow_provider_cdc.engine.core.errors import NotADeltaTable
from airflow_provider_cdc.engine.core.model.sources import FileFormat, Folder, Source
from airflow_provider_cdc.engine.storage.delta.delta_log import DeltaLog, Listing
from airflow_provider_cdc.engine.storage.files import stores
from airflow_provider_cdc.engine.storage.files.scratch import NO_FILE, Scratch
from airflow_provider_cdc.engine.storage.files.store_options import fsspec_options
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.files.uris import join
from airflow_provider_cdc.engine.storage.registry.registry import Registry
from airflow_provider_cdc.engine.storage.registry.registry_upkeep import Upkeep
from airflow_provider_cdc.engine.storage.sources.folder_logs import FolderLogs, log_location
from airflow_provider_cdc.engine.storage.sources.source_log import SourceLog, StreamProbe


@pytest.fixture
def files(options: dict[str, str]) -> Files:
    return Files(options)


def test_files_are_written_read_listed_and_removed(files: Files, root: str) -> None:
    files.write(join(root, "a", "x"), b"one")
    files.write(join(root, "a", "x"), b"again")
    files.write(join(root, "a", "b", "y z"), b"two")

    assert files.read(join(root, "a", "x")) == b"again"
    assert files.names(join(root, "a")) == ["b", "x"]
    assert files.read_below(join(root, "a"), ["x", "b/y z"]) == [b"again", b"two"]
    assert files.sizes([join(root, "a", "x"), join(root, "none")]) == {
        join(root, "a", "x"): 5,
        join(root, "none"): None,
    }
    assert [file.path for file in files.below(root)] == ["a/b/y z", "a/x"]
    assert abs(files.modified(join(root, "a", "x")) - utc_now()) < timedelta(minutes=1)
    assert files.exists(join(root, "a"))

    files.remove(join(root, "a"))

    assert not files.exists(join(root, "a"))
    assert files.below(root) == []
    for look in (files.read, files.names, files.modified):
        with pytest.raises(FileNotFoundError):
            look(join(root, "a"))


def test_log_folder_without_a_commit_is_not_a_table_and_is_removed(
    options: dict[str, str], files: Files, root: str
) -> None:
    filesystem, path = url_to_fs(root.replace("s3a:", "s3:"), **fsspec_options(options, "s3"))
    for folder in ("_delta_log/", "_delta_log/_staged_commits/"):
        # Hadoop makes a folder like this.
        filesystem.pipe_file(f"{path}/{folder}", b"")
    log = DeltaLog(root, files)
    assert files.exists(join(root, "_delta_log"))
    assert not log.is_begun

    files.remove_if_empty(root)
    assert not files.exists(root)

    files.write(join(root, "_delta_log", f"{0:020d}.json"), b"{}")
    files.remove_if_empty(root)
    assert log.is_begun


@pytest.mark.in_ci("s3")
def test_only_names_after_a_given_one_are_listed_page_by_page(
    files: Files, options: dict[str, str], root: str
) -> None:
    folder = join(root, "_delta_log")
    store, path = url_to_fs(folder.replace("s3a:", "s3:"), **fsspec_options(options, "s3"))
    written = [f"{number:020d}.json" for number in range(1_100)]
    store.pipe({f"{path}/{name}": b"{}" for name in [*written, "_sidecars/x", ".hidden"]})

    assert files.names(folder, after=f"{50:020d}") == [*written[50:], "_sidecars"]
    assert files.names(folder, after=f"{1_099:020d}") == [written[-1], "_sidecars"]
    assert files.names(folder) == [".hidden", *written, "_sidecars"]
    assert files.names(join(root, "none"), after="a") == []


@pytest.mark.in_ci("s3-7")
@pytest.mark.parametrize("at_once", [7, 1_000])
def test_sizes_of_many_files_of_a_folder_take_few_requests(
    files: Files,
    options: dict[str, str],
    root: str,
    monkeypatch: pytest.MonkeyPatch,
    at_once: int,
) -> None:
    store, path = url_to_fs(root.replace("s3a:", "s3:"), **fsspec_options(options, "s3"))
    store.pipe({f"{path}/{number:05d} ü": b"x" * (number % 7) for number in range(1_100)})
    sizes = {join(root, f"{number:05d} ü"): number % 7 for number in range(50, 1_099)}
    none = join(root, "00999")
    monkeypatch.setattr(stores, "_AT_ONCE", at_once)
    asked = counted_requests(monkeypatch)

    assert files.sizes([*sizes, none]) == sizes | {none: None}
    # At most a request in ``at_once`` is a page, of a thousand names from the first one on. What
    # the pages do not show is asked for.
    pages = min(2, 1_050 // at_once)
    assert asked["HeadObject"] == {2: 1, 1: 50}[pages]


def counted_requests(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The requests to the store from now on, by their names."""
    asked: Counter[str] = Counter()
    call = AioBaseClient._make_api_call

    async def counted(client: Any, name: str, arguments: Any) -> Any:
        asked[name] += 1
        return await call(client, name, arguments)

    monkeypatch.setattr(AioBaseClient, "_make_api_call", counted)
    return asked


def test_concurrent_creations_of_a_file_have_one_winner(files: Files, root: str) -> None:
    uri = join(root, "claims", "1")
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda number: files.create(uri, str(number).encode()), range(8)))

    assert won.count(True) == 1
    assert files.read(uri) == str(won.index(True)).encode()


@pytest.mark.in_ci("s3")
def test_registry_keeps_streams_through_its_own_upkeep(
    options: dict[str, str], files: Files, root: str
) -> None:
    upkeep = Upkeep(commits=3)
    registry = Registry(root, storage_options=options, upkeep=upkeep)
    made = create(registry, "s")
    advance(registry, "s", 7)
    create(registry, "dropped")
    drop(registry, "dropped")

    again = Registry(root, storage_options=options, upkeep=upkeep)

    assert [stream.name for stream in again.snapshot().streams()] == ["s"]
    assert again.snapshot().get("s").offset.version == made.offset.version + 7
    assert len(again.history(made.stream_id)) == 8
    # fsspec finds what delta-rs wrote: both use the same place.
    assert any(
        name.endswith(".checkpoint.parquet") for name in files.names(f"{root}/registry/_delta_log")
    )
    assert StreamCatalog(root, storage_options=options).get_stream("s").name == "s"


@pytest.mark.in_ci("s3a")
def test_registry_loses_no_move_of_several_writers(options: dict[str, str], root: str) -> None:
    create(Registry(root, storage_options=options), "first")
    start = threading.Barrier(WRITERS)

    def write(number: int) -> None:
        registry = Registry(root, storage_options=options)
        start.wait()
        create(registry, f"s{number}")
        advance(registry, f"s{number}", 5)

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, range(WRITERS)))

    found = Registry(root, storage_options=options).snapshot()
    offsets = {stream.name: stream.offset.version for stream in found.streams()}
    assert offsets == {"first": 0} | {f"s{number}": 5 for number in range(WRITERS)}


def test_log_of_a_table_is_read(options: dict[str, str], files: Files, root: str) -> None:
    for number in range(3):
        rows = pa.table({"id": [number]})
        write_deltalake(root, rows, mode="append", storage_options=options)
    log = DeltaLog(root, files)

    assert log.latest_version() == 2
    assert log.listing(since=1) == Listing(2, frozenset({1, 2}), ())
    assert log.listing(since=3) == log.listing() == Listing(2, frozenset({0, 1, 2}), ())
    with pytest.raises(NotADeltaTable):
        DeltaLog(join(root, "none"), files).listing(since=3)
    assert [commit.version for commit in log.commits(after=0, through=2)] == [1, 2]
    assert json.loads(log.state_at(2).metadata["schemaString"])["fields"][0]["name"] == "id"
    assert len(log.file_times([0, 1, 2])) == 3


def test_probe_requests_only_its_registered_commit_and_later_ones(
    files: Files, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracked = {"configuration": {"delta.enableRowTracking": "true"}, "id": "t"}
    contents = [json.dumps({"metaData": tracked}).encode()]
    for version in range(1, 31):
        contents.append(json.dumps({"txn": {"appId": "a", "version": version}}).encode())
    for version, content in enumerate(contents):
        files.create(join(root, "_delta_log", f"{version:020d}.json"), content)
    offset = new_offset(25, tracked)
    offset = replace(offset, fingerprint=fingerprint_of(contents[25]))
    stream = new_stream(source=Source("t", root, "t"), offset=offset)
    asked = counted_requests(monkeypatch)

    found = SourceLog(files).probe(stream)

    assert found == StreamProbe(25, 30, may_have_data=False, data_version=25)
    # The quick check reads five commits and finds no answer; the exact check reads five again.
    assert asked == {"ListObjectsV2": 1, "GetObject": 1 + 5 + 5}


def test_new_and_overwritten_files_add_versions_of_their_folder(files: Files, root: str) -> None:
    inbox = join(root, "in")
    folder = Folder(inbox, FileFormat.CSV, {}, json.dumps({"type": "struct", "fields": []}), None)
    location = log_location(join(root, "state"), inbox, None)
    logs = FolderLogs(files)
    files.write(join(inbox, "a.csv"), b"1")
    first = logs.open(location, folder).version

    files.write(join(inbox, "day=1", "b.csv"), b"1")
    assert logs.open(location, folder).version == first + 1
    assert logs.open(location, folder).version == first + 1
    files.write(join(inbox, "a.csv"), b"2")

    assert logs.open(location, folder).version == first + 2


def test_scratch_lists_and_tables_are_written_and_removed(files: Files, root: str) -> None:
    scratch = Scratch(root, files, utc_now)
    table, listed = scratch.write_table("t", b"{}"), scratch.write_list(b"v1")
    assert sorted(file.path for file in files.below(listed)) == [NO_FILE]
    assert files.exists(join(listed, "_spark_metadata", "0.compact"))

    scratch.remove(listed)
    Scratch(root, files, lambda: utc_now() + timedelta(hours=25)).sweep()

    assert not files.exists(listed)
    assert not files.exists(table)


@pytest.mark.in_ci("s3")
def test_glance_at_a_log_is_one_request_and_notices_the_next_commit(
    options: dict[str, str], files: Files, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def commit(table: str, version: int) -> None:
        files.create(join(root, table, "_delta_log", f"{version:020d}.json"), b"{}")

    for table in ("a", "b"):
        commit(table, 0)
    streams = [
        new_stream(table, source=Source(table, join(root, table), table), offset=new_offset(0))
        for table in ("a", "b")
    ]
    glances = LogGlances(root, storage_options=options)
    assert not glances.is_local
    before = glances.sources(streams)
    asked = counted_requests(monkeypatch)

    assert glances.sources(streams) == before
    assert asked.total() == len(streams)

    commit("b", 1)
    after = glances.sources(streams)
    assert [after[stream.stream_id] for stream in streams] == [(0,), (1,)]
