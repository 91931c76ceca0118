"""Consuming streams exactly once: begin, apply, commit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from pyspark.sql import SparkSession

from ..core.batches import BatchLimit
from ..core.errors import CdcError, StatementFailed, StreamConflict, StreamStale
from ..core.lifecycle import Transition
from ..core.model import (
    Consumption,
    Outcome,
    Phase,
    PlannedStatement,
    StatementOutcome,
    StatementResult,
    Stream,
    StreamRange,
)
from ..core.names import consumer_name
from ..core.progress import Listener, Progress, ProtocolPoint
from ..core.statements import Statement, analyse, plan_streams
from ..core.transactions import StatementState
from ..storage.consumptions import Consumptions
from ..storage.registry import Registry
from ..storage.registry_snapshot import RegistrySnapshot
from ..storage.scratch import Scratch
from ..storage.source_log import SourceLog, SourceRange
from .change_sets.reader import ChangeSetReader
from .failures import has_ended, reason
from .planning import Planner
from .resolution import Resolution
from .stream_views import StreamViews, stream_views
from .targets import Targets, fenced_off

_BEGIN_TRIES = 5


@dataclass(frozen=True, slots=True)
class Parts:
    """What the engine hands to a consumption to work with."""

    spark: SparkSession
    registry: Registry
    consumptions: Consumptions
    sources: SourceLog
    reader: ChangeSetReader
    scratch: Scratch
    planner: Planner
    targets: Targets
    resolution: Resolution
    listener: Listener


class Consumer:
    """One attempt of one consumer to consume the streams that its statements read.

    Seed 000: a stream advances only when it is used in DML that commits, and all statements of the
    transaction see the same records, from the offset to the transaction's start. Seed 001: a
    failed transaction leaves the stream as it was.
    """

    def __init__(self, parts: Parts, consumer: str, limit: BatchLimit) -> None:
        self._parts = parts
        self._consumer = consumer_name(consumer)
        self._limit = limit

    def consume(self, texts: Sequence[str]) -> Outcome:
        """Apply the statements and move the offsets; see ``Engine.consume``."""
        for _ in range(_BEGIN_TRIES):
            snapshot = self._parts.registry.snapshot()
            statements, streams = _analysed(texts, snapshot)
            own = self._own_consumption(streams, statements)
            if own is not None:
                return self._finish(own, streams, statements)
            if not any(stream.consumption for stream in streams):
                return self._start(snapshot, streams, statements)
        raise StreamConflict(
            f"consumer {self._consumer}",
            "could not begin",
            cause="other consumers kept taking the stream",
            fix="give each consumer a stream of its own",
        )

    def _start(
        self,
        snapshot: RegistrySnapshot,
        streams: Sequence[Stream],
        statements: Sequence[Statement],
    ) -> Outcome:
        started = time.monotonic()
        self._tell(ProtocolPoint.BEFORE_BEGIN)
        spans = [self._parts.sources.range(stream, limit=self._limit) for stream in streams]
        with self._views(spans) as views:
            planned = self._parts.planner.plan(statements, views.names, self._consumer)
            ranges = [
                StreamRange(span.stream.stream_id, span.stream.name, span.start.version, span.end)
                for span in spans
            ]
            consumption = self._parts.consumptions.begin(
                snapshot, streams, ranges, planned, self._consumer
            )
            return self._run(consumption, statements, views, started)

    def _finish(
        self, found: Consumption, streams: Sequence[Stream], statements: Sequence[Statement]
    ) -> Outcome:
        """Finish the consumption that an earlier attempt of this consumer left open."""
        started = time.monotonic()
        consumption = self._parts.consumptions.move(found, Transition.RESUMED, self._consumer)
        by_id = {stream.stream_id: stream for stream in streams}
        spans = [self._pinned(by_id[item.stream_id], item) for item in consumption.streams]
        with self._views(spans) as views:
            return self._run(consumption, statements, views, started)

    def _pinned(self, stream: Stream, pinned: StreamRange) -> SourceRange:
        span = self._parts.sources.range(stream, through=pinned.through.version)
        if span.end.fingerprint != pinned.through.fingerprint:
            raise StreamStale(
                f"stream {stream.name}",
                f"cannot be finished, its source {stream.source.name} was replaced",
                cause=f"version {pinned.through.version} is another commit than it was",
                fix="call engine.abort(stream), then create the stream again",
            )
        return span

    def _run(
        self,
        consumption: Consumption,
        statements: Sequence[Statement],
        views: StreamViews,
        started: float,
    ) -> Outcome:
        self._tell(ProtocolPoint.AFTER_BEGIN, consumption)
        applied: list[StatementOutcome] = []
        try:
            streams = views.outcomes()
        except Exception as error:
            self._parts.resolution.fail(consumption, self._consumer, has_ended=True)
            raise _unreadable(consumption, error) from error
        try:
            for planned, statement in zip(consumption.statements, statements, strict=True):
                applied.append(self._apply(consumption, planned, statement, views))
        except CdcError:
            raise
        except Exception as error:
            ended = has_ended(error)
            if not self._parts.resolution.fail(consumption, self._consumer, has_ended=ended):
                raise _failed(consumption.statements[len(applied)], error) from error
            return self._rolled_forward(consumption, started)
        outcome = Outcome(
            consumption.consumption_id,
            self._consumer,
            streams,
            tuple(applied),
            round(time.monotonic() - started, 3),
        )
        self._tell(ProtocolPoint.BEFORE_COMMIT, consumption)
        self._parts.consumptions.move(consumption, Transition.COMMITTED, self._consumer, outcome)
        self._tell(ProtocolPoint.AFTER_COMMIT, consumption)
        return outcome

    def _apply(
        self,
        consumption: Consumption,
        planned: PlannedStatement,
        statement: Statement,
        views: StreamViews,
    ) -> StatementOutcome:
        self._tell(ProtocolPoint.BEFORE_STATEMENT, consumption, planned.index)
        state = self._parts.targets.log.state(consumption, planned)
        result = StatementResult.ALREADY_APPLIED
        if state.applied_version is None:
            if state.fenced:
                raise fenced_off(consumption)
            state = self._parts.targets.apply(consumption, planned, statement, views.names)
            result = StatementResult.APPLIED
        self._tell(ProtocolPoint.AFTER_STATEMENT, consumption, planned.index)
        return _statement_outcome(planned, state, result)

    def _rolled_forward(self, consumption: Consumption, started: float) -> Outcome:
        """The outcome when another driver of the same consumption applied what failed here."""
        states = self._parts.targets.log.states(consumption)
        return Outcome(
            consumption.consumption_id,
            self._consumer,
            (),
            tuple(
                _statement_outcome(planned, state, StatementResult.ALREADY_APPLIED)
                for planned, state in zip(consumption.statements, states, strict=True)
            ),
            round(time.monotonic() - started, 3),
        )

    def _own_consumption(
        self, streams: Sequence[Stream], statements: Sequence[Statement]
    ) -> Consumption | None:
        """The open consumption that this attempt may finish; any other one is ended first."""
        fingerprints = [statement.fingerprint for statement in statements]
        ids = {stream.stream_id for stream in streams}
        for stream in streams:
            found = stream.consumption
            if found is None:
                continue
            if (
                stream.phase is Phase.APPLYING
                and found.consumer == self._consumer
                and set(found.stream_ids) == ids
                and [item.fingerprint for item in found.statements] == fingerprints
            ):
                return found
            self._parts.resolution.take_over(found, self._consumer)
            return None
        return None

    def _views(self, spans: Sequence[SourceRange]) -> AbstractContextManager[StreamViews]:
        return stream_views(self._parts.spark, self._parts.reader, self._parts.scratch, spans)

    def _tell(
        self,
        point: ProtocolPoint,
        consumption: Consumption | None = None,
        statement_index: int | None = None,
    ) -> None:
        identity = None if consumption is None else consumption.consumption_id
        self._parts.listener(Progress(point, self._consumer, identity, statement_index))


def _analysed(
    texts: Sequence[str], snapshot: RegistrySnapshot
) -> tuple[list[Statement], list[Stream]]:
    names = [stream.name for stream in snapshot.streams()]
    statements = [analyse(text, names) for text in texts]
    return statements, [snapshot.get(name) for name in plan_streams(statements)]


def _statement_outcome(
    planned: PlannedStatement, state: StatementState, result: StatementResult
) -> StatementOutcome:
    return StatementOutcome(
        planned.index,
        planned.target,
        result,
        state.applied_version or 0,
        state.metrics,
        planned.rewritten_as,
    )


def _failed(planned: PlannedStatement, error: Exception) -> StatementFailed:
    return StatementFailed(
        f"statement {planned.index} on {planned.target}",
        "failed; what was applied before it was undone, and no offset moved",
        cause=reason(error),
        fix="correct the statement or its data and run the consumer again",
    )


def _unreadable(consumption: Consumption, error: Exception) -> CdcError:
    if "FILE_NOT_EXIST" in str(error):
        return StreamStale(
            f"stream {consumption.stream_names}",
            "is stale, files that it has to read were removed while it was read",
            cause=reason(error).partition("\n")[0],
            fix="create the stream again, and consume it within the source's"
            " delta.deletedFileRetentionDuration",
        )
    return StatementFailed(
        f"stream {consumption.stream_names}",
        "could not be read; nothing was applied and no offset moved",
        cause=reason(error),
        fix="run the consumer again",
    )
