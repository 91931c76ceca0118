"""The tables whose retention a state folder has extended, so that none stays so by oversight.

A table is noted before it is changed and again behind it, and struck off after it was changed back:
one that no stream reads any more is still found.
"""

from __future__ import annotations

import logging
import re
from hashlib import sha256

from .files import Files, join

logger = logging.getLogger(__name__)

# A job that is killed may leave the draft of a file behind.
_WHOLE = re.compile("[0-9a-f]{64}")


class ExtendedSources:
    """The locations of these tables, a small file for each.

    :param state: the state folder
    """

    def __init__(self, state: str, files: Files) -> None:
        self._folder = join(state, "extended_sources")
        self._files = files

    def locations(self) -> list[str]:
        """All of them as they were noted, sorted; what a killed writer left unfinished is none."""
        try:
            names = self._files.names(self._folder)
        except FileNotFoundError:
            return []
        uris = [join(self._folder, name) for name in names if _WHOLE.fullmatch(name)]
        contents = self._files.read_each(uris)
        return sorted(found for uri in uris if (found := _location(uri, contents[uri])))

    def note(self, location: str) -> None:
        """Remember a table that is about to be changed, or that was."""
        self._files.write(self._file(location), location.encode())

    def strike_off(self, location: str) -> None:
        """Forget a table that is as its owner wants it, under this spelling."""
        self._files.remove(self._file(location))

    def _file(self, location: str) -> str:
        return join(self._folder, sha256(location.encode()).hexdigest())


def _location(uri: str, content: bytes) -> str | None:
    """The location that a note holds; ``None`` where the note is damaged, which is logged."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        logger.warning("The note %s of an extended table cannot be read: %s", uri, error)
        return None
