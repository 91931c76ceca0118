"""Scratch folders: the crafted logs and lists of files that change sets are read through."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, timedelta

from ..core import sink_log
from ..core.deletion_vectors import is_vector_file
from ..core.errors import InvalidRequest
from .files import Files, join
from .left_undone import put_off

KEPT_FOR = timedelta(days=1)
_TABLE = ("_delta_log", f"{0:020d}.json")
_LIST = (sink_log.FOLDER, sink_log.NAME)
_MOVED = "_removed"
# What a folder with a list seems to hold to whoever does not see the list.
NO_FILE = "no-file"


class Scratch:
    """Crafted tables and lists of files below the state folder: all of them hold no data. A crafted
    table may have files that say which rows of the source's files to leave out.

    :param state: the state folder
    """

    def __init__(self, state: str, files: Files, clock: Callable[[], datetime]) -> None:
        self._folder = join(state, "scratch")
        self._files = files
        self._clock = clock

    def root_of(self, table_id: str) -> str:
        """The root of the crafted table ``table_id``."""
        return join(self._folder, table_id)

    def write_table(
        self, table_id: str, log: bytes, vectors: Iterable[tuple[str, bytes]] = ()
    ) -> str:
        """Put down a crafted table; returns its root.

        :param vectors: the names and the contents of the files that its log names
        """
        for name, content in vectors:
            self._write(table_id, (name,), content)
        return self._write(table_id, _TABLE, log)

    def write_list(self, files: bytes) -> str:
        """Put down a list of files; returns the folder that Spark reads as if they were in it.

        Where Spark cannot see the list, it reads what does lie there: a file that is no Parquet.
        """
        name = new_table_id()
        self._write(name, (NO_FILE,), b"This folder is read by its list.")
        return self._write(name, _LIST, files)

    def remove(self, root: str) -> None:
        """Remove a crafted table or a list; who still reads it fails, and never finds it empty."""
        with suppress(FileNotFoundError):
            self._files.remove_at_once(join(root, _LIST[0]), moved_to=join(root, _MOVED))
        self._files.remove(root)

    def sweep(self) -> None:
        """Remove what is older than a day: a lazily read change set leaves it behind. What cannot
        be removed, such as another principal's, is logged and left for another time.
        """
        try:
            names = self._files.names(self._folder)
        except FileNotFoundError:
            return
        for name in names:
            root = join(self._folder, name)
            # Another process may be sweeping it.
            with put_off(f"removing {root}"), suppress(FileNotFoundError):
                if self._is_old(root):
                    self.remove(root)

    def _write(self, name: str, file: tuple[str, ...], content: bytes) -> str:
        root = self.root_of(name)
        try:
            self._files.write(join(root, *file), content)
        except PermissionError as error:
            raise InvalidRequest(
                f"the folder {self._folder}",
                "cannot be written to",
                cause=str(error),
                fix="let whoever reads streams write there: no data is stored in it",
            ) from error
        return root

    def _is_old(self, root: str) -> bool:
        for file in ((NO_FILE,), _TABLE):
            with suppress(FileNotFoundError):
                return self._is_past(join(root, *file))
        # It is being written, or another process is sweeping it. Who writes it may have ended
        # between its vectors and its log.
        vectors = [name for name in self._files.names(root) if is_vector_file(name)]
        return any(self._is_past(join(root, name)) for name in vectors)

    def _is_past(self, file: str) -> bool:
        return self._clock() - self._files.modified(file) > KEPT_FOR


def new_table_id() -> str:
    """An id for a crafted table."""
    return str(uuid.uuid4())
