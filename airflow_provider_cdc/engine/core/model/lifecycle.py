"""The life of a stream as a table: the phases that each transition leads from and to.

The registry refuses a transition that is not in the table, so a late process cannot move a stream
backwards. Snowflake: an offset moves only with a transaction. Databend: the first transaction to
commit wins.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType

from ..errors import StreamConflict, ended_by_hand
from .stream import Phase, Stream


class Transition(StrEnum):
    """What can happen to a stream."""

    CREATED = "created"
    BEGUN = "begun"
    RESUMED = "resumed"
    EXTENDED = "extended"
    RESOLVING = "resolving"
    ABORTING = "aborting"
    REOPENED = "reopened"
    COMMITTED = "committed"
    ABORTED = "aborted"
    ADVANCED = "advanced"
    SKIPPED = "skipped"
    REWOUND = "rewound"
    ALTERED = "altered"
    RENAMED = "renamed"
    DROPPED = "dropped"
    UNDROPPED = "undropped"


# These transitions add a stream to the registry.
BIRTHS = frozenset({Transition.CREATED, Transition.UNDROPPED})
TRANSITIONS = MappingProxyType(
    {
        (Phase.IDLE, Transition.BEGUN): Phase.APPLYING,
        (Phase.APPLYING, Transition.RESUMED): Phase.APPLYING,
        # A transaction records each statement before it applies it, and each stream that joins.
        (Phase.APPLYING, Transition.EXTENDED): Phase.APPLYING,
        (Phase.APPLYING, Transition.COMMITTED): Phase.IDLE,
        (Phase.APPLYING, Transition.RESOLVING): Phase.RESOLVING,
        (Phase.RESOLVING, Transition.RESOLVING): Phase.RESOLVING,
        (Phase.RESOLVING, Transition.REOPENED): Phase.APPLYING,
        (Phase.RESOLVING, Transition.COMMITTED): Phase.IDLE,
        (Phase.RESOLVING, Transition.ABORTED): Phase.IDLE,
        # Each target may hold what an operator aborts. From here on no process commits it.
        (Phase.APPLYING, Transition.ABORTING): Phase.ABORTING,
        (Phase.RESOLVING, Transition.ABORTING): Phase.ABORTING,
        (Phase.ABORTING, Transition.ABORTING): Phase.ABORTING,
        (Phase.ABORTING, Transition.REOPENED): Phase.APPLYING,
        (Phase.ABORTING, Transition.ABORTED): Phase.IDLE,
        (Phase.IDLE, Transition.ADVANCED): Phase.IDLE,
        # The stream was found to be empty: its offset moves over commits without a change.
        (Phase.IDLE, Transition.SKIPPED): Phase.IDLE,
        (Phase.IDLE, Transition.REWOUND): Phase.IDLE,
        (Phase.IDLE, Transition.ALTERED): Phase.IDLE,
        (Phase.IDLE, Transition.RENAMED): Phase.IDLE,
        (Phase.IDLE, Transition.DROPPED): Phase.DROPPED,
        (Phase.DROPPED, Transition.UNDROPPED): Phase.IDLE,
    }
)


def next_phase(stream: Stream, transition: Transition) -> Phase:
    """The phase to which ``transition`` leads ``stream``.

    :raises StreamConflict: the stream's phase does not allow it, because another process moved it
    """
    try:
        return TRANSITIONS[stream.phase, transition]
    except KeyError:
        raise StreamConflict(
            f"stream {stream.name}",
            f"cannot be {transition.value} while it is {stream.phase.value}",
            cause=_open_consumption(stream),
            fix=f"run the consumer again, or end the open consumption with {ended_by_hand()}",
        ) from None


def _open_consumption(stream: Stream) -> str:
    consumption = stream.consumption
    if consumption is None:
        return "another consumer moved it first"
    return f"consumption {consumption.consumption_id} of {consumption.consumer} is open"
