"""Listing the files below a folder, with what tells one version of a file from another."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from ..core.file_paths import is_hidden
from ..core.folder_log import FolderFile

# What stores call the time of the last write, and their mark of the content.
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "modified", "created")
_MARKS = ("ETag", "etag", "md5Hash", "content_md5", "checksum")
_EPOCH = datetime.fromtimestamp(0, UTC)


def local_files_below(root: str) -> list[FolderFile]:
    """The files below a local folder. A folder that cannot be read is an error, not an empty one;
    what goes while it is listed is gone. Links are followed, but not in circles.

    :raises FileNotFoundError: there is no such folder
    """
    while True:
        before = _identity(root)
        found = list(_scanned(root, "", frozenset()))
        # Of a folder that was exchanged for another one, files that are in both would seem gone.
        if _identity(root) == before:
            return found


def files_below(filesystem: Any, root: str) -> list[FolderFile]:
    """The files below a folder of any other store."""
    base = root.rstrip("/") + "/"
    found = []
    for path, info in filesystem.find(root, detail=True).items():
        relative = path.removeprefix(base)
        if path.startswith(base) and not any(map(is_hidden, relative.split("/"))):
            mark = next((str(info[name]) for name in _MARKS if info.get(name)), None)
            found.append(FolderFile(relative, int(info["size"] or 0), _nanoseconds(info), mark))
    return found


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


def _nanoseconds(info: Mapping[str, Any]) -> int:
    """When a file was written; 0 where the store does not tell."""
    moment = next((info[name] for name in _TIMES if info.get(name) is not None), 0)
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    if isinstance(moment, datetime):
        since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
        return ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1000
    return round(float(moment) * 1_000_000_000)
