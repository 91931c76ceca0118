"""Moves the streams of a consumption through their phases: either all of them or none."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import count

from ...core.errors import StreamConflict
from ...core.model.consumption import Consumption, PlannedStatement, StreamRange
from ...core.model.lifecycle import Transition, next_phase
from ...core.model.outcomes import Outcome
from ...core.model.sources import Base
from ...core.model.stream import Phase, Stream
from .registry import Registry
from .registry_snapshot import Change, RegistrySnapshot

_TRIES = 5


class Consumptions:
    """Begins, extends, resumes, commits, resolves and aborts consumptions in the registry.

    Every move is one compare-and-set over all streams of the consumption.
    """

    def __init__(self, registry: Registry, clock: Callable[[], datetime]) -> None:
        self._registry = registry
        self._clock = clock

    def begin(
        self,
        snapshot: RegistrySnapshot,
        streams: Sequence[Stream],
        ranges: Sequence[StreamRange],
        statements: Sequence[PlannedStatement],
        consumer: str,
        *,
        is_open_ended: bool = False,
    ) -> Consumption:
        """Record that ``consumer`` consumes ``ranges`` of ``streams``, as ``snapshot`` shows them.

        :param is_open_ended: whether :meth:`extend` will add to it
        :raises StreamConflict: one of the streams was moved since the snapshot
        """
        consumption = Consumption(
            consumption_id=uuid.uuid4().hex,
            consumer=consumer,
            streams=tuple(ranges),
            statements=tuple(statements),
            begun_at=self._clock(),
            is_open_ended=is_open_ended,
        )
        self._registry.transact(
            snapshot,
            [_change(stream, Transition.BEGUN, consumption) for stream in streams],
            actor=consumer,
        )
        return consumption

    def extend(
        self,
        snapshot: RegistrySnapshot,
        consumption: Consumption,
        streams: Sequence[Stream],
        ranges: Sequence[StreamRange],
        statements: Sequence[PlannedStatement],
    ) -> Consumption:
        """Record that an open-ended ``consumption`` also consumes ``ranges`` of more ``streams``,
        as ``snapshot`` shows them. Record also that it is about to apply more ``statements``.

        :returns: the consumption as it was stored
        :raises StreamConflict: another process ended it, or moved one of the streams
        """
        known = self.streams(snapshot, consumption)
        stored = known[0].consumption
        if stored is None or stored.epoch != consumption.epoch:
            raise _ended(known[0], consumption)
        extended = replace(
            stored,
            streams=(*stored.streams, *ranges),
            statements=(*stored.statements, *statements),
        )
        self._registry.transact(
            snapshot,
            [
                *(_change(stream, Transition.EXTENDED, extended) for stream in known),
                *(_change(stream, Transition.BEGUN, extended) for stream in streams),
            ],
            actor=consumption.consumer,
        )
        return extended

    def move(
        self,
        consumption: Consumption,
        transition: Transition,
        actor: str,
        outcome: Outcome | None = None,
    ) -> Consumption:
        """Move every stream of ``consumption`` by ``transition``; returns the consumption as it was
        stored.

        If another process has already committed the same consumption, a commit succeeds too.

        :raises StreamConflict: the consumption is no longer open, or is not in the right phase
        """
        for attempt in count(1):
            snapshot = self._registry.snapshot()
            try:
                streams = self.streams(snapshot, consumption)
            except StreamConflict:
                if transition is Transition.COMMITTED and self._was_committed(consumption):
                    return consumption
                raise
            stored = _moved(streams[0].consumption or consumption, transition)
            if transition is Transition.COMMITTED and stored.epoch != consumption.epoch:
                # The consumption was reopened after its targets were checked, so some of it may be
                # undone.
                raise _ended(streams[0], consumption)
            changes = [self._change(stream, transition, stored, outcome) for stream in streams]
            try:
                self._registry.transact(snapshot, changes, actor=actor)
            except StreamConflict:
                if attempt == _TRIES:
                    raise
            else:
                break
        return stored

    def streams(self, snapshot: RegistrySnapshot, consumption: Consumption) -> list[Stream]:
        """The streams of ``consumption``, including streams that joined it later.

        :raises StreamConflict: it has ended
        """
        _, stored = _open_in(snapshot, consumption)
        return [snapshot.by_id(each) for each in _live_ids(snapshot, stored)]

    def phase(self, consumption: Consumption) -> Phase:
        """The phase of the consumption's streams; raises StreamConflict if it has ended."""
        return _open_in(self._registry.snapshot(), consumption)[0].phase

    def check_ending(self, consumption: Consumption) -> None:
        """Refuse to undo a consumption that another process has ended or reopened.

        :raises StreamConflict: ``consumption`` is no longer being resolved or aborted in its epoch
        """
        stream, stored = _open_in(self._registry.snapshot(), consumption)
        is_ending = stream.phase in (Phase.RESOLVING, Phase.ABORTING)
        if not is_ending or stored.epoch != consumption.epoch:
            raise _ended(stream, consumption)

    def _was_committed(self, consumption: Consumption) -> bool:
        return any(
            record.transition is Transition.COMMITTED
            and isinstance(record.stream, Stream)
            and record.stream.last_consumption_id == consumption.consumption_id
            for record in self._registry.history(consumption.stream_ids[0])
        )

    def _change(
        self,
        stream: Stream,
        transition: Transition,
        consumption: Consumption,
        outcome: Outcome | None,
    ) -> Change:
        if transition is Transition.COMMITTED:
            own = next(item for item in consumption.streams if item.stream_id == stream.stream_id)
            bases = zip(stream.bases, own.tables, strict=True)
            stream = replace(
                stream,
                bases=tuple(
                    Base(table.source or base.source, table.through) for base, table in bases
                ),
                shows_initial_rows=False,
                last_consumption_id=consumption.consumption_id,
                last_consumer=consumption.consumer,
                last_outcome=outcome,
                last_consumed_at=self._clock(),
            )
        return _change(stream, transition, consumption)


