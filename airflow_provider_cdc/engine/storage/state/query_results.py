"""The rows that queries consumed, kept below the state folder until a day after a caller received
them.

The result of one query of one consumer is one Delta table, ``results/<key>-<moment>-<nonce>``. A
file next to it with the same name and ``.handed_out`` records that a caller has received it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from hashlib import sha256

from ..files.best_effort import log_failures
from ..files.stores import Files
from ..files.uris import join

KEPT_FOR = timedelta(days=1)

_HANDED_OUT = ".handed_out"


class Results:
    """The result tables of a state folder, and which of them callers have received.

    :param state: the state folder
    """

    def __init__(self, state: str, files: Files, clock: Callable[[], datetime]) -> None:
        self._folder = join(state, "results")
        self._files = files
        self._clock = clock

    def waiting(self, consumer: str, query: str) -> list[str]:
        """The roots of the tables for ``query`` of ``consumer`` that no caller has received, oldest
        first. They may be empty or unfinished.
        """
        names = set(self._names())
        tables = [name for name in names if name.startswith(f"{_key(consumer, query)}-")]
        return [
            join(self._folder, name)
            for name in sorted(tables)
            if not name.endswith(_HANDED_OUT) and f"{name}{_HANDED_OUT}" not in names
        ]

    def new(self, consumer: str, query: str) -> str:
        """The root of a new table for ``query`` of ``consumer``."""
        moment = f"{self._clock():%Y%m%dT%H%M%S%f}"
        return join(self._folder, f"{_key(consumer, query)}-{moment}-{uuid.uuid4().hex[:8]}")

    def hand_out(self, root: str) -> bool:
        """Record that a caller receives the table. False: another caller has received it."""
        return self._files.claim(f"{root}{_HANDED_OUT}", uuid.uuid4().hex.encode())

    def sweep(self) -> None:
        """Remove the tables that callers received more than a day ago, and no others. A table that
        cannot be removed is logged, and a later sweep tries again.
        """
        for name in self._names():
            # If another process is removing the table, that process also removes the mark.
            with log_failures(f"removing {name} from {self._folder}"), suppress(FileNotFoundError):
                if name.endswith(_HANDED_OUT) and self._is_old(name):
                    # Remove the table first. Without its mark, a caller would receive it again.
                    self._files.remove_table(join(self._folder, name.removesuffix(_HANDED_OUT)))
                    self._files.remove(join(self._folder, name))

    def _names(self) -> list[str]:
        try:
            return self._files.names(self._folder)
        except FileNotFoundError:
            return []

    def _is_old(self, mark: str) -> bool:
        return self._clock() - self._files.modified(join(self._folder, mark)) > KEPT_FOR


def _key(consumer: str, query: str) -> str:
    return sha256(f"{consumer}\n{query}".encode()).hexdigest()[:32]
