"""A log of states: each entry is a whole state, and of two writers at once, one wins.

Each entry is a file with the next number as its name. A store creates a file only once, so a writer
that has read entry 4 writes entry 5 or nothing. Old entries are removed, oldest first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ...core.errors import InvalidRequest, StreamConflict, StreamUnreadable
from ..files.stores import Files
from ..files.uris import join
from .stored_values import NotReadable, read_back, stored

State = TypeVar("State")

_DIGITS = 20
_KEPT = 100
_TRIES = 20


@dataclass(frozen=True, slots=True)
class Entry(Generic[State]):
    """An entry of a log."""

    number: int
    state: State


class StateLog(Generic[State]):
    """The log of one thing.

    :param subject: the thing, for messages
    :param folder: where its entries are
    :param kind: the dataclass of its states
    """

    def __init__(self, subject: str, folder: str, kind: type[State], files: Files) -> None:
        self._subject = subject
        self._folder = folder
        self._kind = kind
        self._files = files

    def newest(self) -> Entry[State] | None:
        """The newest entry; ``None``: the log is empty.

        :raises StreamUnreadable: it cannot be read
        """
        while (number := self._newest_number()) is not None:
            try:
                content = self._files.read(self._file(number))
            except FileNotFoundError:
                # Many entries were written since the listing.
                continue
            return Entry(number, self._decoded(content))
        return None

    def append(self, after: Entry[State] | None, state: State) -> Entry[State]:
        """Write the entry that follows ``after``.

        :param after: the newest entry as the caller knows it; ``None``: there was none
        :raises StreamConflict: somebody else wrote that entry first; nothing was written
        """
        number = 1 if after is None else after.number + 1
        content = self._encoded(state)
        if not self._files.claim(self._file(number), content):
            raise self._conflict(number)
        if after is not None and not self._files.exists(self._file(after.number)):
            # The log was shortened past this entry, so it had been written and removed.
            self._files.remove(self._file(number))
            raise self._conflict(number)
        if number % _KEPT == 0:
            self._shorten(number - _KEPT)
        return Entry(number, state)

    def update(self, change: Callable[[State | None], State]) -> State:
        """Write what ``change`` makes of the newest state; again if somebody else was faster.

        :param change: gets ``None`` if there is no entry
        :raises StreamConflict: others kept being faster
        """
        last: StreamConflict | None = None
        for _ in range(_TRIES):
            newest = self.newest()
            known = None if newest is None else newest.state
            changed = change(known)
            if changed is known:
                return changed
            try:
                return self.append(newest, changed).state
            except StreamConflict as error:
                last = error
        assert last is not None
        raise last

    def _encoded(self, state: State) -> bytes:
        content = stored(state)
        if self._decoded(content) != state:
            raise InvalidRequest(
                self._subject,
                "cannot be stored, nothing was written",
                cause="its state would be read back differently",
                fix="report this with the arguments of the call",
            )
        return content

    def _decoded(self, content: bytes) -> State:
        try:
            return read_back(content, self._kind)
        except NotReadable as error:
            cause = str(error)
        raise StreamUnreadable(
            self._subject,
            "cannot be read",
            cause=cause,
            fix="upgrade airflow-provider-cdc here to the version that wrote it, or remove the"
            f" newest file of {self._folder}",
        )

    def _newest_number(self) -> int | None:
        try:
            names = self._files.names(self._folder)
        except FileNotFoundError:
            return None
        found = [name.removesuffix(".json") for name in names if name.endswith(".json")]
        return max((int(name) for name in found if name.isdecimal()), default=None)

    def _conflict(self, number: int) -> StreamConflict:
        return StreamConflict(
            self._subject,
            "was changed by another process first; nothing was written",
            cause=f"entry {number} of {self._folder} exists already",
            fix="try again; it is safe",
        )

    def _shorten(self, through: int) -> None:
        for name in self._files.names(self._folder):
            number = name.removesuffix(".json")
            if number.isdecimal() and int(number) <= through:
                self._files.remove(join(self._folder, name))

    def _file(self, number: int) -> str:
        return join(self._folder, f"{number:0{_DIGITS}d}.json")
