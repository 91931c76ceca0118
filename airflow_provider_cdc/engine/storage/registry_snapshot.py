"""What the registry shows and takes: records of the past, the streams of one moment, changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches

from deltalake import DeltaTable

from ..core.errors import RegistryNotFound, StreamNotFound
from ..core.lifecycle import Transition
from ..core.model import Stream, from_json
from ..core.names import stream_key
from ..core.summaries import moment_text


@dataclass(frozen=True, slots=True)
class Record:
    """One transition of a stream: the state it led to, when, and who made it.

    All transitions of one ``transact`` share their ``nonce``.
    """

    stream: Stream
    transition: Transition
    at: datetime
    nonce: str
    actor: str

    def __repr__(self) -> str:
        made = f"{self.transition.value} {moment_text(self.at)} by {self.actor}"
        return f"<Record {made}: {repr(self.stream)[1:-1]}>"


@dataclass(frozen=True, slots=True)
class Change:
    """A transition to be made: the whole new state, with the sequence of the old one.

    A stream that is created has the sequence 0.
    """

    stream: Stream
    transition: Transition


class RegistrySnapshot:
    """The live streams of one version of the registry; a dropped stream is not live.

    Nothing is read from storage after it was made. Names are compared without case.

    :param version: the version of the table; ``None`` while there is no table
    :param states: the JSON of each live stream's state, by stream id
    :param ids: the id of each live stream, by casefolded name
    :param table: the handle that the version was read with
    :param folder: the state folder, for messages
    """

    __slots__ = ("_folder", "_ids", "_states", "_streams", "_table", "version")

    def __init__(
        self,
        version: int | None,
        states: Mapping[str, str],
        ids: Mapping[str, str],
        table: DeltaTable | None,
        folder: str = "",
    ) -> None:
        self.version = version
        self._folder = folder
        self._states = states
        self._ids = ids
        self._streams: dict[str, Stream] = {}
        self._table = [] if table is None else [table]

    def streams(self) -> list[Stream]:
        """The live streams, sorted by name."""
        return sorted(map(self.by_id, self._states), key=lambda stream: stream_key(stream.name))

    def find(self, name: str) -> Stream | None:
        """The live stream of that name, if there is one."""
        stream_id = self._ids.get(stream_key(name))
        return None if stream_id is None else self.by_id(stream_id)

    def get(self, name: str) -> Stream:
        """The live stream of that name.

        :raises StreamNotFound: there is none; the error suggests names that are close
        :raises RegistryNotFound: there is no registry either
        """
        stream = self.find(name)
        if stream is not None:
            return stream
        if self.version is None:
            raise RegistryNotFound(
                f"stream {name}",
                "cannot be looked up",
                cause="expected a registry of streams in the state folder"
                f" {self._folder}, found none",
                fix="name the state folder in which the stream was created, or create it",
            )
        close = get_close_matches(stream_key(name), self._ids, n=3)
        known = ", ".join(self.by_id(self._ids[key]).name for key in close)
        raise StreamNotFound(
            f"stream {name}",
            "does not exist",
            cause="it was never created, or it was dropped",
            fix=f"did you mean {known}" if known else "create it, or look at the list of streams",
        )

    def by_id(self, stream_id: str) -> Stream:
        """The live stream of that id.

        :raises StreamNotFound: there is none
        """
        stream = self._streams.get(stream_id)
        if stream is None:
            state = self._states.get(stream_id)
            if state is None:
                raise StreamNotFound(
                    f"stream with id {stream_id}",
                    "does not exist",
                    cause="it was never created, or it was dropped",
                )
            stream = self._streams[stream_id] = from_json(state, Stream)
        return stream

    def __contains__(self, stream_id: str) -> bool:
        return stream_id in self._states

    def take_table(self) -> DeltaTable | None:
        """The handle that the snapshot was read with, once: writing moves a handle forward."""
        try:
            return self._table.pop()
        except IndexError:
            return None
