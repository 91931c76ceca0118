"""Scratch folders: the crafted logs that change sets are read through."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import datetime, timedelta

from .files import Files, join

KEPT_FOR = timedelta(days=1)


class Scratch:
    """Crafted tables below the state folder, which hold a log and no data.

    :param state: the state folder
    """

    def __init__(self, state: str, files: Files, clock: Callable[[], datetime]) -> None:
        self._folder = join(state, "scratch")
        self._files = files
        self._clock = clock

    def write_table(self, table_id: str, log: bytes) -> str:
        """Put down a crafted table; returns its root."""
        root = join(self._folder, table_id)
        self._files.write(_log_of(root), log)
        return root

    def remove(self, root: str) -> None:
        """Remove one crafted table."""
        self._files.remove(root)

    def sweep(self) -> None:
        """Remove what is older than a day: a lazily read change set leaves it behind."""
        try:
            names = self._files.names(self._folder)
        except FileNotFoundError:
            return
        for name in names:
            root = join(self._folder, name)
            if self._is_old(root):
                self._files.remove(root)

    def _is_old(self, root: str) -> bool:
        try:
            written = self._files.modified(_log_of(root))
        except FileNotFoundError:
            # It is being written, or another process is sweeping it.
            return False
        return self._clock() - written > KEPT_FOR


def _log_of(root: str) -> str:
    return join(root, "_delta_log", f"{0:020d}.json")


def new_table_id() -> str:
    """An id for a crafted table."""
    return str(uuid.uuid4())
