"""Lists the files below a folder, with the marks that distinguish two versions of a file."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from fsspec.asyn import AsyncFileSystem
from fsspec.spec import AbstractFileSystem

from ...core.delta.file_paths import is_hidden
from ...core.folders.folder_log import FolderFile, Former

# GCS's names for the version of an object and for the time at which it was written. Its other marks
# and times also change with the object's metadata, such as when a rule moves it to a cheaper
# storage class.
_GENERATION, _GENERATED = "generation", "timeCreated"
# The names of other stores for the time of the last write, and for their mark of the content.
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "modified", "created")
_MARKS = ("ETag", "etag", "md5Hash", "content_md5", "checksum")
# The suffix of S3's directory buckets, which do not list names in order.
_DIRECTORY_BUCKET = "--x-s3"
_EPOCH = datetime.fromtimestamp(0, UTC)


def local_files_below(root: str) -> list[FolderFile]:
    """The files below a local folder. A folder that cannot be read is an error, not an empty
    folder. A file that is removed during the listing is left out. Links are followed, except links
    that lead back to a folder above them.

    :raises FileNotFoundError: there is no such folder
    """
    while True:
        before = _identity(root)
        found = list(_scanned(root, "", frozenset()))
        # If another folder replaced this one during the listing, files that are in both would seem
        # to be missing.
        if _identity(root) == before:
            return found


def files_below(filesystem: Any, root: str) -> list[FolderFile]:
    """The files below a folder of any other store.

    :raises FileNotFoundError: there is no such folder, if the store has folders
    :raises NotADirectoryError: it is a file, if the store has folders
    """
    base = root.rstrip("/") + "/"
    found = []
    for path, info in _found(filesystem, root):
        relative = path.removeprefix(base)
        if path.startswith(base) and not any(map(is_hidden, relative.split("/"))):
            found.append(_folder_file(relative, info))
    return found


def lists_in_order(filesystem: Any, folder: str) -> bool:
    """Whether a store can list the names in a folder that sort after a given one: S3 can, except in
    its directory buckets.
    """
    protocols = filesystem.protocol
    if "s3" not in ((protocols,) if isinstance(protocols, str) else protocols):
        return False
    return not filesystem.split_path(folder)[0].endswith(_DIRECTORY_BUCKET)


def names_in_order(filesystem: Any, folder: str, after: str) -> Iterator[str]:
    """The names in a folder of such a store that sort after ``after``. The store does not list the
    other names. A whole listing needs a request for each thousand names.
    """
    for page in _pages(filesystem, folder, after):
        yield from (name.rstrip("/") for name, _ in page)


def sizes_in_order(
    filesystem: Any, folder: str, names: Collection[str], most_pages: int
) -> dict[str, int]:
    """The sizes in bytes of those of ``names`` that the first ``most_pages`` requests to such a
    store find. A name that is left out may exist.
    """
    first, last = min(names), max(names)
    found: dict[str, int] = {}
    # Listing begins after a name. Without its last character it sorts before the first name.
    for page in islice(_pages(filesystem, folder, first[:-1]), most_pages):
        found |= {name: size for name, size in page if size is not None and name in names}
        if page and page[-1][0] >= last:
            break
    return found


def _pages(filesystem: Any, folder: str, after: str) -> Iterator[list[tuple[str, int | None]]]:
    """The names and the sizes of each page, in order; a folder has no size and ends in a slash."""
    bucket, key, _ = filesystem.split_path(folder)
    prefix = key.rstrip("/") + "/"
    asked = {"Bucket": bucket, "Prefix": prefix, "Delimiter": "/", "StartAfter": prefix + after}
    while True:
        page = filesystem.call_s3("list_objects_v2", **asked, **filesystem.req_kw)
        found = [
            (item["Prefix"].removeprefix(prefix), None) for item in page.get("CommonPrefixes", ())
        ]
        found += [
            (item["Key"].removeprefix(prefix), item["Size"]) for item in page.get("Contents", ())
        ]
        yield sorted(found)
        if not page.get("IsTruncated"):
            return
        asked["ContinuationToken"] = page["NextContinuationToken"]


def _found(filesystem: Any, root: str) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """The path of each file, and what the store reports for it.

    If a store cannot list everything below a folder at once, fsspec walks the folders. It treats
    folders that cannot be listed as empty. This function raises the error instead.
    """
    kind = type(filesystem)
    own = kind.find is not AbstractFileSystem.find
    if own or getattr(kind, "_find", AsyncFileSystem._find) is not AsyncFileSystem._find:
        found: Mapping[str, Mapping[str, Any]] = filesystem.find(root, detail=True)
        return found.items()
    return _walked(filesystem, filesystem._strip_protocol(root), is_root=True)


def _walked(
    filesystem: Any, folder: str, *, is_root: bool = False
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        listed = filesystem.ls(folder, detail=True)
    except FileNotFoundError:
        if is_root or filesystem.exists(folder):
            raise
        # The folder was removed while the folder above it was listed.
        return
    for info in listed:
        path = info["name"].rstrip("/")
        if path == folder and info["type"] != "directory" and is_root:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder)
        if info["type"] != "directory":
            yield info["name"], info
        elif path != folder:
            yield from _walked(filesystem, path)


def _folder_file(path: str, info: Mapping[str, Any]) -> FolderFile:
    size_bytes = int(info["size"] or 0)
    mark = next((str(info[name]) for name in _MARKS if info.get(name)), None)
    modified_ns = _nanoseconds(next((info[name] for name in _TIMES if _has_value(info, name)), 0))
    if not (_has_value(info, _GENERATION) and _has_value(info, _GENERATED)):
        return FolderFile(path, size_bytes, modified_ns, mark)
    generated_ns = _nanoseconds(info[_GENERATED])
    generation = str(info[_GENERATION])
    return FolderFile(path, size_bytes, generated_ns, generation, Former(modified_ns, mark))


def _scanned(folder: str, prefix: str, above: frozenset[tuple[int, int]]) -> Iterator[FolderFile]:
    identity = _identity(folder)
    if identity in above:
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if is_hidden(entry.name):
                continue
            try:
                known = entry.stat()
                if stat.S_ISREG(known.st_mode):
                    path = prefix + entry.name
                    yield FolderFile(path, known.st_size, known.st_mtime_ns, None)
                elif stat.S_ISDIR(known.st_mode):
                    yield from _scanned(entry.path, f"{prefix}{entry.name}/", above | {identity})
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno != errno.ELOOP:  # a link to itself leads nowhere
                    raise


def _identity(folder: str) -> tuple[int, int]:
    own = os.stat(folder)
    return own.st_dev, own.st_ino


def _has_value(info: Mapping[str, Any], name: str) -> bool:
    return info.get(name) is not None


def _nanoseconds(moment: Any) -> int:
    """A time from a store, in nanoseconds since 1970."""
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    if isinstance(moment, datetime):
        since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
        return ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1000
    return round(float(moment) * 1_000_000_000)
