"""The log of a folder of files: the files that each refresh of the log found in it.

A folder has no history, so each refresh records what it finds as a commit of a Delta log. Versions,
offsets, ranges, bounds and points in time then work for folders as they do for tables. Version 0 is
the empty folder.

Snowflake, insert-only streams: a removed file records nothing. An overwritten file, or a file with
appended data, is a new file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, unquote

from ..delta.log_actions import ROW_TRACKING_DOMAIN, Commit, DataFile

ROW_IDS_PER_FILE = 1 << 32
"""Each file has this many row ids: the row at position p has the file's first id + p. Change sets
write row ids below 2**60, so a folder can have 2**28 files in its life.
"""

# One commit in this many repeats the metadata of the table, so that a reader finds the metadata in
# few commits.
_METADATA_EVERY = 10
_FEATURES = ["domainMetadata", "inCommitTimestamp", "rowTracking"]
_PROTOCOL = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": []}
_MODIFIED, _ETAG = "modified_ns", "etag"
_FIELDS = {_MODIFIED: "long", _ETAG: "string"}
# Nothing is ever cleaned up: unread files stay listed, even if a stream waits for a long time.
_KEPT = "interval 36500 days"
_CONFIGURATION = {
    "delta.enableRowTracking": "true",
    "delta.enableInCommitTimestamps": "true",
    "delta.logRetentionDuration": _KEPT,
    "delta.deletedFileRetentionDuration": _KEPT,
}


@dataclass(frozen=True, slots=True)
class Former:
    """How an older version of this package recorded the same file."""

    modified_ns: int
    etag: str | None


@dataclass(frozen=True, slots=True)
class FolderFile:
    """A file in a listing of its folder. If any field differs, it is another file.

    ``path`` is relative to the folder. ``modified_ns`` counts nanoseconds from 1970 on, as exactly
    as the store reports them. ``etag`` is the store's tag of the content, if it has one. If an
    older version of this package took both values from another place, ``former`` holds what it
    would record.
    """

    path: str
    size_bytes: int
    modified_ns: int
    etag: str | None = None
    former: Former | None = field(default=None, compare=False)

    def is_listed_as(self, logged: FolderFile | None) -> bool:
        """Whether this is the file that a log lists as ``logged``."""
        if self == logged or logged is None or self.former is None:
            return self == logged
        before = (self.path, self.size_bytes, self.former)
        return before == (logged.path, logged.size_bytes, Former(logged.modified_ns, logged.etag))

    @classmethod
    def of(cls, file: DataFile) -> FolderFile:
        """The file that an ``add`` action of the log lists."""
        values = file.partition_values
        modified = int(values[_MODIFIED] or 0)
        return cls(unquote(file.path), file.size_bytes, modified, values.get(_ETAG))

    @property
    def modified_at(self) -> datetime:
        """The time of the last write, to the millisecond."""
        return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=self.modified_ns // 10**6)


@dataclass(frozen=True, slots=True)
class FolderState:
    """The state of the log at one version: the files by path, and what the next commit builds on.

    ``timestamp_ms`` is the version's own time in milliseconds from 1970 on.
    """

    version: int
    timestamp_ms: int
    metadata: Mapping[str, Any]
    row_id_high_water_mark: int
    files: Mapping[str, FolderFile]


def first_commit(table_id: str, folder: str, moment: datetime) -> bytes:
    """Version 0 of the log of ``folder``, which lists no file."""
    metadata = {
        "id": table_id,
        "name": folder,
        "format": {"provider": "files", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": [*map(_field, _FIELDS)]}),
        "partitionColumns": list(_FIELDS),
        "configuration": _CONFIGURATION,
        "createdTime": _milliseconds(moment),
    }
    info = _commit_info(_milliseconds(moment), "CREATE TABLE", {})
    return _lines([info, *_state_actions(metadata), _high_water_mark(-1)])


def refresh_commit(
    state: FolderState, found: Mapping[str, FolderFile], moment: datetime
) -> bytes | None:
    """The commit after ``state`` that lists the ``found`` files. ``None`` if nothing differs.

    New files are numbered in the order in which they were modified.
    """
    new = [file for path, file in found.items() if not file.is_listed_as(state.files.get(path))]
    absent = [file for path, file in state.files.items() if path not in found]
    if not new and not absent:
        return None
    version = state.version + 1
    timestamp_ms = max(_milliseconds(moment), state.timestamp_ms + 1)
    metrics = {"numAddedFiles": str(len(new)), "numRemovedFiles": str(len(absent))}
    actions: list[dict[str, Any]] = [_commit_info(timestamp_ms, "REFRESH", metrics)]
    high_water_mark = state.row_id_high_water_mark + ROW_IDS_PER_FILE * len(new)
    if version % _METADATA_EVERY == 0:
        actions.extend(_state_actions(state.metadata))
    actions.append(_high_water_mark(high_water_mark))
    new.sort(key=lambda file: (file.modified_ns, file.path))
    for number, file in enumerate(new):
        first_id = state.row_id_high_water_mark + 1 + ROW_IDS_PER_FILE * number
        actions.append(_add(file, first_id, version))
    for file in sorted(absent, key=lambda file: file.path):
        removed = {"path": quote(file.path), "size": file.size_bytes, "dataChange": True}
        actions.append({"remove": removed | {"deletionTimestamp": timestamp_ms}})
    return _lines(actions)


def fold(state: FolderState | None, commits: Iterable[Commit]) -> FolderState:
    """The state of the log after ``commits``, which follow ``state`` or begin with version 0."""
    found = FolderState(-1, 0, {}, -1, {}) if state is None else state
    files = dict(found.files)
    for commit in commits:
        for removed in commit.removes:
            files.pop(unquote(removed.path), None)
        for added in commit.adds:
            file = FolderFile.of(added)
            files[file.path] = file
        mark = commit.row_id_high_water_mark
        found = replace(
            found,
            version=commit.version,
            timestamp_ms=_milliseconds(commit.timestamp),
            metadata=found.metadata if commit.metadata is None else commit.metadata,
            row_id_high_water_mark=found.row_id_high_water_mark if mark is None else mark,
        )
    return replace(found, files=files)


def _field(name: str) -> dict[str, Any]:
    return {"name": name, "type": _FIELDS[name], "nullable": True, "metadata": {}}


def _add(file: FolderFile, first_id: int, version: int) -> dict[str, Any]:
    return {
        "add": {
            "path": quote(file.path),
            "partitionValues": {_MODIFIED: str(file.modified_ns), _ETAG: file.etag},
            "size": file.size_bytes,
            "modificationTime": file.modified_ns // 1_000_000,
            "dataChange": True,
            "baseRowId": first_id,
            "defaultRowCommitVersion": version,
        }
    }


def _commit_info(
    timestamp_ms: int, operation: str, metrics: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    return {
        "commitInfo": {
            "inCommitTimestamp": timestamp_ms,
            "timestamp": timestamp_ms,
            "operation": operation,
            "operationParameters": {},
            "operationMetrics": metrics,
        }
    }


def _state_actions(metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"protocol": _PROTOCOL | {"writerFeatures": _FEATURES}}, {"metaData": metadata}]


def _high_water_mark(row_id: int) -> dict[str, Any]:
    configuration = json.dumps({"rowIdHighWaterMark": row_id})
    domain = {"domain": ROW_TRACKING_DOMAIN, "configuration": configuration, "removed": False}
    return {"domainMetadata": domain}


def _milliseconds(moment: datetime) -> int:
    """The exact milliseconds from 1970 on. Seconds as a float are sometimes off by one."""
    since = moment - datetime.fromtimestamp(0, UTC)
    return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000


def _lines(actions: Iterable[Mapping[str, Any]]) -> bytes:
    return "\n".join(json.dumps(action, separators=(",", ":")) for action in actions).encode()
