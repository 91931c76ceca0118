"""The newest status snapshot, and the lags and moves of the last days, in the state folder.

They have fixed names, so a reader needs one request for each and lists nothing. Several monitors
may write them at once: the last write wins, and each file is complete.
"""

from __future__ import annotations

import gzip
import logging
import zlib
from typing import TypeVar

from ...core.monitoring.lag_history import LagHistory, with_snapshot
from ...core.monitoring.moves import MoveHistory
from ...core.monitoring.status_snapshot import StatusSnapshot
from ..files.stores import Files
from ..files.uris import join
from .stored_values import NotReadable, read_back, stored

log = logging.getLogger(__name__)

_Kind = TypeVar("_Kind")


class StatusSnapshots:
    """The status snapshot and the history of a state folder.

    :param state: the state folder
    """

    def __init__(self, state: str, files: Files) -> None:
        self._newest = join(state, "status", "newest.json.gz")
        self._history = join(state, "status", "lags.json.gz")
        self._moves = join(state, "status", "moves.json.gz")
        self._files = files

    def save(self, snapshot: StatusSnapshot) -> None:
        """Replace the newest snapshot, and add its lags to the history."""
        history = with_snapshot(self.history(), snapshot)
        self._files.write(self._newest, gzip.compress(stored(snapshot)))
        self._files.write(self._history, gzip.compress(stored(history)))

    def newest(self) -> StatusSnapshot | None:
        """The newest snapshot. ``None``: no monitor has written one that this version can read."""
        return self._read(self._newest, StatusSnapshot)

    def history(self) -> LagHistory:
        """The lags of the last days; empty if no monitor has written them."""
        return self._read(self._history, LagHistory) or LagHistory()

    def save_moves(self, moves: MoveHistory) -> None:
        """Replace the moves."""
        self._files.write(self._moves, gzip.compress(stored(moves)))

    def moves(self) -> MoveHistory:
        """The moves of the last days; empty if no monitor has written them."""
        return self._read(self._moves, MoveHistory) or MoveHistory()

    def _read(self, file: str, kind: type[_Kind]) -> _Kind | None:
        try:
            return read_back(gzip.decompress(self._files.read(file)), kind)
        except FileNotFoundError:
            return None
        except (NotReadable, OSError, EOFError, zlib.error) as error:
            if isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile):
                raise
            # The next run of the monitor replaces the file.
            log.warning("%s cannot be read: %s", file, error)
            return None
