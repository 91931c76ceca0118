"""The consumers of change streams, each in a log of its states below its change stream."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from ...core.change_streams.consumer import ConsumerState
from ...core.change_streams.definition import ChangeStream
from ...core.errors import InvalidRequest
from ...core.names import consumer_name
from ..files.stores import Files
from ..files.uris import join
from .change_streams import ChangeStreams
from .state_log import StateLog

_DIGEST_CHARACTERS = 32


class ChangeStreamConsumers:
    """Reads and changes the states of consumers, without a JVM."""

    def __init__(self, streams: ChangeStreams, files: Files) -> None:
        self._streams = streams
        self._files = files

    def find(self, stream: ChangeStream, consumer: str) -> ConsumerState | None:
        """The newest state of a consumer; ``None``: it has not begun.

        :raises StreamUnreadable: it cannot be read
        """
        entry = self._log(stream, consumer).newest()
        return None if entry is None else entry.state

    def get(self, stream: ChangeStream, consumer: str) -> ConsumerState:
        """The newest state of a consumer.

        :raises InvalidRequest: it has not begun
        """
        found = self.find(stream, consumer)
        if found is None:
            raise _not_begun(stream, consumer)
        return found

    def all(self, stream: ChangeStream) -> list[ConsumerState]:
        """The newest states of all consumers that have begun, in no order.

        :raises StreamUnreadable: one of them cannot be read
        """
        root = self._root(stream)
        try:
            folders = self._files.names(root)
        except FileNotFoundError:
            folders = []
        logs = (self._log_in(join(root, folder), folder) for folder in folders)
        entries = (log.newest() for log in logs)
        return [entry.state for entry in entries if entry is not None]

    def begin(
        self,
        stream: ChangeStream,
        consumer: str,
        change: Callable[[ConsumerState | None], ConsumerState],
    ) -> ConsumerState:
        """Record what ``change`` makes of a consumer; it gets ``None`` if the consumer is new.

        See :meth:`StateLog.update`.
        """
        return self._log(stream, consumer).update(change)

    def update(
        self,
        stream: ChangeStream,
        consumer: str,
        change: Callable[[ConsumerState], ConsumerState],
    ) -> ConsumerState:
        """Record what ``change`` makes of a consumer that has begun.

        :raises InvalidRequest: it has not begun
        """

        def changed(known: ConsumerState | None) -> ConsumerState:
            if known is None:
                raise _not_begun(stream, consumer)
            return change(known)

        return self.begin(stream, consumer, changed)

    def _log(self, stream: ChangeStream, consumer: str) -> StateLog[ConsumerState]:
        name = consumer_name(consumer)
        digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST_CHARACTERS]
        return self._log_in(join(self._root(stream), digest), name)

    def _log_in(self, folder: str, name: str) -> StateLog[ConsumerState]:
        return StateLog(f"consumer {name}", folder, ConsumerState, self._files)

    def _root(self, stream: ChangeStream) -> str:
        return join(self._streams.folder_of(stream), "consumers")


def _not_begun(stream: ChangeStream, consumer: str) -> InvalidRequest:
    return InvalidRequest(
        f"consumer {consumer}",
        f"has not begun to read {stream.name}",
        cause="list_partitions was not called for it",
        fix="call list_partitions first; it returns what to read",
    )
