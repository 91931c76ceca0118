"""Moving the streams of a consumption through their phases, all together or none."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from ..core.errors import StreamConflict
from ..core.lifecycle import Transition, next_phase
from ..core.model import (
    Consumption,
    Outcome,
    Phase,
    PlannedStatement,
    Stream,
    StreamRange,
)
from .registry import Change, Registry, RegistrySnapshot

_TRIES = 5


class Consumptions:
    """The registry's view of consumptions: begin, resume, commit, resolve, abort.

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
    ) -> Consumption:
        """Record that ``consumer`` takes ``ranges`` of ``streams``, as ``snapshot`` shows them.

        :raises StreamConflict: one of the streams was moved since the snapshot
        """
        consumption = Consumption(
            consumption_id=uuid.uuid4().hex,
            consumer=consumer,
            streams=tuple(ranges),
            statements=tuple(statements),
            begun_at=self._clock(),
        )
        self._registry.transact(
            snapshot,
            [_change(stream, Transition.BEGUN, consumption) for stream in streams],
            actor=consumer,
        )
        return consumption

    def resume(self, consumption: Consumption) -> Consumption:
        """Record that one more driver works on ``consumption``.

        :raises StreamConflict: it is no longer open for its consumer
        """
        self.move(consumption, Transition.RESUMED, consumption.consumer)
        return self.current(consumption)

    def move(
        self,
        consumption: Consumption,
        transition: Transition,
        actor: str,
        outcome: Outcome | None = None,
    ) -> None:
        """Move every stream of ``consumption`` by ``transition``.

        A commit that somebody else made of the same consumption is as good as one's own.

        :raises StreamConflict: the consumption is no longer open, or not in the right phase
        """
        for attempt in range(_TRIES):
            snapshot = self._registry.snapshot()
            streams = [snapshot.by_id(stream_id) for stream_id in consumption.stream_ids]
            if transition is Transition.COMMITTED and self.was_committed(consumption):
                return
            changes = [
                self._moved(_open_stream(stream, consumption), transition, outcome)
                for stream in streams
            ]
            try:
                self._registry.transact(snapshot, changes, actor=actor)
                return
            except StreamConflict:
                if attempt == _TRIES - 1:
                    raise

    def current(self, consumption: Consumption) -> Consumption:
        """``consumption`` as the registry has it now; raises StreamConflict when it has ended."""
        snapshot = self._registry.snapshot()
        stream = _open_stream(snapshot.by_id(consumption.stream_ids[0]), consumption)
        assert stream.consumption is not None
        return stream.consumption

    def phase(self, consumption: Consumption) -> Phase:
        """The phase of the consumption's streams; raises StreamConflict when it has ended."""
        snapshot = self._registry.snapshot()
        return _open_stream(snapshot.by_id(consumption.stream_ids[0]), consumption).phase

    def was_committed(self, consumption: Consumption) -> bool:
        """Whether ``consumption`` has been committed, by whomever."""
        return any(
            record.transition is Transition.COMMITTED
            and record.stream.last_consumption_id == consumption.consumption_id
            for record in self._registry.history(consumption.stream_ids[0])
        )

    def _moved(self, stream: Stream, transition: Transition, outcome: Outcome | None) -> Change:
        consumption = stream.consumption
        assert consumption is not None
        if transition is Transition.RESUMED:
            return _change(
                stream, transition, replace(consumption, attempts=consumption.attempts + 1)
            )
        if transition is Transition.REOPENED:
            return _change(stream, transition, replace(consumption, epoch=consumption.epoch + 1))
        if transition is Transition.COMMITTED:
            own = next(item for item in consumption.streams if item.stream_id == stream.stream_id)
            stream = replace(
                stream,
                offset=own.through,
                last_consumption_id=consumption.consumption_id,
                last_consumer=consumption.consumer,
                last_outcome=outcome,
                last_consumed_at=self._clock(),
            )
        keeps = transition is Transition.RESOLVING
        return _change(stream, transition, consumption if keeps else None)


def _change(stream: Stream, transition: Transition, consumption: Consumption | None) -> Change:
    phase = next_phase(stream, transition)
    return Change(replace(stream, phase=phase, consumption=consumption), transition)


def _open_stream(stream: Stream, consumption: Consumption) -> Stream:
    found = stream.consumption
    if found is not None and found.consumption_id == consumption.consumption_id:
        return stream
    raise StreamConflict(
        f"stream {stream.name}",
        f"consumption {consumption.consumption_id} of {consumption.consumer} has ended",
        cause="another consumer took it over"
        + (f", {found.consumer} is consuming now" if found else ""),
        fix="run the consumer again; it begins anew from the offset as it is now",
    )
