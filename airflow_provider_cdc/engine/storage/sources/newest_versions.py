"""Glances again and again whether logs have new commits: one small request for each log."""

from __future__ import annotations

from ...core.errors import NotADeltaTable
from ...core.model.stream import Stream
from ..delta.delta_log import DeltaLog
from ..files.stores import Files


class NewestVersions:
    """Remembers the newest version of each log, and asks only whether the next commit exists.

    A glance is a hint to check now, and proves nothing: it does not notice that a log was replaced,
    or that a folder of files has changed. It is not safe for several threads at once.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._known: dict[tuple[str, str], int] = {}

    def of_stream(self, stream: Stream) -> tuple[int, ...]:
        """The newest version of each table that ``stream`` reads; empty if it reads files.

        :raises OSError: a store cannot be reached
        """
        if stream.folder is not None:
            return ()
        return tuple(
            self.of_log(base.source.location, base.offset.version, stream.stream_id)
            for base in stream.bases
        )

    def of_log(self, location: str, since: int, reader: str = "") -> int:
        """The newest version of the table at ``location``, or ``since`` if it has no log.

        :param since: a version that the table has had
        :param reader: who asks. Another reader may mean another table that has this location now
        :raises OSError: a store cannot be reached
        """
        key, log = (location, reader), DeltaLog(location, self._files)
        version = self._known.get(key)
        if version is None:
            version = _listed(log, since)
        while log.has_commit(version + 1):
            version += 1
        self._known[key] = version
        return version


def _listed(log: DeltaLog, since: int) -> int:
    # A stream may be thousands of commits behind, and a listing is one request for all of them.
    try:
        return log.listing(since=since).latest_version
    except NotADeltaTable:
        return since
