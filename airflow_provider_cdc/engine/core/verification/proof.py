"""A proof that a target held the rows of its source, from which the next check continues."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ..figures import counted


@dataclass(frozen=True, slots=True)
class TablePoint:
    """A version of a table. ``size_bytes`` are the bytes of its files.

    ``fingerprint`` is a hash of the version's commit. It shows whether the log was replaced.
    """

    location: str
    table_id: str
    version: int
    fingerprint: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Proof:
    """At these two points, the target held the rows of the source, compared in ``columns``.

    ``source`` is ``None`` for a stream on a view: each check compares all rows.
    """

    source: TablePoint | None
    target: TablePoint
    key: tuple[str, ...]
    columns: tuple[str, ...]
    verified_at: datetime


@dataclass(frozen=True, slots=True)
class VerificationState:
    """What the checks of one target of a stream found.

    ``proof`` is the newest proof, if there is one. The last check was at ``checked_at``, of
    ``checked_version`` of the source, and found ``differing_keys`` keys whose rows differ.
    """

    stream_id: str
    target: str
    proof: Proof | None
    verified_through: int | None
    checked_at: datetime
    checked_version: int
    differing_keys: int

    def __repr__(self) -> str:
        found = "equal"
        if self.differing_keys:
            found = f"{counted(self.differing_keys, 'key')} differ"
        return f"<VerificationState {self.target}: {found} at version {self.checked_version}>"
