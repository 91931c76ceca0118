"""The tables whose retention a state folder has extended, so that no extension is forgotten.

A table is noted before its retention is changed and again after it. The note is removed after the
retention was changed back. So a table that no stream reads now can still be found.
"""

from __future__ import annotations

import logging
import re
from hashlib import sha256

from ..files.stores import Files
from ..files.uris import join

logger = logging.getLogger(__name__)

# A job that is killed may leave the draft of a file.
_WHOLE = re.compile("[0-9a-f]{64}")


class ExtendedSources:
    """The locations of these tables. Each location is in one small file.

    :param state: the state folder
    """

    def __init__(self, state: str, files: Files) -> None:
        self._folder = join(state, "extended_sources")
        self._files = files

    def locations(self) -> list[str]:
        """All locations as they were noted, sorted, without the drafts of killed writers."""
        try:
            names = self._files.names(self._folder)
        except FileNotFoundError:
            return []
        uris = [join(self._folder, name) for name in names if _WHOLE.fullmatch(name)]
        contents = self._files.read_each(uris)
        return sorted(found for uri in uris if (found := _location(uri, contents[uri])))

    def note(self, location: str) -> None:
        """Note a table whose retention is about to be changed, or was changed."""
        self._files.write(self._file(location), location.encode())

    def strike_off(self, location: str) -> None:
        """Remove the note of a table, in this spelling. Its retention is as its owner wants it."""
        self._files.remove(self._file(location))

    def _file(self, location: str) -> str:
        return join(self._folder, sha256(location.encode()).hexdigest())


def _location(uri: str, content: bytes) -> str | None:
    """The location in a note; ``None`` if the note is damaged, which is logged."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        logger.warning("The note %s of an extended table cannot be read: %s", uri, error)
        return None
