"""Reading a whole table from its log, with and without checkpoints of every form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from counting_files import CountingFiles
from hypothesis import given
from table_histories import Table, histories

from airflow_provider_cdc.engine.core.delta.deletion_vectors import relative_path
from airflow_provider_cdc.engine.core.delta.log_actions import Commit, DataFile, DeletionVector
from airflow_provider_cdc.engine.core.delta.table_snapshot import Replay, TableSnapshot
from airflow_provider_cdc.engine.core.errors import NotADeltaTable
from airflow_provider_cdc.engine.storage.delta.delta_log import LogIncomplete
from airflow_provider_cdc.engine.storage.delta.table_snapshots import newest_snapshot
from airflow_provider_cdc.engine.storage.files.stores import Files

PROTOCOL = {"minReaderVersion": 3, "minWriterVersion": 7, "writerFeatures": ["rowTracking"]}
METADATA = {"id": "t", "schemaString": "{}", "configuration": {"a": "b"}}
VECTOR = {
    "storageType": "u",
    "pathOrInlineDv": "vBn[lx{q8@P<9BNH/isA",
    "offset": 1,
    "sizeInBytes": 36,
    "cardinality": 2,
}
_MAP = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_ADD = [("path", pa.string()), ("partitionValues", _MAP), ("deletionVector", _VECTOR)]
SCHEMA = pa.schema(
    [
        ("add", pa.struct(_ADD)),
        ("metaData", pa.struct([("id", pa.string()), ("configuration", _MAP)])),
        (
            "protocol",
            pa.struct([(name, pa.int32()) for name in ("minReaderVersion", "minWriterVersion")]),
        ),
        ("sidecar", pa.struct([("path", pa.string())])),
    ]
)
STATE: list[dict[str, Any]] = [
    {"metaData": {"id": "t", "configuration": [("a", "b")]}},
    {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7}},
]


def add(path: str, vector: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"add": {"path": path, "partitionValues": {"p": None}, "deletionVector": vector}}


def remove(path: str, vector: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"remove": {"path": path, "deletionVector": vector}}


class Log:
    """A log written by hand."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "_delta_log"
        (self.folder / "_sidecars").mkdir(parents=True)

    def commit(self, version: int, *actions: dict[str, Any]) -> None:
        path = self.folder / f"{version:020d}.json"
        path.write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")

    def checkpoint(self, name: str, *rows: dict[str, Any]) -> None:
        pq.write_table(pa.Table.from_pylist(list(rows), schema=SCHEMA), self.folder / name)

    def read(self) -> TableSnapshot:
        return newest_snapshot(str(self.root), Files())

    def files(self) -> list[str]:
        paths = [file["path"] for file in self.read().files]
        assert all(path.startswith(f"file:{self.root}".replace(" ", "%20")) for path in paths)
        return sorted(path.rsplit("/", 1)[-1] for path in paths)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "täble 1")


def test_snapshot_of_a_log_without_checkpoints_holds_its_latest_state(log: Log) -> None:
    domain = {"domain": "delta.rowTracking", "configuration": "{}", "removed": False}
    other = {"domain": "other", "configuration": "{}", "removed": False}
    log.commit(0, {"protocol": PROTOCOL}, {"metaData": {"id": "old"}}, {"domainMetadata": other})
    log.commit(1, add("a"), add("b"), {"metaData": METADATA}, {"commitInfo": {}})
    log.commit(2, remove("a"), add("a", VECTOR), {"domainMetadata": domain})
    log.commit(3, remove("b"), {"domainMetadata": {**other, "removed": True}}, {"txn": {}})

    found = log.read()

    assert (found.version, found.protocol, found.metadata) == (3, PROTOCOL, METADATA)
    assert found.domains == (domain,)
    (file,) = found.files
    vector = DeletionVector.of(VECTOR)
    assert vector is not None
    assert file["path"] == f"file:{log.root}/a".replace(" ", "%20")
    assert file["deletionVector"] == {
        **VECTOR,
        "storageType": "p",
        "pathOrInlineDv": f"{log.root.as_uri()}/{relative_path(vector)}",
    }


