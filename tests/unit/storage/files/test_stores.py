"""Files of a store, several at once."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.files.uris import encoded_uri, hadoop_uri


@pytest.fixture
def names(tmp_path: Path) -> list[str]:
    """Forty files, more than the engine opens at once."""
    found = [str(tmp_path / f"file {number}") for number in range(40)]
    for name in found:
        Path(name).write_text(name, encoding="utf-8")
    return found


def test_each_of_many_files_is_read_under_its_own_name(names: list[str]) -> None:
    assert Files().read_each(reversed(names)) == {name: name.encode() for name in names}


def test_missing_file_fails_the_read_of_all_files(names: list[str]) -> None:
    Path(names[7]).unlink()
    with pytest.raises(FileNotFoundError):
        Files().read_each(names)


def test_sizes_are_returned_and_missing_files_have_no_size(names: list[str]) -> None:
    Path(names[2]).unlink()
    expected = {name: len(name.encode()) for name in names} | {names[2]: None}

    assert Files().sizes([*names, names[0]]) == expected


def test_sizes_of_local_uris_follow_links_and_take_names_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "ä %20 b").write_text("four")
    (tmp_path / "link").symlink_to(tmp_path / "ä %20 b")
    (tmp_path / "broken").symlink_to(tmp_path / "nothing")
    uris = [f"file://{tmp_path}/{name}" for name in ("ä %20 b", "link", "broken")]

    assert Files().sizes(uris) == dict(zip(uris, (4, 4, None), strict=True))


def test_empty_request_returns_no_sizes_and_no_contents() -> None:
    assert Files().sizes([]) == {}
    assert Files().read_each([]) == {}


@pytest.mark.parametrize(
    ("location", "uri"),
    [
        ("/a b/t#1?/100%", "file:/a%20b/t%231%3F/100%25"),
        ("/täble 日本/it's{x}[y]", "file:/täble%20日本/it's%7Bx%7D%5By%5D"),
        ("/a%20b/new\\slash", "file:/a%2520b/new%5Cslash"),
        ("s3://bucket/p=a b/ü", "s3://bucket/p=a%20b/ü"),
    ],
)
def test_path_is_encoded_as_hadoop_encodes_it(location: str, uri: str) -> None:
    assert hadoop_uri(encoded_uri(location)) == uri
    assert hadoop_uri(uri) == uri


def test_partly_removed_table_is_at_an_earlier_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "t" / "_delta_log"
    log.mkdir(parents=True)
    for version in range(3):
        (log / f"{version:020d}.json").write_text("{}")
    (tmp_path / "t" / "data.parquet").write_text("x")
    files = Files()
    removed: list[str] = []

    def cut_off(uri: str) -> None:
        if len(removed) == 2:
            raise InterruptedError
        removed.append(uri)
        Path(uri).unlink()

    with monkeypatch.context() as patch:
        patch.setattr(files, "remove", cut_off)
        with pytest.raises(InterruptedError):
            files.remove_table(str(tmp_path / "t"))
    assert [file.name for file in log.iterdir()] == [f"{0:020d}.json"]
    assert (tmp_path / "t" / "data.parquet").exists()

    files.remove_table(str(tmp_path / "t"))
    assert not (tmp_path / "t").exists()
    files.remove_table(str(tmp_path / "t"))


def test_folder_is_removed_only_if_no_subfolder_holds_a_file(tmp_path: Path) -> None:
    (tmp_path / "t" / "_delta_log" / "_staged_commits").mkdir(parents=True)
    (tmp_path / "u" / "a").mkdir(parents=True)
    (tmp_path / "u" / "b").mkdir()
    (tmp_path / "u" / "b" / "file").write_text("x")

    for name in ("t", "u", "none"):
        Files().remove_if_empty(str(tmp_path / name))

    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b", "file", "u"]


def test_store_options_do_not_prevent_access_to_local_files(tmp_path: Path) -> None:
    files = Files({"AWS_SECRET_ACCESS_KEY": "hidden", "AWS_CONDITIONAL_PUT": "etag"})
    files.write(str(tmp_path / "a"), b"content")

    assert files.read((tmp_path / "a").as_uri()) == b"content"


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_store_is_opened_with_the_option_names_of_fsspec(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[tuple[str, dict[str, Any]]] = []

    def url_to_fs(uri: str, **options: Any) -> tuple[MemoryFileSystem, str]:
        opened.append((uri, options))
        return MemoryFileSystem(), uri

    monkeypatch.setattr("airflow_provider_cdc.engine.storage.files.stores.url_to_fs", url_to_fs)

    Files({"AWS_ACCESS_KEY_ID": "me", "AWS_ALLOW_HTTP": "true"}).exists(f"{scheme}://bucket/a")

    assert opened == [("s3://bucket/a", {"key": "me", "max_concurrency": 1})]


@pytest.fixture
def store() -> Iterator[Store]:
    """A store whose answers to the creation of a file are set by the test."""
    yield Store()
    MemoryFileSystem.store.clear()


class Store(Files):
    """Raises ``answers`` at the first creations, and then works normally."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[Exception] = []
        self.lands = True

    def _open(self, uri: str) -> tuple[Any, str]:
        filesystem, path = super()._open(uri)
        return Answering(self, filesystem), path


