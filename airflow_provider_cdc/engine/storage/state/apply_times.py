"""How long applies took, from the moment that they were due, noted below the state folder.

Each upsert table has one small file, ``applies/<stream id>.json``. All files are read at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Annotated

import msgspec

from ...core.arguments.intervals import LONGEST
from ..files.stores import Files, each
from ..files.uris import join

log = logging.getLogger(__name__)

KEPT_FOR = timedelta(days=7)
_MOST = 500
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=LONGEST.total_seconds())]


class ApplyTimes:
    """The apply times of a state folder.

    :param state: the state folder
    """

    def __init__(self, state: str, files: Files, clock: Callable[[], datetime]) -> None:
        self._folder = join(state, "applies")
        self._files = files
        self._clock = clock

    def note(self, stream_id: str, took: timedelta) -> None:
        """Note an apply that has just ended, and remove old notes. Of two concurrent notes, one may
        be lost. A failed write is only logged, because the apply itself succeeded.
        """
        now = self._clock()
        try:
            kept = [note for note in self._notes(stream_id) if now - note[0] < KEPT_FOR]
            notes = [*kept, (now, took.total_seconds())][-_MOST:]
            self._files.write(self._file(stream_id), msgspec.json.encode(notes))
        except Exception as error:
            log.warning("The duration of an apply of %s cannot be saved: %s", stream_id, error)

    def read(self, stream_ids: Iterable[str]) -> dict[str, list[timedelta]]:
        """How long the applies of each stream took in the last seven days."""
        now = self._clock()

        def recent(stream_id: str) -> list[timedelta]:
            notes = self._notes(stream_id)
            return [timedelta(seconds=took) for at, took in notes if now - at < KEPT_FOR]

        return each(recent, stream_ids)

    def _notes(self, stream_id: str) -> list[tuple[datetime, float]]:
        try:
            content = self._files.read(self._file(stream_id))
            return msgspec.json.decode(content, type=list[tuple[_Moment, _Seconds]])
        except (FileNotFoundError, msgspec.MsgspecError):
            return []

    def _file(self, stream_id: str) -> str:
        return join(self._folder, f"{stream_id}.json")