def test_snapshot_of_a_log_with_a_checkpoint_lists_it_once(log: Log) -> None:
    log.commit(0, {"protocol": PROTOCOL}, {"metaData": METADATA})
    log.checkpoint(f"{0:020d}.checkpoint.parquet", *STATE)
    log.commit(1, add("a"))
    files = CountingFiles()

    assert newest_snapshot(str(log.root), files).version == 1
    assert len(files.listings) == 1


def test_absolute_paths_in_a_log_stay_unchanged(log: Log) -> None:
    log.commit(0, add("file:/elsewhere/a%20b", VECTOR | {"storageType": "p"}))

    (file,) = log.read().files

    assert file["path"] == "file:/elsewhere/a%20b"
    assert file["deletionVector"] == VECTOR | {"storageType": "p"}


@pytest.mark.parametrize("form", ["classic", "parts", "v2 parquet", "v2 json"])
def test_checkpoint_replaces_the_commits_up_to_its_version(log: Log, form: str) -> None:
    pairs = {"partitionValues": [("p", None)]}
    files: list[dict[str, Any]] = [
        {"add": {"path": "a", **pairs, "deletionVector": VECTOR}},
        {"add": {"path": "b", **pairs}},
    ]
    name = f"{5:020d}.checkpoint"
    sidecars: list[dict[str, Any]] = [{"sidecar": {"path": f"{i}.parquet"}} for i in range(2)]
    if form == "classic":
        log.checkpoint(f"{name}.parquet", *STATE, *files)
    elif form == "parts":
        log.checkpoint(f"{name}.0000000001.0000000002.parquet", *STATE, files[0])
        log.checkpoint(f"{name}.0000000002.0000000002.parquet", files[1])
    else:
        for number, file in enumerate(files):
            log.checkpoint(f"_sidecars/{number}.parquet", file)
        if form == "v2 parquet":
            log.checkpoint(f"{name}.an-id.parquet", *STATE, *sidecars)
        else:
            rows = [{"metaData": METADATA}, {"protocol": PROTOCOL}, *sidecars]
            text = "\n".join(map(json.dumps, rows))
            (log.folder / f"{name}.an-id.json").write_text(text, encoding="utf-8")
    log.commit(5, {"metaData": {"id": "not read"}})
    log.commit(6, remove("a", VECTOR), add("c"))

    assert log.files() == ["b", "c"]
    found = log.read()
    assert (found.metadata["id"], found.metadata["configuration"]) == ("t", {"a": "b"})
    assert found.protocol["minWriterVersion"] == 7
    assert all(file["partitionValues"] == {"p": None} for file in found.files)


def test_checkpoint_with_missing_files_is_ignored(log: Log) -> None:
    log.commit(0, {"protocol": PROTOCOL}, {"metaData": METADATA}, add("a"))
    log.commit(1, add("b"))
    log.commit(2, remove("a"))
    log.checkpoint(f"{1:020d}.checkpoint.0000000001.0000000002.parquet", *STATE)
    log.checkpoint(f"{2:020d}.checkpoint.an-id.parquet", *STATE, {"sidecar": {"path": "other"}})

    assert log.files() == ["b"]


def test_log_without_first_commits_or_a_checkpoint_cannot_be_read(log: Log) -> None:
    log.commit(3, add("a"))

    with pytest.raises(LogIncomplete, match="commit 0 is not in the log"):
        log.read()


def test_folder_without_a_log_is_not_a_table(log: Log) -> None:
    with pytest.raises(NotADeltaTable):
        log.read()


@given(histories())
def test_replay_leaves_the_files_of_any_history(
    history: tuple[Table, list[Commit], list[Table]],
) -> None:
    start, commits, tables = history
    replay = Replay()
    replay.take({"add": as_action(file)} for file in start.values())
    for commit in commits:
        replay.take({"remove": as_action(file)} for file in commit.removes)
        replay.take({"add": as_action(file)} for file in commit.adds)

    expected = [start, *tables][-1]
    found = {file["path"]: file["deletionVector"] for file in replay.snapshot(0).files}
    assert found == {path: as_action(file)["deletionVector"] for path, file in expected.items()}


def as_action(file: DataFile) -> dict[str, Any]:
    vector = file.deletion_vector
    return {
        "path": file.path,
        "deletionVector": None if vector is None else vector.as_action(),
    }
