"""The columns that an event has besides those of its target."""

from __future__ import annotations

from enum import StrEnum

from .shape import RESERVED

SEQUENCE = f"{RESERVED}sequence"
KIND = f"{RESERVED}kind"
ORDER = f"{RESERVED}order"
"""The place of an event in its source: the version of its commit, and its place in the commit."""
REASON = f"{RESERVED}reason"
"""Why an event cannot be applied. NULL: it can."""
ACTION = f"{RESERVED}action"
"""What a row of a plan does."""
APPLIED_AT = f"{RESERVED}applied_at"


class Kind(StrEnum):
    """What an event says.

    ``U``: the row of its key has these values from its sequence on. ``D``: its key has no row from
    there on. ``T``: no key has a row from there on.
    """

    UPSERT = "U"
    DELETE = "D"
    TRUNCATE = "T"
    SNAPSHOT = "S"
    """A whole snapshot was applied. Only the memory has such rows."""
    FORGOTTEN = "F"
    """The events of the memory up to its sequence may be forgotten."""
    QUARANTINED = "Q"


class Action(StrEnum):
    """What a row of a plan does to the target, or to the memory beside it."""

    WRITE = "write"
    REMOVE = "remove"
    REMEMBER = "remember"
    QUARANTINE = "quarantine"
    LATE = "late"
    """Writes nothing: an event that is not newer than one that was forgotten."""


TIE, BAD = "CDC_TIE: ", "CDC_NULL: "
"""How the errors begin that end a job: two events of one sequence differ, or one has no key or no
sequence.
"""
