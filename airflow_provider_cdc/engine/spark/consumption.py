"""Consuming streams exactly once: begin, apply, commit."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack

from ..core.access import Right, check_access
from ..core.batches import BatchLimit
from ..core.errors import CdcError, FilesChanged, StreamMoved, StreamStale
from ..core.lifecycle import Transition
from ..core.model import Consumption, Stream, StreamRange
from ..core.outcomes import Outcome, StatementOutcome
from ..core.progress import ProtocolPoint
from ..core.statements import Statement, analyse, plan_streams
from ..storage.registry_snapshot import RegistrySnapshot
from ..storage.source_log import StreamSpan
from .attempts import BEGIN_TRIES, Attempt, Parts, range_of, statement_failed
from .failures import has_ended
from .stream_views import StreamViews


class Consumer:
    """One attempt of one consumer to consume the streams that its statements read.

    Seed 000: a stream advances only when it is used in DML that commits, and all statements of the
    transaction see the same records, from the offset to the transaction's start. Seed 001: a
    failed transaction leaves the stream as it was.
    """

    def __init__(self, parts: Parts, consumer: str, limit: BatchLimit) -> None:
        self._parts = parts
        self._attempt = Attempt(parts, consumer)
        self._limit = limit

    def consume(self, texts: Sequence[str], *, standing: Stream | None = None) -> Outcome:
        """Apply the statements and move the offsets; see ``Engine.consume``.

        :param standing: the only stream, as it stood when the statements were made: where its
            offset has moved since, nothing is begun
        :raises StreamMoved: it has
        """
        for _ in range(BEGIN_TRIES):
            snapshot = self._parts.registry.snapshot()
            statements, streams = _analysed(texts, snapshot)
            for stream in streams:
                check_access(stream, self._parts.principal, Right.CONSUME)
            own = self._own_consumption(streams, statements)
            if own is not None:
                return self._finish(own, streams, statements)
            if standing is not None and streams[0].offset != standing.offset:
                raise _moved(standing)
            if not any(stream.consumption for stream in streams):
                return self._start(snapshot, streams, statements)
        raise self._attempt.could_not_begin()

    def _start(
        self,
        snapshot: RegistrySnapshot,
        streams: Sequence[Stream],
        statements: Sequence[Statement],
    ) -> Outcome:
        consumer = self._attempt.consumer
        self._attempt.tell(ProtocolPoint.BEFORE_BEGIN)
        spans = [self._parts.sources.span(stream, limit=self._limit) for stream in streams]
        with self._views(spans, statements) as views:
            planned = self._parts.planner.plan(statements, views.names, consumer)
            consumption = self._parts.consumptions.begin(
                snapshot, streams, [range_of(span) for span in spans], planned, consumer
            )
            return run_consumption(self._parts, self._attempt, consumption, statements, views)

    def _finish(
        self, found: Consumption, streams: Sequence[Stream], statements: Sequence[Statement]
    ) -> Outcome:
        """Finish the consumption that an earlier attempt of this consumer left open."""
        consumption = self._parts.consumptions.move(
            found, Transition.RESUMED, self._attempt.consumer
        )
        by_id = {stream.stream_id: stream for stream in streams}
        spans = [self._pinned(by_id[item.stream_id], item) for item in consumption.streams]
        with ExitStack() as stack:
            try:
                views = stack.enter_context(self._views(spans, statements))
            except FilesChanged:
                # What the earlier attempt read is lost: the next consumption begins anew.
                consumer = self._attempt.consumer
                if not self._parts.resolution.fail(consumption, consumer, has_ended=True):
                    raise
                return self._attempt.rolled_forward(consumption)
            return run_consumption(self._parts, self._attempt, consumption, statements, views)

    def _views(
        self, spans: Sequence[StreamSpan], statements: Sequence[Statement]
    ) -> AbstractContextManager[StreamViews]:
        return self._attempt.views(spans, are_read_once=len(statements) == 1)

    def _pinned(self, stream: Stream, pinned: StreamRange) -> StreamSpan:
        ends = [table.through for table in pinned.tables]
        seen = [table.seen_through for table in pinned.tables]
        span = self._parts.sources.span(
            stream, through=[end.version for end in ends], seen_through=seen
        )
        for found, end in zip(span.tables, ends, strict=True):
            if found.end.fingerprint != end.fingerprint:
                raise StreamStale(
                    f"stream {stream.name}",
                    f"cannot be finished, its source {found.stream.source.name} was replaced",
                    cause=f"version {end.version} is another commit than it was",
                    fix="call engine.abort(stream), then create the stream again",
                )
        return span

    def _own_consumption(
        self, streams: Sequence[Stream], statements: Sequence[Statement]
    ) -> Consumption | None:
        """The open consumption that this attempt may finish; any other one is ended first."""
        ids = {stream.stream_id for stream in streams}
        for stream in streams:
            found = stream.consumption
            if found is None:
                continue
            if self._attempt.owns(stream, statements) and set(found.stream_ids) == ids:
                return found
            self._parts.resolution.take_over(found, self._attempt.consumer)
            return None
        return None


def _moved(stream: Stream) -> StreamMoved:
    return StreamMoved(
        f"stream {stream.name}",
        "was consumed by somebody else",
        cause=f"it stood at version {stream.offset.version} when the statements were made",
        fix="make them anew",
    )


def run_consumption(
    parts: Parts,
    attempt: Attempt,
    consumption: Consumption,
    statements: Sequence[Statement],
    views: StreamViews,
) -> Outcome:
    """Apply the statements of a consumption that has begun, over ``views``, and commit it."""
    resolution = parts.resolution
    attempt.tell(ProtocolPoint.AFTER_BEGIN, consumption)
    try:
        streams = attempt.counted(consumption, views)
    except CdcError:
        if not resolution.fail(consumption, attempt.consumer, has_ended=True):
            raise
        return attempt.rolled_forward(consumption)
    applied: list[StatementOutcome] = []
    try:
        for planned, statement in zip(consumption.statements, statements, strict=True):
            applied.append(attempt.apply(consumption, planned, statement, views.names))
    except CdcError:
        raise
    except Exception as error:
        if not resolution.fail(consumption, attempt.consumer, has_ended=has_ended(error)):
            raise statement_failed(consumption.statements[len(applied)], error) from error
        return attempt.rolled_forward(consumption)
    return attempt.commit(consumption, streams, applied)


def _analysed(
    texts: Sequence[str], snapshot: RegistrySnapshot
) -> tuple[list[Statement], list[Stream]]:
    names = [stream.name for stream in snapshot.streams()]
    statements = [analyse(text, names) for text in texts]
    return statements, [snapshot.get(name) for name in plan_streams(statements)]
