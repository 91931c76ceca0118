"""The logs of folders of files, kept below the state folder. Each process that reads a folder
refreshes its log.

A refresh lists the folder and writes the difference as the next version. A version can be written
only once. If several processes refresh at once, one writes the version and the others begin again.
Each process reads the log before it lists the folder, so a version never shows an older listing
than the previous version.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime

import msgspec

from ...clock import utc_now
from ...core.delta.file_paths import folder_key, name_pattern
from ...core.delta.log_actions import parse_commit
from ...core.errors import FilesChanged, NotADeltaTable, StreamConflict, StreamUnusable
from ...core.folders.folder_log import FolderFile, FolderState, first_commit, fold, refresh_commit
from ...core.model.json_text import from_json, to_json
from ...core.model.sources import Folder
from ...core.model.stream import Stream
from ..delta.delta_log import DeltaLog
from ..files.stores import Files
from ..files.uris import SCHEMES, join

_TRIES = 20
# A refresh reads the snapshot and the commits after it. Commits are slower to read than snapshots.
_COMMITS_WITHOUT_SNAPSHOT = 10
_FILES_WITHOUT_SNAPSHOT = 1000
_SNAPSHOTS = "snapshots"


def log_location(state: str, uri: str, name_glob: str | None) -> str:
    """The location of the log of a folder. All streams of the folder with the same glob share this
    log.
    """
    key = folder_key(uri, name_glob, SCHEMES)
    return join(state, "folders", hashlib.sha256(key.encode()).hexdigest()[:32])


class FolderLogs:
    """Reads folders and writes their logs. It does not need Spark.

    :param clock: gives the time of new versions
    """

    def __init__(self, files: Files, clock: Callable[[], datetime] = utc_now) -> None:
        self._files = files
        self._clock = clock

    def open(self, location: str, folder: Folder) -> FolderState:
        """The log of ``folder`` at ``location``, created if it does not exist, and refreshed.

        :raises StreamUnusable: there is no such folder
        """
        try:
            DeltaLog(location, self._files).latest_version()
        except NotADeltaTable:
            content = first_commit(str(uuid.uuid4()), folder.uri, self._clock())
            self._files.create(_commit_of(location, 0), content)
        return self._refreshed(f"folder {folder.uri}", location, folder)

    def refresh(self, stream: Stream) -> None:
        """Write the new and the removed files of the folder of ``stream`` to its log. The call does
        nothing for a stream that is not on a folder.

        :raises StreamUnusable: the folder is missing
        :raises StreamConflict: other processes refreshed it first, several times in a row
        """
        if stream.folder is not None:
            with suppress(NotADeltaTable):  # The reader of the log reports it.
                self._refreshed(f"stream {stream.name}", stream.source.location, stream.folder)

    def check_unchanged(self, stream: Stream, expected: Iterable[FolderFile]) -> None:
        """Refuse files of the folder of ``stream`` that differ from its log.

        :raises FilesChanged: names the first of them
        """
        assert stream.folder is not None
        wanted = list(expected)
        found = self._listed(f"stream {stream.name}", stream.folder) if wanted else {}
        changed = [
            file
            for file in wanted
            if file.path not in found or not found[file.path].is_listed_as(file)
        ]
        if changed:
            first = changed[0]
            state = "missing" if first.path not in found else "a different file than the listed one"
            raise FilesChanged(
                f"stream {stream.name}",
                "cannot be read, files were overwritten or removed during the read",
                cause=f"{len(changed)} of {len(wanted)} changed, {first.path} is {state}",
                fix="consume again: an overwritten file counts as a new file in the next listing;"
                " write files under a name that begins with a dot and rename them when complete",
            )

    def _refreshed(self, subject: str, location: str, folder: Folder) -> FolderState:
        for _ in range(_TRIES):
            state = self._state(location)
            found = self._listed(subject, folder)
            content = refresh_commit(state, found, self._clock())
            if content is None:
                return state
            version = state.version + 1
            # If the content cannot be read back, this line fails, before the content is written.
            refreshed = fold(state, [parse_commit(version, content)])
            if self._files.create(_commit_of(location, version), content):
                return refreshed
        raise StreamConflict(
            subject,
            f"cannot be listed, the log of {folder.uri} kept changing",
            cause=f"other processes refreshed it first, {_TRIES} times in a row",
            fix="try again",
        )

    def _listed(self, subject: str, folder: Folder) -> dict[str, FolderFile]:
        """The files in ``folder`` now, by path. Empty files hold no rows and are left out."""
        pattern = None if folder.name_glob is None else name_pattern(folder.name_glob)
        try:
            found = self._files.below(folder.uri)
        except (FileNotFoundError, NotADirectoryError):
            raise StreamUnusable(
                subject,
                f"cannot list {folder.uri}",
                cause="expected a folder, found none",
                fix="bring the folder back, or drop the stream; no file was recorded as removed",
            ) from None
        except PermissionError as error:
            raise StreamUnusable(
                subject,
                f"cannot list all of {folder.uri}",
                cause=f"this process may not read {error.filename or folder.uri}",
                fix="let it list that folder; no file was recorded as removed",
            ) from None
        unreadable = [file.path for file in found if not _is_text(file.path)]
        if unreadable:
            raise StreamUnusable(
                subject,
                f"cannot read all of {folder.uri}",
                cause=f"{len(unreadable)} names are not UTF-8, the first is {unreadable[0]!r}",
                fix="rename the file, or its folder; no file was skipped",
            )
        return {
            file.path: file
            for file in found
            if file.size_bytes
            and (pattern is None or pattern.fullmatch(file.path.rpartition("/")[2]))
        }

    def _state(self, location: str) -> FolderState:
        log = DeltaLog(location, self._files)
        newest = log.latest_version()
        snapshot = self._snapshot(location, newest)
        begin = -1 if snapshot is None else snapshot.version
        commits = list(log.commits(after=begin, through=newest))
        state = fold(snapshot, commits)
        changes = sum(len(commit.adds) + len(commit.removes) for commit in commits)
        # If the folder has many more files, a refresh that finds many does not write a snapshot
        # each time.
        most = max(_FILES_WITHOUT_SNAPSHOT, len(state.files) // 4)
        if len(commits) >= _COMMITS_WITHOUT_SNAPSHOT or changes >= most:
            self._write_snapshot(location, state)
        return state

    def _snapshot(self, location: str, newest: int) -> FolderState | None:
        for name in reversed(self._snapshots(location)):
            if int(name.partition(".")[0]) <= newest:
                # If no snapshot can be read, the state is read from the log. Snapshots are made
                # from the log.
                with suppress(FileNotFoundError, msgspec.MsgspecError):
                    return from_json(
                        self._files.read(join(location, _SNAPSHOTS, name)), FolderState
                    )
        return None

    def _write_snapshot(self, location: str, state: FolderState) -> None:
        older = self._snapshots(location)
        name = f"{state.version:020d}.json"
        self._files.write(join(location, _SNAPSHOTS, name), to_json(state).encode())
        # Keep the previous snapshot for a process that is about to read it.
        for old in older[:-1]:
            with suppress(FileNotFoundError):
                self._files.remove(join(location, _SNAPSHOTS, old))

    def _snapshots(self, location: str) -> list[str]:
        try:
            names = self._files.names(join(location, _SNAPSHOTS))
        except FileNotFoundError:
            return []
        return [name for name in names if name.endswith(".json")]


def _is_text(path: str) -> bool:
    """Whether all bytes of ``path`` are characters. Local disks allow other bytes."""
    return path.isascii() or not any("\ud800" <= character <= "\udfff" for character in path)


def _commit_of(location: str, version: int) -> str:
    return join(location, "_delta_log", f"{version:020d}.json")