class Answering:
    def __init__(self, store: Store, filesystem: Any) -> None:
        self.store, self.filesystem = store, filesystem

    def __getattr__(self, name: str) -> Any:
        return getattr(self.filesystem, name)

    def pipe_file(self, path: str, content: bytes, mode: str) -> None:
        answer = self.store.answers.pop(0) if self.store.answers else None
        if answer is None or self.store.lands:
            self.filesystem.pipe_file(path, content, mode=mode)
        if answer is not None:
            raise answer


URI = "memory://claims/1"
UNNAMED = [
    OSError(errno.EINVAL, "At least one of the pre-conditions you specified did not hold"),
    OSError(errno.EIO, "ConditionalRequestConflict"),
    OSError(errno.EBUSY, "OperationAborted"),
]


@pytest.mark.parametrize("answer", UNNAMED)
def test_create_refused_without_a_reason_yields_to_an_existing_file(
    store: Store, answer: OSError
) -> None:
    assert Files().create(URI, b"first")
    store.answers, store.lands = [answer], False
    assert not store.create(URI, b"second")
    assert Files().read(URI) == b"first"


@pytest.mark.parametrize("answer", UNNAMED)
def test_create_refused_without_a_reason_is_retried_if_no_file_exists(
    store: Store, answer: OSError
) -> None:
    store.answers, store.lands = [answer], False
    assert store.create(URI, b"after another try")
    Files().remove(URI)

    store.answers = [answer] * 3
    with pytest.raises(OSError, match=answer.strerror):
        store.create(URI, b"x")
    assert not Files().exists(URI)


def test_create_without_permission_raises_even_if_the_file_exists(store: Store) -> None:
    assert Files().create(URI, b"first")
    store.answers, store.lands = [PermissionError(errno.EACCES, "no")], False
    with pytest.raises(PermissionError):
        store.create(URI, b"second")


@pytest.mark.parametrize("answer", [FileExistsError(URI), TimeoutError("no answer"), *UNNAMED])
def test_claim_whose_answer_was_lost_is_recognised_by_its_content(
    store: Store, answer: Exception
) -> None:
    store.answers = [answer]
    assert store.claim(URI, b"mine")
    assert not store.claim(URI, b"another")


def test_claim_that_did_not_land_raises_its_error(store: Store) -> None:
    store.answers, store.lands = [TimeoutError("no answer")], False
    with pytest.raises(TimeoutError):
        store.claim(URI, b"mine")
    assert store.claim(URI, b"another")
