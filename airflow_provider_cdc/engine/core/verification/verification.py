"""What a check of a target found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from rich.filesize import decimal

from ..figures import counted
from ..model.outcomes import Outcome
from ..summaries import place_text

MOST_NAMED_KEYS = 100


class DifferenceKind(StrEnum):
    """How the rows of a key differ.

    ``missing``: the target lacks them. ``unexpected``: the source does not have them.
    ``different``: both have the key, and their rows differ.
    """

    MISSING = "missing"
    UNEXPECTED = "unexpected"
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class KeyDifference:
    """A key whose rows differ; ``key`` is the JSON of its columns."""

    key: str
    kind: DifferenceKind


@dataclass(frozen=True, slots=True)
class Verification:
    """What a check of a target found.

    The check compared ``target`` with the source of ``stream`` at ``version``, which the stream has
    consumed. ``verified_through`` is the newest version at which both were equal (``None``: no
    check found that). ``is_equal``: the target equals the source now; also after it was healed.
    ``differing_keys`` counts the keys whose rows differ, and ``differences``
    names at most 100 of them. ``is_incremental``: only rows that changed since the last proof were
    read. ``bytes_read`` are the bytes of the files that the check read, of ``bytes_total`` of both
    tables. ``healed`` is the consumption that made the target equal again, if there was one.
    """

    stream: str
    target: str
    version: int
    verified_through: int | None
    is_equal: bool
    differing_keys: int
    differences: tuple[KeyDifference, ...]
    is_incremental: bool
    bytes_read: int
    bytes_total: int
    seconds: float
    healed: Outcome | None = None

    @property
    def summary(self) -> str:
        """One sentence for logs."""
        found = "equals its source"
        if self.differing_keys:
            found = f"differs from its source in {counted(self.differing_keys, 'key')}"
            found += " and was healed" if self.healed is not None else ""
        read = f"{decimal(self.bytes_read)} of {decimal(self.bytes_total)} read"
        return f"{place_text(self.target)}: {found} at version {self.version}; {read}"

    def __repr__(self) -> str:
        return f"<Verification {self.summary}>"
