"""What checks of targets found, in small files below the state folder.

Each target of a stream has one file, ``verifications/<stream id>-<digest of the target>.json``. All
files are listed at once.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from hashlib import sha256

import msgspec

from ...core.verification.proof import VerificationState
from ..files.stores import Files, each
from ..files.uris import join

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

    def of_streams(self, stream_ids: Collection[str]) -> dict[str, tuple[VerificationState, ...]]:
        """What the last checks of the targets of each stream found."""
        try:
            names = self._files.names(self._folder)
        except FileNotFoundError:
            names = []
        wanted = [name for name in names if name.partition("-")[0] in stream_ids]
        read = each(self._read, [join(self._folder, name) for name in wanted])
        found: dict[str, list[VerificationState]] = {one: [] for one in stream_ids}
        for state in read.values():
            if state is not None:
                found[state.stream_id].append(state)
        return {
            one: tuple(sorted(states, key=lambda state: state.target))
            for one, states in found.items()
        }

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
        return join(self._folder, f"{stream_id}-{digest}.json")
