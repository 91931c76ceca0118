"""Finds out from the newest commits of a range that it holds data.

A check of a long range does not have to read all of it. One commit with a change that no later
commit touched is enough for a yes. Unclear cases need a read of the whole range.
"""

from __future__ import annotations

from enum import Enum, auto

from ..delta.log_actions import Commit, DataFile
from ..delta.tracking import hides_rows, keeps_tracking, loses_row_ids
from ..model.stream import AppendSemantics, Stream, StreamMode
from .net_files import inserts_rows


class DataProbe(Enum):
    """What a commit shows. ``UNCLEAR`` means that only the whole range can show it."""

    DATA = auto()
    NOTHING_YET = auto()
    UNCLEAR = auto()


class HasDataScan:
    """Takes the commits of a range from the newest one backwards.

    :param stream: the stream at whose offset the range begins
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._inserts_only = stream.mode is not StreamMode.STANDARD
        self._inserts_alone = (
            stream.mode is StreamMode.APPEND_ONLY
            and stream.append_semantics is AppendSemantics.INSERTED
        )
        self._touched: set[str] = set()

    def take(self, commit: Commit) -> DataProbe:
        """What is known after ``commit``, which comes right before the commits taken so far."""
        if (
            (commit.metadata is not None and not keeps_tracking(self._stream, commit.metadata))
            or commit.protocol is not None
            or commit.operation == "RESTORE"
            or loses_row_ids(commit)
            or hides_rows(commit)
        ):
            return DataProbe.UNCLEAR
        if self._stream.mode is StreamMode.FEED:
            # A later commit takes nothing back: each change is returned.
            return DataProbe.DATA if commit.changes_data else DataProbe.NOTHING_YET
        removed = {file.path: file for file in commit.removes}
        added = {file.path for file in commit.adds}
        if any(self._adds_data(file, commit, removed.get(file.path)) for file in commit.adds):
            return DataProbe.DATA
        if any(self._removes_data(file, added) for file in commit.removes):
            return DataProbe.DATA
        self._touched |= removed.keys() | added
        return DataProbe.NOTHING_YET

    def _adds_data(self, file: DataFile, commit: Commit, before: DataFile | None) -> bool:
        if not file.data_change or file.base_row_id is None:
            return False
        has_new_rows = file.default_row_commit_version == commit.version
        if self._inserts_only and not inserts_rows(commit):
            return False
        if self._inserts_alone:
            return has_new_rows
        if file.path in self._touched:
            return False
        has_new_vector = before is not None and before.deletion_vector != file.deletion_vector
        return has_new_rows or (has_new_vector and not self._inserts_only)

    def _removes_data(self, file: DataFile, added: set[str]) -> bool:
        if self._inserts_only or not file.data_change:
            return False
        if file.path in self._touched or file.path in added:
            return False
        version = file.default_row_commit_version
        return version is not None and version <= self._stream.offset.version
