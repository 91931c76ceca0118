"""The steps of every attempt of a consumer: open views, count, apply, commit, report."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from ..core.change_sets.read_plan import ReadPlan, Strategy
from ..core.consumption.source_notes import TakenVersions
from ..core.consumption.statement_log import StatementState
from ..core.consumption_lines import changes_line, closing_line, reading_lines, statement_line
from ..core.errors import BRING_BACK, CdcError, StatementFailed, StreamConflict, StreamStale
from ..core.model.consumption import Consumption, PlannedStatement, StreamRange, TableRange
from ..core.model.lifecycle import Transition
from ..core.model.outcomes import Outcome, StatementOutcome, StatementResult, StreamOutcome
from ..core.model.provenance import BEFORE_ALL
from ..core.model.stream import Phase, Stream
from ..core.names import consumer_name
from ..core.progress import Listener, Progress, ProtocolPoint
from ..core.shown_values import without_credentials
from ..core.sql.statements import Statement
from ..storage.registry.consumptions import Consumptions
from ..storage.registry.registry import Registry
from ..storage.sources.source_log import SourceLog, StreamSpan
from .fences import fenced_off
from .planning import Planner
from .ports import ChangeSetViews, Failure, OpenChangeSets
from .resolution import Resolution
from .targets import Targets
from .work import Works

log = logging.getLogger(__name__)

BEGIN_TRIES = 5
# How Delta's error conditions for concurrent commits begin.
_CONCURRENT = "[DELTA_CONCURRENT_"


@dataclass(frozen=True, slots=True)
class ConsumptionServices:
    """The parts of the engine that a consumption works with. Only a consumption with
    ``is_for_upserts`` may consume the streams of upsert tables.
    """

    registry: Registry
    consumptions: Consumptions
    sources: SourceLog
    change_sets: ChangeSetViews
    planner: Planner
    targets: Targets
    resolution: Resolution
    listener: Listener
    principal: str
    is_for_upserts: bool = False
    works: Works = field(default_factory=Works)


class TargetTaken(Exception):
    """A consumption left a table empty, and somebody wrote to it before it could be replaced."""


class Attempt:
    """One attempt of one consumer, and the time since it started.

    :param consumer: the stable name of the consumer
    """

    def __init__(self, parts: ConsumptionServices, consumer: str) -> None:
        self.parts = parts
        self.consumer = consumer_name(consumer)
        self.work = parts.works.new(self.consumer)
        self._started = time.monotonic()
        self._taken: dict[str, tuple[TakenVersions, ...]] = {}

    def owns(self, stream: Stream, statements: Sequence[Statement]) -> bool:
        """Whether this attempt may finish the open consumption of ``stream``. The consumption must
        have the same consumer and statements, must not be a transaction, and nobody may have begun
        to end it.
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
    ) -> AbstractContextManager[OpenChangeSets]:
        """Views over the change sets of ``spans``; see :class:`ChangeSetViews`."""
        return self.parts.change_sets.open(spans, are_read_once=are_read_once)

    def failure(self, error: Exception) -> Failure:
        """What ``error``, raised by a statement or a read, shows about it."""
        return self.parts.targets.failure(error)

    def counted(self, consumption: Consumption, views: OpenChangeSets) -> tuple[StreamOutcome, ...]:
        """The counted changes of each stream. This call computes and keeps the change sets, except
        those whose number of rows the log shows.

        :raises StreamStale: files that must be read are missing
        :raises FilesChanged: files of a folder were overwritten or removed during the read
        :raises FileUnreadable: a file of a folder cannot be read
        :raises StatementFailed: a change set could not be read
        """
        streams = [span.stream for span in views.spans]
        taken = {item.stream_id: item for item in consumption.streams}
        for stream, plans in zip(streams, views.plans, strict=True):
            self._taken[stream.stream_id] = _taken(stream, taken[stream.stream_id], plans)
            for line in reading_lines(stream, taken[stream.stream_id], plans):
                log.info("%s", line)
        began = time.monotonic()
        try:
            found = views.outcomes()
        except CdcError:
            raise
        except Exception as error:
            raise _unreadable(consumption, self.failure(error)) from error
        seconds = time.monotonic() - began
        for stream, outcome in zip(streams, found, strict=True):
            log.info("%s", changes_line(stream, outcome.rows, seconds))
        return found

    def apply(
        self,
        consumption: Consumption,
        planned: PlannedStatement,
        statement: Statement,
        views: Mapping[str, str],
    ) -> StatementOutcome:
        """Apply one statement unless its target already holds it; raises what ``Targets.apply``
        raises.

        :raises TargetTaken: somebody else wrote to an empty table that the statement replaces
        """
        self.report(ProtocolPoint.BEFORE_STATEMENT, consumption, planned.index)
        began = time.monotonic()
        state = self.parts.targets.log.state(consumption, planned)
        _check_empty(state, planned)
        result = StatementResult.ALREADY_APPLIED
        if state.applied_version is None:
            if state.fenced:
                raise fenced_off(consumption)
            if consumption.attempts > 1:
                # An earlier attempt planned it.
                self.parts.planner.check_in_place(statement, planned)
            taken = self._taken_by(consumption, statement)
            state = self.parts.targets.apply(consumption, planned, statement, views, taken)
            _check_empty(state, planned)
            result = StatementResult.APPLIED
        self.report(ProtocolPoint.AFTER_STATEMENT, consumption, planned.index)
        found = _statement_outcome(planned, state, result)
        line = statement_line(consumption, planned, found, time.monotonic() - began)
        log.info("%s", line)
        return found

    def commit(
        self,
        consumption: Consumption,
        streams: tuple[StreamOutcome, ...],
        applied: Sequence[StatementOutcome],
    ) -> Outcome:
        """Move the offsets; raises StreamConflict if somebody else ended the consumption."""
        outcome = self._outcome(consumption, streams, applied)
        self.report(ProtocolPoint.BEFORE_COMMIT, consumption)
        self.parts.consumptions.move(consumption, Transition.COMMITTED, self.consumer, outcome)
        self.report(ProtocolPoint.AFTER_COMMIT, consumption)
        log.info("%s", closing_line(outcome))
        return outcome

    def rolled_forward(self, consumption: Consumption) -> Outcome:
        """The outcome if another driver of the same consumption applied what failed here."""
        states = self.parts.targets.log.states(consumption)
        applied = [
            _statement_outcome(planned, state, StatementResult.ALREADY_APPLIED)
            for planned, state in zip(consumption.statements, states, strict=True)
        ]
        outcome = self._outcome(consumption, (), applied)
        log.info("%s", closing_line(outcome))
        return outcome

    def log_resumption(self, consumption: Consumption) -> None:
        """Log that this attempt continues what an earlier one began."""
        log.info(
            "%s: continues the consumption of stream %s that an earlier attempt began",
            self.consumer,
            consumption.stream_names,
        )

    def report(
        self,
        point: ProtocolPoint,
        consumption: Consumption | None = None,
        statement_index: int | None = None,
    ) -> None:
        """Report to the listener how far this attempt is."""
        identity = None if consumption is None else consumption.consumption_id
        self.parts.listener(Progress(point, self.consumer, identity, statement_index))

    def could_not_begin(self) -> StreamConflict:
        """The error if other consumers took a stream first at every try."""
        return StreamConflict(
            f"consumer {self.consumer}",
            "could not begin",
            cause="other consumers kept taking the stream",
            fix="give each consumer its own stream",
        )

    def _taken_by(
        self, consumption: Consumption, statement: Statement
    ) -> tuple[TakenVersions, ...]:
        """What a statement takes. In a transaction, its rows may come from any stream that was used
        before it.
        """
        return tuple(
            each
            for item in consumption.streams
            for each in self._taken[item.stream_id]
            if consumption.is_open_ended or item.name in statement.streams
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
    """The range that a consumption takes if it reads ``span``, as the registry records it."""
    tables = tuple(
        TableRange(table.start.version, table.end, table.seen_through) for table in span.tables
    )
    return StreamRange(span.stream.stream_id, span.stream.name, tables)


def _taken(
    stream: Stream, taken: StreamRange, plans: Sequence[ReadPlan]
) -> tuple[TakenVersions, ...]:
    """What a consumption takes of ``stream``, for the commits of its statements."""
    return tuple(
        TakenVersions(
            stream.name,
            without_credentials(base.source.name),
            base.source.table_id,
            BEFORE_ALL if _is_whole(table, plan) else table.after_version,
            table.through.version,
        )
        for base, table, plan in zip(stream.bases, taken.tables, plans, strict=True)
    )


def _is_whole(taken: TableRange, plan: ReadPlan) -> bool:
    """Whether a target has all rows of the source after it took this range."""
    # Healing a target compares too, but only some rows, and it names no source.
    is_recovered = plan.strategy is Strategy.COMPARISON and taken.source is not None
    return is_recovered or plan.strategy is Strategy.INITIAL_ROWS


def statement_failed(
    consumption: Consumption, planned: PlannedStatement, failure: Failure
) -> StatementFailed:
    """The error of a consumption that was undone because a statement failed."""
    cause = failure.reason
    return StatementFailed(
        f"statement {consumption.ordinal_of(planned)} on {planned.target}",
        "failed; the statements before it were undone, and no offset moved",
        cause=cause,
        fix="run the consumer again; somebody else changed the target at the same time"
        if _CONCURRENT in cause
        else "correct the statement or its data and run the consumer again",
    )


def _check_empty(state: StatementState, planned: PlannedStatement) -> None:
    if state.taken_at is not None:
        raise TargetTaken(
            f"{planned.target} exists already: a consumption that failed left it empty, and"
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
        planned.location,
    )


def _unreadable(consumption: Consumption, failure: Failure) -> CdcError:
    if "FILE_NOT_EXIST" in failure.reason:
        return StreamStale(
            f"stream {consumption.stream_names}",
            "is stale, files that it has to read were removed while it was read",
            cause=failure.first_line,
            fix=f"{BRING_BACK}; consume it within the source's delta.deletedFileRetentionDuration",
        )
    return StatementFailed(
        f"stream {consumption.stream_names}",
        "could not be read; nothing was applied and no offset moved",
        cause=failure.reason,
        fix="run the consumer again",
    )
