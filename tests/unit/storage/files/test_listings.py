"""Listing folders of stores: a failure is not an empty folder; GCS metadata is not a new file."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fsspec.asyn import AsyncFileSystem
from fsspec.spec import AbstractFileSystem
from streams import NOON

from airflow_provider_cdc.engine.core.delta.log_actions import parse_commit
from airflow_provider_cdc.engine.core.folders.folder_log import (
    FolderFile,
    FolderState,
    fold,
    refresh_commit,
)
from airflow_provider_cdc.engine.storage.files.listings import files_below

TREE = {
    "/in": ["/in/a.csv", "/in/sub/", "/in/.hidden/"],
    "/in/sub": ["/in/sub/b.csv", "/in/sub/deep/"],
    "/in/sub/deep": ["/in/sub/deep/c.csv"],
    "/in/.hidden": ["/in/.hidden/d.csv"],
}


class Served:
    """Lists one folder for each call; folders in ``failing`` raise their error."""

    def __init__(self, failing: dict[str, OSError] | None = None) -> None:
        super().__init__(skip_instance_cache=True)  # type: ignore[call-arg]
        self.failing = failing or {}
        self.missing: set[str] = set()

    def answer(self, path: str) -> list[dict[str, Any]]:
        if path in self.failing:
            raise self.failing[path]
        if path.endswith(".csv"):
            return [{"name": path, "type": "file", "size": 3, "mtime": NOON.timestamp()}]
        if path not in TREE or path in self.missing:
            raise FileNotFoundError(path)
        return [
            {"name": name.rstrip("/"), "type": "directory", "size": 0}
            if name.endswith("/")
            else {"name": name, "type": "file", "size": 3, "mtime": NOON.timestamp()}
            for name in TREE[path]
        ]


class Plain(Served, AbstractFileSystem):
    cachable = False

    def ls(self, path: str, detail: bool = True, **_: Any) -> Any:
        return self.answer(path)

    def exists(self, path: str, **_: Any) -> bool:
        return path in TREE and path not in self.missing


class Waiting(Served, AsyncFileSystem):
    cachable = False

    async def _ls(self, path: str, detail: bool = True, **_: Any) -> Any:
        return self.answer(path)

    async def _exists(self, path: str, **_: Any) -> bool:
        return path in TREE and path not in self.missing


STORES = pytest.mark.parametrize("store", [Plain, Waiting])


@STORES
def test_files_of_a_store_that_lists_folder_by_folder_are_found(store: type[Any]) -> None:
    found = files_below(store(), "/in")
    assert [file.path for file in found] == ["a.csv", "sub/b.csv", "sub/deep/c.csv"]
    assert found[0] == FolderFile("a.csv", 3, int(NOON.timestamp()) * 1_000_000_000)


@STORES
@pytest.mark.parametrize("folder", ["/in", "/in/sub", "/in/sub/deep"])
@pytest.mark.parametrize("error", [PermissionError("no"), OSError(5, "connection lost")])
def test_folder_that_cannot_be_listed_is_not_reported_as_empty(
    store: type[Any], folder: str, error: OSError
) -> None:
    with pytest.raises(type(error)):
        files_below(store({folder: error}), "/in")


@STORES
def test_missing_folder_is_an_error_and_a_missing_subfolder_is_empty(store: type[Any]) -> None:
    with pytest.raises(FileNotFoundError):
        files_below(store(), "/nothing")
    with pytest.raises(FileNotFoundError):
        files_below(store({"/in/sub": FileNotFoundError("for now")}), "/in")
    with pytest.raises(NotADirectoryError):
        files_below(store(), "/in/a.csv")
    filesystem = store()
    filesystem.missing = {"/in/sub/deep"}
    assert [file.path for file in files_below(filesystem, "/in")] == ["a.csv", "sub/b.csv"]


class Bucket(AbstractFileSystem):
    """Reports one object as gcsfs does."""

    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.generation, self.metageneration = 1700000000000001, 1
        self.created = self.updated = NOON

    def find(self, path: str, **_: Any) -> dict[str, dict[str, Any]]:
        return {
            "lake/in/a.csv": {
                "name": "lake/in/a.csv",
                "type": "file",
                "size": 3,
                "generation": str(self.generation),
                "metageneration": str(self.metageneration),
                "etag": f"{self.generation}/{self.metageneration}",
                "md5Hash": "one content",
                "timeCreated": _text(self.created),
                "updated": _text(self.updated),
                "ctime": self.created,
                "mtime": self.updated,
            }
        }

    def touch_metadata(self) -> None:
        self.metageneration += 1
        self.updated += timedelta(days=30)

    def overwrite(self) -> None:
        self.generation += 1
        self.metageneration = 1
        self.created = self.updated = self.updated + timedelta(days=1)

    def listed(self) -> dict[str, FolderFile]:
        return {file.path: file for file in files_below(self, "lake/in")}


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


EMPTY = FolderState(0, 0, {}, -1, {})


def after(state: FolderState, found: dict[str, FolderFile]) -> FolderState:
    content = refresh_commit(state, found, NOON)
    assert content is not None
    return fold(state, [parse_commit(state.version + 1, content)])


def test_gcs_object_with_changed_metadata_is_the_same_file() -> None:
    bucket = Bucket()
    state = after(EMPTY, bucket.listed())
    bucket.touch_metadata()
    assert refresh_commit(state, bucket.listed(), NOON) is None

    bucket.overwrite()
    assert refresh_commit(state, bucket.listed(), NOON) is not None


def test_gcs_object_in_an_older_log_is_the_same_file() -> None:
    bucket = Bucket()
    (file,) = bucket.listed().values()
    modified_ns = int(bucket.updated.timestamp()) * 1_000_000_000
    etag = f"{bucket.generation}/{bucket.metageneration}"
    before = FolderFile(file.path, file.size_bytes, modified_ns, etag)
    state = after(EMPTY, {file.path: before})
    assert state.files == {file.path: before}
    assert refresh_commit(state, bucket.listed(), NOON) is None

    bucket.overwrite()
    state = after(state, bucket.listed())
    assert state.version == 2
    assert refresh_commit(state, bucket.listed(), NOON) is None
