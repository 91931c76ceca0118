"""Scratch folders: the crafted logs and file lists through which change sets are read."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, timedelta

from ...core.change_sets import sink_log
from ...core.delta.deletion_vectors import is_vector_file
from ...core.errors import InvalidRequest
from .best_effort import log_failures
from .stores import Files
from .uris import join

KEPT_FOR = timedelta(days=1)
_TABLE = ("_delta_log", f"{0:020d}.json")
_LIST = (sink_log.FOLDER, sink_log.NAME)
_MOVED = "_removed"
# The only file in a folder with a list. A reader that does not see the list finds this file.
NO_FILE = "no-file"


class Scratch:
    """Crafted tables and file lists below the state folder. They hold no data. A crafted table may
    have deletion vector files, which mark rows of the source's files to leave out.

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
        """Write a crafted table; returns its root.

        :param vectors: the names and contents of the deletion vector files that its log names
        """
        for name, content in vectors:
            self._write(table_id, (name,), content)
        return self._write(table_id, _TABLE, log)

    def write_list(self, files: bytes) -> str:
        """Write a file list; returns the folder that Spark reads as if the files were in it.

        If Spark does not see the list, the read fails, because the only file in the folder is not a
        Parquet file.
        """
        name = new_table_id()
        self._write(name, (NO_FILE,), b"This folder is read by its list.")
        return self._write(name, _LIST, files)

    def remove(self, root: str) -> None:
        """Remove a crafted table or a list. A reader that still uses it fails. It never finds an
        empty table or list.
        """
        with suppress(FileNotFoundError):
            self._files.remove_at_once(join(root, _LIST[0]), moved_to=join(root, _MOVED))
        self._files.remove(root)

    def sweep(self) -> None:
        """Remove the tables and lists that are older than a day. Change sets that are read lazily
        leave them. A table or list that cannot be removed, such as one of another principal, is
        logged, and a later sweep tries again.
        """
        try:
            names = self._files.names(self._folder)
        except FileNotFoundError:
            return
        for name in names:
            root = join(self._folder, name)
            # Another process may be removing it.
            with log_failures(f"removing {root}"), suppress(FileNotFoundError):
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
                fix="let every reader of streams write to it: it stores no data",
            ) from error
        return root

    def _is_old(self, root: str) -> bool:
        for file in ((NO_FILE,), _TABLE):
            with suppress(FileNotFoundError):
                return self._is_past(join(root, *file))
        # It is being written, or another process is removing it. Its writer may also have ended
        # after the deletion vectors and before the log.
        vectors = [name for name in self._files.names(root) if is_vector_file(name)]
        return any(self._is_past(join(root, name)) for name in vectors)

    def _is_past(self, file: str) -> bool:
        return self._clock() - self._files.modified(file) > KEPT_FOR


def new_table_id() -> str:
    """An id for a crafted table."""
    return str(uuid.uuid4())
