"""What checks of targets found, in small files below the state folder.

Each target of a stream has one file, ``verifications/<stream id>/<digest of the target>.json``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from hashlib import sha256

import msgspec

from ...core.verification.proof import VerificationState
from ..files.stores import Files, each, join

log = logging.getLogger(__name__)

_DIGEST_CHARACTERS = 32


class Verifications:
    """The results of the checks of a state folder.

    :param state: the state folder
    """

    def __init__(self, state: str, files: Files) -> None:
        self._folder = join(state, "verifications")
        self._files = files

    def save(self, state: VerificationState) -> None:
        """Replace what is known of a target of a stream."""
        self._files.write(self._file(state.stream_id, state.target), msgspec.json.encode(state))

    def find(self, stream_id: str, target: str) -> VerificationState | None:
        """What the last check of ``target`` found; ``None``: there was no check.

        :param target: the root of the target
        """
        return self._read(self._file(stream_id, target))

    def of_streams(self, stream_ids: Iterable[str]) -> dict[str, list[VerificationState]]:
        """What the last checks of the targets of each stream found."""
        return each(self._of_stream, stream_ids)

    def _of_stream(self, stream_id: str) -> list[VerificationState]:
        folder = join(self._folder, stream_id)
        try:
            names = self._files.names(folder)
        except FileNotFoundError:
            return []
        found = (self._read(join(folder, name)) for name in names if name.endswith(".json"))
        return sorted((each for each in found if each is not None), key=lambda each: each.target)

    def _read(self, file: str) -> VerificationState | None:
        try:
            return msgspec.json.decode(self._files.read(file), type=VerificationState)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            # The next check compares all rows, and replaces the file.
            log.warning("The result of a check in %s cannot be read: %s", file, error)
            return None

    def _file(self, stream_id: str, target: str) -> str:
        digest = sha256(target.encode()).hexdigest()[:_DIGEST_CHARACTERS]
        return join(self._folder, stream_id, f"{digest}.json")
