"""Files of any store, through fsspec. Only this module opens files."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime, timedelta
from functools import reduce
from itertools import chain
from typing import IO, Any, TypeVar, cast

import pyarrow.compute as pc
import pyarrow.parquet as pq
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from ...core.folders.folder_log import FolderFile
from .listings import (
    files_below,
    lists_in_order,
    local_files_below,
    names_in_order,
    sizes_in_order,
)
from .schemes import check_scheme
from .store_options import fsspec_options
from .uris import SCHEMES, join

_LOCAL = ("/", "file:")

_Found = TypeVar("_Found")
# A request to an object store takes about 50 ms.
_AT_ONCE = 16
# s3fs raises these for a refused condition (412) or for two such writes at once (409), if the
# store's answer has no details. It raises them for other failures too, so the engine checks whether
# the file exists.
_MAYBE_TAKEN = (errno.EINVAL, errno.EBUSY, errno.EIO)
_TRIES = 3
# From this number of files on, a listing may take fewer requests than one for each file.
_LISTED = 1_000


class Files:
    """Reads, lists and writes files by their URI or absolute path.

    :param options: how to reach the store, by the names of delta-rs or of fsspec
    """

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self._options = dict(options or {})

    def read(self, uri: str) -> bytes:
        """The content of a file; raises ``FileNotFoundError``."""
        filesystem, path = self._open(uri)
        return bytes(filesystem.cat_file(path))

    def opened(self, uri: str, block_bytes: int) -> AbstractContextManager[IO[bytes]]:
        """Open a file to read it from its beginning.

        :param block_bytes: how many bytes each request reads
        :raises FileNotFoundError: it does not exist; raised by this call or on entering the context
        """
        filesystem, path = self._open(uri)
        opened = filesystem.open(path, "rb", block_size=block_bytes)
        return cast(AbstractContextManager[IO[bytes]], opened)

    def read_each(self, uris: Iterable[str]) -> dict[str, bytes]:
        """The contents of files, several fetched at once; raises ``FileNotFoundError``."""
        return each(self.read, uris)

    def read_below(self, folder: str, names: Sequence[str]) -> list[bytes]:
        """The contents of files in a folder, fetched together if the store can do that.

        :raises FileNotFoundError: one of them does not exist
        """
        filesystem, path = self._open(folder)
        if isinstance(filesystem, LocalFileSystem):
            # There may be many small files, and fsspec's overhead for each takes longer than the
            # read.
            return [_content(f"{path}/{name}") for name in names]
        found = filesystem.cat_ranges([join(path, name) for name in names], None, None)
        for content in found:
            if isinstance(content, Exception):
                raise content
        return [bytes(content) for content in found]

    def read_parquet(self, uri: str, columns: list[str]) -> list[dict[str, Any]]:
        """The rows of a Parquet file that have a value in one of ``columns``. The rows have only
        those of ``columns`` that the file has. Each other row costs at most one bit.
        """
        filesystem, path = self._open(uri)
        rows: list[dict[str, Any]] = []
        with filesystem.open(path, "rb") as handle:
            file = pq.ParquetFile(handle)
            present = [name for name in columns if name in file.schema_arrow.names]
            for batch in file.iter_batches(columns=present) if present else ():
                has_one = reduce(pc.or_, map(pc.is_valid, batch.columns))
                rows.extend(batch.filter(has_one).to_pylist())
        return rows

    def names(self, uri: str, *, after: str = "") -> list[str]:
        """The names in a folder that sort after ``after``, sorted.

        :raises FileNotFoundError: there is no such folder; if ``after`` is given, some stores do
            not report this
        """
        filesystem, path = self._open(uri)
        found: Iterable[str]
        if isinstance(filesystem, LocalFileSystem) and os.path.isdir(path):
            # A log has thousands of files: fsspec's overhead for each takes longer than the
            # listing.
            found = os.listdir(path)
        elif after and lists_in_order(filesystem, path):
            found = names_in_order(filesystem, path, after)
        else:
            found = (entry.rstrip("/").rsplit("/", 1)[-1] for entry in filesystem.ls(path, False))
        return sorted(name for name in found if name > after)

    def modified(self, uri: str) -> datetime:
        """When a file was last written; raises ``FileNotFoundError``."""
        filesystem, path = self._open(uri)
        return _modified(filesystem, path)

    def modified_below(self, folder: str, names: Sequence[str]) -> list[datetime]:
        """When files in a folder were last written, from one listing if the store gives one.

        :raises FileNotFoundError: one of them does not exist
        """
        filesystem, path = self._open(folder)
        filesystem.ls(path, True)
        return [_modified(filesystem, join(path, name)) for name in names]

    def exists(self, uri: str) -> bool:
        """Whether there is a file or folder."""
        if uri.startswith("/"):
            # fsspec's overhead takes longer than the answer of the disk.
            return os.path.lexists(uri)
        filesystem, path = self._open(uri)
        return bool(filesystem.exists(path))

    def has_file(self, uri: str) -> bool:
        """Whether there is a file that is not empty, by one request. :meth:`exists` may also list,
        in case it is a folder, which costs ten times as much on S3.
        """
        if uri.startswith("/"):
            return os.path.lexists(uri)
        filesystem, path = self._open(uri)
        try:
            filesystem.cat_file(path, start=0, end=1)
        except FileNotFoundError:
            return False
        return True

    def is_local(self, uri: str) -> bool:
        """Whether a file is on a disk of this machine, or is mounted like one."""
        return isinstance(self._open(uri)[0], LocalFileSystem)

    def sizes(self, uris: Iterable[str]) -> dict[str, int | None]:
        """The sizes of files in bytes, several read at once; ``None`` if there is no such file."""
        wanted = set(uris)
        listed = self._listed_sizes(wanted)
        return listed | each(self._size, wanted - listed.keys())

    def write(self, uri: str, content: bytes) -> None:
        """Write a whole file. A reader sees either all of it or no file."""
        filesystem, path = self._open(uri)
        filesystem.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
        draft = f"{path}.{uuid.uuid4().hex}.draft"
        filesystem.pipe_file(draft, content)
        filesystem.mv(draft, path)

    def create(self, uri: str, content: bytes) -> bool:
        """Write a whole file if it does not exist. Returns whether this call wrote it. Of several
        concurrent calls, exactly one writes the file. Local disks, S3, GCS, ADLS and the memory
        store guarantee this.
        """
        filesystem, path = self._open(uri)
        filesystem.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
        if isinstance(filesystem, LocalFileSystem):
            return _linked(path, content)
        for tries_left in reversed(range(_TRIES)):
            try:
                filesystem.pipe_file(path, content, mode="create")
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in _MAYBE_TAKEN:
                    raise
                if self.exists(uri):
                    return False
                if not tries_left:
                    raise
            else:
                break
        return True

    def claim(self, uri: str, content: bytes) -> bool:
        """Like :meth:`create`, for content that no other call writes. The result is true for a file
        that this call wrote, even if the store's answer was lost.
        """
        try:
            is_new = self.create(uri, content)
        except Exception:
            if self._holds(uri, content):
                return True
            raise
        # If a client repeats a request, the store can refuse the second attempt because of the
        # first.
        return is_new or self._holds(uri, content)

    def below(self, folder: str) -> list[FolderFile]:
        """The files in a folder and in all folders below it, without hidden ones.

        :raises FileNotFoundError: there is no such folder, if the store has folders
        :raises NotADirectoryError: it is a file, if the store has folders
        """
        filesystem, path = self._open(folder)
        if isinstance(filesystem, LocalFileSystem):
            return local_files_below(path)
        return files_below(filesystem, path)

    def remove(self, uri: str) -> None:
        """Remove a file or a whole folder; does nothing if there is no such file."""
        filesystem, path = self._open(uri)
        if filesystem.exists(path):
            filesystem.rm(path, recursive=True)

    def remove_if_empty(self, folder: str) -> None:
        """Remove a folder if it and all folders below it hold no file. A file that is written
        during the call stays.
        """
        filesystem, path = self._open(folder)
        marks = filesystem.find(path) if filesystem.exists(path) else []
        if any(not name.endswith("/") for name in marks):
            return
        for mark in marks:
            # Hadoop writes an object that marks a folder. Remove this object, and no other object
            # below it.
            filesystem.rm_file(mark)
        # A real folder that is no longer empty is not removed.
        with suppress(OSError, NotImplementedError):
            for name, _, _ in filesystem.walk(path, topdown=False) if not marks else ():
                filesystem.rmdir(name)

    def remove_at_once(self, uri: str, *, moved_to: str) -> None:
        """Remove a folder of one file so that no reader finds it empty; raises
        ``FileNotFoundError``.

        :param moved_to: its name on a local disk during the removal; object stores have no empty
            folders
        """
        filesystem, path = self._open(uri)
        if not isinstance(filesystem, LocalFileSystem):
            filesystem.rm(path, recursive=True)
            return
        filesystem.mv(path, self._open(moved_to)[1], recursive=True)
        self.remove(moved_to)

    def remove_table(self, root: str) -> None:
        """Remove a Delta table, its newest commit first. If the call is interrupted, an older
        version of the table remains, or no table remains.
        """
        self.remove_log(root)
        self.remove(root)

    def remove_log(self, root: str) -> None:
        """Remove the commits of a Delta table, the newest first."""
        log = join(root, "_delta_log")
        names = self.names(log) if self.exists(log) else []
        for name in sorted(names, reverse=True):
            if name.endswith(".json"):
                self.remove(join(log, name))

    def remove_all_but(self, folder: str, kept: str) -> None:
        """Remove everything in a folder except ``kept``."""
        for name in self.names(folder):
            if name != kept:
                self.remove(join(folder, name))

    def _holds(self, uri: str, content: bytes) -> bool:
        try:
            return self.read(uri) == content
        except FileNotFoundError:
            return False

    def _listed_sizes(self, uris: Collection[str]) -> dict[str, int | None]:
        """The sizes of those of ``uris`` that have many others in their folder, by listing it.

        A listing is given up when it has taken as many requests as a request for each file would
        take one after the other. It may leave files out.
        """
        folders: dict[str, set[str]] = {}
        for uri in uris:
            folder, _, name = uri.rpartition("/")
            folders.setdefault(folder, set()).add(name)
        found: dict[str, int | None] = {}
        for folder, names in folders.items():
            if len(names) < _LISTED or folder.startswith(_LOCAL):
                continue
            filesystem, path = self._open(folder)
            if lists_in_order(filesystem, path):
                sizes = sizes_in_order(filesystem, path, names, len(names) // _AT_ONCE)
                found |= {f"{folder}/{name}": size for name, size in sizes.items()}
        return found

    def _size(self, uri: str) -> int | None:
        try:
            if uri.startswith(_LOCAL):
                # There may be a million files, and fsspec's overhead for each takes longer.
                return os.stat(LocalFileSystem._strip_protocol(uri)).st_size
            filesystem, path = self._open(uri)
            return int(filesystem.info(path)["size"])
        except FileNotFoundError:
            return None

    def _open(self, uri: str) -> tuple[Any, str]:
        scheme, colon, rest = uri.partition(":")
        if colon and scheme in SCHEMES:
            scheme = SCHEMES[scheme]
            uri = f"{scheme}:{rest}"
        if not uri.startswith(_LOCAL):
            check_scheme(uri)
        filesystem, path = url_to_fs(uri, **fsspec_options(self._options, scheme))
        # Each read of a log has to see the newest files.
        filesystem.invalidate_cache()
        return filesystem, path


def _content(path: str) -> bytes:
    # For a small file, creating Python's file object takes longer than reading the content.
    file = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(file).st_size
        content = os.read(file, size + 1)
        if len(content) == size:
            return content
    finally:
        os.close(file)
    # The file is being written, or is so large that one call reads only a part of it.
    with open(path, "rb") as whole:
        return whole.read()


def _linked(path: str, content: bytes) -> bool:
    """Write ``path`` under another name first, so that a reader sees all of it."""
    draft = f"{path}.{uuid.uuid4().hex}.draft"
    try:
        with open(draft, "xb") as handle:
            handle.write(content)
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)
    return True


def _modified(filesystem: Any, path: str) -> datetime:
    if isinstance(filesystem, LocalFileSystem):
        # Hadoop rounds down. fsspec rounds to the nearest.
        microseconds = os.stat(path).st_mtime_ns // 1000
        return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=microseconds)
    moment: datetime = filesystem.modified(path)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def each(work: Callable[[str], _Found], uris: Iterable[str]) -> dict[str, _Found]:
    """The results of ``work`` for each of ``uris``, several at once."""
    wanted = sorted(set(uris))

    # Each thread gets a fixed share, because passing on the items one by one takes longer than
    # reading a local file.
    shares = [wanted[first::_AT_ONCE] for first in range(min(_AT_ONCE, len(wanted)))]

    def of_share(share: Sequence[str]) -> list[tuple[str, _Found]]:
        return [(uri, work(uri)) for uri in share]

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return dict(chain.from_iterable(pool.map(of_share, shares)))
