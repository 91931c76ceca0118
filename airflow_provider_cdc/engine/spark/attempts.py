"""What every attempt of a consumer does: it opens views, counts, applies, commits, and says so."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from pyspark.sql import SparkSession

from ..core.errors import (
    BRING_BACK,
    CdcError,
    StatementFailed,
    StreamConflict,
    StreamStale,
)
from ..core.lifecycle import Transition
from ..core.model import Consumption, Phase, PlannedStatement, Stream, StreamRange, TableRange
from ..core.names import consumer_name
from ..core.outcomes import Outcome, StatementOutcome, StatementResult, StreamOutcome
from ..core.progress import Listener, Progress, ProtocolPoint
from ..core.statements import Statement
from ..core.transactions import StatementState
from ..storage.consumptions import Consumptions
from ..storage.registry import Registry
from ..storage.scratch import Scratch
from ..storage.source_log import SourceLog, StreamSpan
from .failures import first_line, reason
from .planning import Planner
from .resolution import Resolution
from .stream_reader import StreamReader
from .stream_views import StreamViews, stream_views
from .targets import Targets, fenced_off

BEGIN_TRIES = 5


@dataclass(frozen=True, slots=True)
class Parts:
    """What the engine hands to a consumption to work with. One that ``is_for_upserts`` may consume
    the streams of upsert tables, as no other may.
    """

    spark: SparkSession
    registry: Registry
    consumptions: Consumptions
    sources: SourceLog
    reader: StreamReader
    scratch: Scratch
    planner: Planner
    targets: Targets
    resolution: Resolution
    listener: Listener
    principal: str
    is_for_upserts: bool = False


class TargetTaken(Exception):
    """A table that a consumption had left empty is so no more: whoever was to replace it fails."""


class Attempt:
    """One attempt of one consumer, and the time since it started.

    :param consumer: who consumes
    """

    def __init__(self, parts: Parts, consumer: str) -> None:
        self.parts = parts
        self.consumer = consumer_name(consumer)
        self._started = time.monotonic()

    def owns(self, stream: Stream, statements: Sequence[Statement]) -> bool:
        """Whether this attempt may finish what ``stream`` is open in: it is the same consumer's, of
        the same statements, and nobody has begun to end it.
        """
        found = stream.consumption
        return (
            found is not None
            and stream.phase is Phase.APPLYING
            and found.consumer == self.consumer
            and not found.is_open_ended
            and [item.fingerprint for item in found.statements]
            == [statement.fingerprint for statement in statements]
        )

    def views(
        self, spans: Sequence[StreamSpan], *, are_read_once: bool = False
    ) -> AbstractContextManager[StreamViews]:
        """Temporary views over the change sets of ``spans``; see :func:`stream_views`."""
        parts = self.parts
        return stream_views(
            parts.spark, parts.reader, parts.scratch, spans, are_read_once=are_read_once
        )

    def counted(self, consumption: Consumption, views: StreamViews) -> tuple[StreamOutcome, ...]:
        """What each stream gives; this computes the change sets and keeps them, but for those whose
        rows the log counts.

        :raises StreamStale: files that have to be read are gone
        :raises FilesChanged: files of a folder were overwritten or removed while they were read
        :raises FileUnreadable: a file of a folder cannot be read
        :raises StatementFailed: a change set could not be read
        """
        try:
            return views.outcomes()
        except CdcError:
            raise
        except Exception as error:
            raise _unreadable(consumption, error) from error

    def apply(
        self,
        consumption: Consumption,
        planned: PlannedStatement,
        statement: Statement,
        views: Mapping[str, str],
    ) -> StatementOutcome:
        """Apply one statement unless its target holds it already; raises as ``Targets.apply``.

        :raises TargetTaken: somebody else has written to a table that it was to replace
        """
        self.tell(ProtocolPoint.BEFORE_STATEMENT, consumption, planned.index)
        state = self.parts.targets.log.state(consumption, planned)
        _check_empty(state, planned)
        result = StatementResult.ALREADY_APPLIED
        if state.applied_version is None:
            if state.fenced:
                raise fenced_off(consumption)
            if consumption.attempts > 1:
                # It was planned long ago.
                self.parts.planner.check_in_place(statement, planned)
            state = self.parts.targets.apply(consumption, planned, statement, views)
            _check_empty(state, planned)
            result = StatementResult.APPLIED
        self.tell(ProtocolPoint.AFTER_STATEMENT, consumption, planned.index)
        return _statement_outcome(planned, state, result)

    def commit(
        self,
        consumption: Consumption,
        streams: tuple[StreamOutcome, ...],
        applied: Sequence[StatementOutcome],
    ) -> Outcome:
        """Move the offsets; raises StreamConflict where somebody else ended the consumption."""
        outcome = self._outcome(consumption, streams, applied)
        self.tell(ProtocolPoint.BEFORE_COMMIT, consumption)
        self.parts.consumptions.move(consumption, Transition.COMMITTED, self.consumer, outcome)
        self.tell(ProtocolPoint.AFTER_COMMIT, consumption)
        return outcome

    def rolled_forward(self, consumption: Consumption) -> Outcome:
        """The outcome when another driver of the same consumption applied what failed here."""
        states = self.parts.targets.log.states(consumption)
        applied = [
            _statement_outcome(planned, state, StatementResult.ALREADY_APPLIED)
            for planned, state in zip(consumption.statements, states, strict=True)
        ]
        return self._outcome(consumption, (), applied)

    def tell(
        self,
        point: ProtocolPoint,
        consumption: Consumption | None = None,
        statement_index: int | None = None,
    ) -> None:
        """Say where this attempt stands."""
        identity = None if consumption is None else consumption.consumption_id
        self.parts.listener(Progress(point, self.consumer, identity, statement_index))

    def could_not_begin(self) -> StreamConflict:
        """The error when other consumers were first again and again."""
        return StreamConflict(
            f"consumer {self.consumer}",
            "could not begin",
            cause="other consumers kept taking the stream",
            fix="give each consumer a stream of its own",
        )

    def _outcome(
        self,
        consumption: Consumption,
        streams: tuple[StreamOutcome, ...],
        applied: Sequence[StatementOutcome],
    ) -> Outcome:
        seconds = round(time.monotonic() - self._started, 3)
        identity = consumption.consumption_id
        return Outcome(identity, self.consumer, streams, tuple(applied), seconds)


def range_of(span: StreamSpan) -> StreamRange:
    """What a consumption that reads ``span`` takes, as the registry records it."""
    tables = tuple(
        TableRange(table.start.version, table.end, table.seen_through) for table in span.tables
    )
    return StreamRange(span.stream.stream_id, span.stream.name, tables)


def statement_failed(planned: PlannedStatement, error: Exception) -> StatementFailed:
    """The error of a consumption whose statement ended in ``error`` and which was undone."""
    return StatementFailed(
        f"statement {planned.index} on {planned.target}",
        "failed; what was applied before it was undone, and no offset moved",
        cause=reason(error),
        fix="correct the statement or its data and run the consumer again",
    )


def _check_empty(state: StatementState, planned: PlannedStatement) -> None:
    if state.taken_at is not None:
        raise TargetTaken(
            f"{planned.target} exists already: it was left empty by a consumption that failed, and"
            f" somebody else has written version {state.taken_at} to it since"
        )


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


def _unreadable(consumption: Consumption, error: Exception) -> CdcError:
    if "FILE_NOT_EXIST" in str(error):
        return StreamStale(
            f"stream {consumption.stream_names}",
            "is stale, files that it has to read were removed while it was read",
            cause=first_line(error),
            fix=f"{BRING_BACK}; consume it within the source's delta.deletedFileRetentionDuration",
        )
    return StatementFailed(
        f"stream {consumption.stream_names}",
        "could not be read; nothing was applied and no offset moved",
        cause=reason(error),
        fix="run the consumer again",
    )