def _change(stream: Stream, transition: Transition, consumption: Consumption) -> Change:
    phase = next_phase(stream, transition)
    still_open = None if phase is Phase.IDLE else consumption
    return Change(replace(stream, phase=phase, consumption=still_open), transition)


def _moved(consumption: Consumption, transition: Transition) -> Consumption:
    if transition is Transition.RESUMED:
        return replace(consumption, attempts=consumption.attempts + 1)
    if transition is Transition.REOPENED:
        return replace(consumption, epoch=consumption.epoch + 1)
    return consumption


def _open_in(snapshot: RegistrySnapshot, consumption: Consumption) -> tuple[Stream, Consumption]:
    """The first stream of ``consumption``, and the consumption as it is stored now.

    :raises StreamConflict: it has ended
    """
    first = snapshot.by_id(_live_ids(snapshot, consumption)[0])
    stored = first.consumption
    if stored is None or stored.consumption_id != consumption.consumption_id:
        raise _ended(first, consumption)
    return first, stored


def _live_ids(snapshot: RegistrySnapshot, consumption: Consumption) -> tuple[str, ...]:
    """The ids of the streams that move together. Only a stream that cannot be read can be dropped
    during its consumption. The other streams continue without it.
    """
    ids = consumption.stream_ids
    return tuple(each for each in ids if each in snapshot) or ids


def _ended(stream: Stream, consumption: Consumption) -> StreamConflict:
    found = stream.consumption
    return StreamConflict(
        f"stream {stream.name}",
        f"consumption {consumption.consumption_id} of {consumption.consumer} has ended",
        cause="another consumer took it over"
        + (f", {found.consumer} is consuming now" if found else ""),
        fix="run the consumer again; it starts from the current offset",
    )
