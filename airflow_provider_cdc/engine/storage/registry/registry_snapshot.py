"""What the registry returns and takes: past transitions, the streams at one moment, and changes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from deltalake import DeltaTable

from ...core.errors import RegistryNotFound, StreamNotFound
from ...core.model.lifecycle import Transition
from ...core.model.serialization import UnreadableStream, read_stream
from ...core.model.stream import Stream
from ...core.names import stream_key
from ...core.near_names import advice_on
from ...core.summaries import moment_text


@dataclass(frozen=True, slots=True)
class Record:
    """One transition of a stream: the new state, the time, and who made it.

    All transitions of one ``transact`` call have the same ``nonce``.
    """

    stream: Stream | UnreadableStream
    transition: Transition
    at: datetime
    nonce: str
    actor: str

    def __repr__(self) -> str:
        made = f"{self.transition.value} {moment_text(self.at)} by {self.actor}"
        return f"<Record {made}: {repr(self.stream).strip('<>')}>"


@dataclass(frozen=True, slots=True)
class Change:
    """A transition to make: the whole new state, with the sequence of the old state.

    A stream that is created has the sequence 0. A stream that cannot be read can only be dropped.
    """

    stream: Stream | UnreadableStream
    transition: Transition


@dataclass(frozen=True, slots=True)
class Row:
    """The newest row of a live stream: the columns that can be read without decoding its state, and
    the text of the state.
    """

    stream_id: str
    name: str
    sequence: int
    state: str

    @property
    def stream(self) -> Stream | UnreadableStream:
        """The stream, decoded at each call."""
        return read_stream(
            self.state, stream_id=self.stream_id, name=self.name, sequence=self.sequence
        )


class RegistrySnapshot:
    """The live streams of one version of the registry. A dropped stream is not live.

    A snapshot reads nothing from the store after it was made. Names are compared without case. A
    stream whose state cannot be read is live. Its name is taken, and :meth:`find`, :meth:`get` and
    :meth:`by_id` raise the reason.

    :param version: the version of the table; ``None``: there is no table yet
    :param rows: the newest row of each live stream
    :param table: the handle that the version was read with
    :param folder: the state folder, for messages
    """

    __slots__ = ("_folder", "_found", "_ids", "_rows", "_table", "version")

    def __init__(
        self,
        version: int | None,
        rows: Collection[Row],
        table: DeltaTable | None,
        folder: str = "",
    ) -> None:
        self.version = version
        self._folder = folder
        self._rows = {row.stream_id: row for row in rows}
        self._ids = {stream_key(row.name): row.stream_id for row in rows}
        self._found: dict[str, Stream | UnreadableStream] = {}
        self._table = [] if table is None else [table]

    @property
    def names(self) -> list[str]:
        """The names of all live streams, sorted, including those that cannot be read."""
        return sorted((row.name for row in self._rows.values()), key=stream_key)

    def streams(self) -> list[Stream]:
        """The live streams that can be read, sorted by name."""
        return [found for found in self._all() if isinstance(found, Stream)]

    def unreadable(self) -> list[UnreadableStream]:
        """The live streams that cannot be read, sorted by name."""
        return [found for found in self._all() if isinstance(found, UnreadableStream)]

    def holder(self, name: str) -> Stream | UnreadableStream | None:
        """The live stream of that name, whether or not it can be read."""
        stream_id = self._ids.get(stream_key(name))
        return None if stream_id is None else self._record(stream_id)

    def find(self, name: str) -> Stream | None:
        """The live stream of that name, or ``None``.

        :raises StreamUnreadable: it cannot be read
        """
        return _readable(self.holder(name))

    def get(self, name: str) -> Stream:
        """The live stream of that name.

        :raises StreamNotFound: there is no such stream; the error suggests similar names
        :raises RegistryNotFound: there is no registry either
        :raises StreamUnreadable: it cannot be read
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
        raise StreamNotFound(
            f"stream {name}",
            "does not exist",
            cause="it was never created, or it was dropped",
            fix=advice_on(name, self.names),
        )

    def by_id(self, stream_id: str) -> Stream:
        """The live stream of that id.

        :raises StreamNotFound: there is no such stream
        :raises StreamUnreadable: it cannot be read
        """
        stream = _readable(self._record(stream_id))
        if stream is None:
            raise StreamNotFound(
                f"stream with id {stream_id}",
                "does not exist",
                cause="it was never created, or it was dropped",
                fix="bring it back with UndropStream or engine.undrop_stream(name), or create it"
                " again",
            )
        return stream

    def name_of(self, stream_id: str) -> str:
        """The name of the live stream of that id."""
        return self._rows[stream_id].name

    def sequence_of(self, stream_id: str) -> int:
        """The number of the newest transition of the live stream of that id."""
        return self._rows[stream_id].sequence

    def __contains__(self, stream_id: str) -> bool:
        return stream_id in self._rows

    def take_table(self) -> DeltaTable | None:
        """Return the handle that the snapshot was read with, but only once, because a write moves
        the handle forward. Later calls return ``None``.
        """
        try:
            return self._table.pop()
        except IndexError:
            return None

    def _all(self) -> list[Stream | UnreadableStream]:
        rows = sorted(self._rows.values(), key=lambda row: stream_key(row.name))
        return [found for row in rows if (found := self._record(row.stream_id)) is not None]

    def _record(self, stream_id: str) -> Stream | UnreadableStream | None:
        row = self._rows.get(stream_id)
        if row is None:
            return None
        if stream_id not in self._found:
            self._found[stream_id] = row.stream
        return self._found[stream_id]


def _readable(found: Stream | UnreadableStream | None) -> Stream | None:
    if isinstance(found, UnreadableStream):
        raise found.error
    return found
