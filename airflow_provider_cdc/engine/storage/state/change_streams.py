"""The change streams of a state folder, each in a log of its states."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

from ...core.change_streams.definition import ChangeStream
from ...core.errors import StreamExists, StreamNotFound
from ...core.names import name_key, stream_name
from ...core.near_names import near_names
from ..files.stores import Files
from ..files.uris import join
from .state_log import StateLog

_NOT_PLAIN = re.compile(r"\W+", re.ASCII)
_READABLE_CHARACTERS = 60
_DIGEST_CHARACTERS = 16


class ChangeStreams:
    """Reads and changes the states of change streams, without a JVM.

    :param state: the state folder
    """

    def __init__(self, state: str, files: Files) -> None:
        self._root = join(state, "change_streams")
        self._files = files

    def find(self, name: str) -> ChangeStream | None:
        """The change stream of that name; ``None``: there is no such change stream.

        :raises InvalidName: the name is not valid
        :raises StreamUnreadable: it cannot be read
        """
        entry = self._log(stream_name(name)).newest()
        return None if entry is None or entry.state.is_dropped else entry.state

    def get(self, name: str) -> ChangeStream:
        """The change stream of that name.

        :raises StreamNotFound: there is no such change stream; the error suggests similar names
        """
        found = self.find(name)
        if found is None:
            raise self._missing(name)
        return found

    def all(self) -> list[ChangeStream]:
        """All change streams, by name."""
        try:
            folders = self._files.names(self._root)
        except FileNotFoundError:
            folders = []
        entries = [self._log_in(folder, folder).newest() for folder in folders]
        found = [entry.state for entry in entries if entry is not None]
        return sorted((each for each in found if not each.is_dropped), key=lambda each: each.name)

    def create(self, stream: ChangeStream, replaced: ChangeStream | None) -> ChangeStream:
        """Record a new change stream.

        :param replaced: the one that had the name, as the caller knows it
        :raises StreamExists: another one has the name
        """

        def begun(known: ChangeStream | None) -> ChangeStream:
            if known is None or known.is_dropped:
                return stream
            if replaced is None or known.stream_id != replaced.stream_id:
                raise exists(known)
            return stream

        return self._log(stream.name).update(begun)

    def update(self, name: str, change: Callable[[ChangeStream], ChangeStream]) -> ChangeStream:
        """Record what ``change`` makes of a change stream; see :meth:`StateLog.update`.

        :raises StreamNotFound: there is no such change stream
        """

        def changed(known: ChangeStream | None) -> ChangeStream:
            if known is None or known.is_dropped:
                raise self._missing(name)
            return change(known)

        return self._log(stream_name(name)).update(changed)

    def folder_of(self, stream: ChangeStream) -> str:
        """Where the tables of a change stream are."""
        return join(self._root, _folder_name(stream.name), stream.stream_id)

    def _log(self, name: str) -> StateLog[ChangeStream]:
        return self._log_in(_folder_name(name), name)

    def _log_in(self, folder: str, name: str) -> StateLog[ChangeStream]:
        return StateLog(
            f"change stream {name}", join(self._root, folder, "states"), ChangeStream, self._files
        )

    def _missing(self, name: str) -> StreamNotFound:
        names = [stream.name for stream in self.all()]
        near = near_names(name, names)
        fix = f"did you mean {' or '.join(near)}" if near else "create it with create_change_stream"
        return StreamNotFound(
            f"change stream {name}",
            "does not exist",
            cause="it was never created, or it was dropped",
            fix=fix,
        )


def exists(stream: ChangeStream) -> StreamExists:
    """The error of a creation whose name ``stream`` has already."""
    return StreamExists(
        stream.subject,
        "exists already",
        cause=f"{stream.owner} created it",
        fix="choose another name, drop it first, or pass or_replace=True",
    )


def _folder_name(name: str) -> str:
    """A folder for a name. Two spellings of one name have the same folder."""
    key = name_key(name)
    readable = _NOT_PLAIN.sub("_", key)[:_READABLE_CHARACTERS]
    digest = hashlib.sha256(key.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    return f"{readable}_{digest}"
