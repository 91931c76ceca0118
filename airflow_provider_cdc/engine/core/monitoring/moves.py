"""The moves of streams over the last days: who moved which offset, and what was consumed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from ..model.lifecycle import Transition
from ..model.stream import Stream
from .lag_history import KEPT_FOR

MOST_MOVES = 100
"""How many moves are kept of one stream."""

_SHOWN = frozenset(Transition) - {Transition.BEGUN, Transition.RESUMED, Transition.EXTENDED}


@dataclass(frozen=True, slots=True)
class ConsumedRows:
    """The rows that a consumption took of a stream."""

    inserted: int
    updated: int
    deleted: int


@dataclass(frozen=True, slots=True)
class Move:
    """A transition of a stream. ``sequence`` numbers those of one stream.

    ``versions`` are the offsets of its tables after it. ``consumer``, ``rows`` and ``seconds`` are
    those of a consumption that it committed; ``rows`` and ``seconds`` are ``None`` if another
    process than its driver committed it.
    """

    sequence: int
    at: datetime
    transition: str
    actor: str
    versions: tuple[int, ...]
    consumer: str | None = None
    rows: ConsumedRows | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class MoveHistory:
    """The moves of each stream, by its id, the oldest first."""

    moves: Mapping[str, tuple[Move, ...]] = field(default_factory=dict)


def move_of(stream: Stream, transition: Transition, at: datetime, actor: str) -> Move | None:
    """The move of a transition to the state ``stream``. ``None``: it is one within a consumption.

    :param actor: the principal who made it
    """
    if transition not in _SHOWN:
        return None
    versions = tuple(base.offset.version for base in stream.bases)
    move = Move(stream.sequence, at, transition.value, actor, versions)
    if transition is not Transition.COMMITTED:
        return move
    outcome = stream.last_outcome
    taken = () if outcome is None else outcome.streams
    counts = next((each.rows for each in taken if each.stream_id == stream.stream_id), None)
    return Move(
        move.sequence,
        at,
        move.transition,
        actor,
        versions,
        consumer=stream.last_consumer,
        rows=None if counts is None else _rows_of(counts),
        seconds=None if outcome is None else outcome.seconds,
    )


def with_moves(
    history: MoveHistory,
    found: Mapping[str, Sequence[Move]],
    stream_ids: Collection[str],
    now: datetime,
) -> MoveHistory:
    """``history`` with the moves that were found since, without old ones.

    :param stream_ids: of the streams that exist
    """
    oldest = now - KEPT_FOR
    kept: dict[str, tuple[Move, ...]] = {}
    for stream_id in stream_ids:
        known = {move.sequence: move for move in history.moves.get(stream_id, ())}
        known |= {move.sequence: move for move in found.get(stream_id, ())}
        recent = [known[sequence] for sequence in sorted(known) if known[sequence].at > oldest]
        if recent:
            kept[stream_id] = tuple(recent[-MOST_MOVES:])
    return MoveHistory(kept)


def _rows_of(counts: Mapping[str, int]) -> ConsumedRows:
    return ConsumedRows(*(counts.get(kind, 0) for kind in ("inserted", "updated", "deleted")))
