"""Applies events to history targets, exactly once."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from pyspark.sql import DataFrame

from ...consumption.attempts import BEGIN_TRIES, ConsumptionServices
from ...consumption.consumer import Consumer, ReadBasis
from ...consumption.ports import OpenChangeSets
from ...core.consumption.batches import BatchLimit
from ...core.errors import StreamConflict, StreamMoved
from ...core.history.events import Action
from ...core.history.merge_sql import memory_merge, target_insert, target_merge
from ...core.model.access import Right, check_access
from ...core.model.outcomes import Outcome
from ...core.model.stream import Stream
from ...core.names import moment_sql, quote, stream_name
from ...storage.delta.delta_log import DeltaLog
from ...storage.files.stores import Files
from ...storage.sources.source_log import StreamSpan
from ..tables.pruning import BASE_BYTES, BASE_BYTES_READ
from .history_target import HistoryTarget
from .plans import Plan, PlannedViews, Planning
from .target_tables import HistoryTables
from .upkeep import HistoryUpkeep

METRICS = {
    Action.WRITE: "rowsWritten",
    Action.REMOVE: "rowsRemoved",
    Action.REMEMBER: "eventsRemembered",
    Action.QUARANTINE: "eventsQuarantined",
    Action.LATE: "eventsBeyondHorizon",
}
"""The metrics that an apply adds to those of its MERGE, besides those of the bytes read."""

FindEvents = Callable[[StreamSpan, OpenChangeSets], tuple[HistoryTarget, DataFrame]]
"""Returns the target, and the events in the views of a stream."""


@dataclass(frozen=True, slots=True)
class Applying:
    """Applies the changes of streams to the history targets of one session."""

    parts: ConsumptionServices
    tables: HistoryTables
    planning: Planning
    upkeep: HistoryUpkeep
    files: Files
    clock: Callable[[], datetime]

    def apply(
        self,
        subject: str,
        name: str,
        consumer: str,
        limit: BatchLimit,
        find: FindEvents,
        is_missing: Callable[[], bool] = lambda: False,
    ) -> Outcome | None:
        """Apply what waits in the stream ``name``. ``None``: nothing waits.

        :param is_missing: whether there is no target; ``find`` creates it even if nothing waits
        :param find: is called again if others move the stream or write to the target
        :raises StreamConflict: others kept doing that
        """
        for _ in range(BEGIN_TRIES):
            stream = self._freed(name, consumer)
            span = self.parts.sources.span(stream, limit=limit)
            has_commits = any(table.commits for table in span.tables)
            is_idle = not has_commits and not stream.shows_initial_rows
            if is_idle and not is_missing():
                return None
            attempt = Consumer(self.parts, consumer, limit)
            with attempt.opened(span) as views:
                target, events = find(span, views)
                if is_idle:
                    return None
                with self.planning.plan(target, events) as plan, suppress(StreamMoved):
                    return self._consumed(attempt, target, stream, views, plan)
        raise _kept_moving(subject)

    def replace_all(self, subject: str, name: str, consumer: str, find: FindEvents) -> Outcome:
        """Replace all rows of a target by those of its whole history, in one commit, and consume
        what waits in the stream ``name``.

        :param subject: the subject of errors
        :param find: returns every event up to the end of what is consumed
        :raises StreamConflict: others kept moving the stream, or kept writing to the target
        """
        for _ in range(BEGIN_TRIES):
            stream = self._freed(name, consumer)
            span = self.parts.sources.span(stream)
            attempt = Consumer(self.parts, consumer, BatchLimit())
            with attempt.opened(span) as views:
                target, events = find(span, views)
                plan_anew = self.planning.plan(target, events, is_anew=True)
                with plan_anew as plan, suppress(StreamMoved):
                    return self._consumed(attempt, target, stream, views, plan)
        raise _kept_moving(subject)

    def apply_planned(self, target: HistoryTarget, plan: Plan, consumer: str) -> Outcome:
        """Apply the only events that wait beside ``target``, from which ``plan`` was made.

        :raises StreamMoved: others took them, or wrote to the target
        """
        stream = self._freed(target.stream, consumer)
        span = self.parts.sources.span(stream)
        attempt = Consumer(self.parts, consumer, BatchLimit())
        with attempt.opened(span) as views:
            return self._consumed(attempt, target, stream, views, plan)

    def _freed(self, name: str, consumer: str) -> Stream:
        """The stream, without an open consumption. This call ends one that was killed: what it had
        to write is computed anew.
        """
        for _ in range(BEGIN_TRIES):
            stream = self.parts.registry.snapshot().get(stream_name(name))
            check_access(stream, self.parts.principal, Right.CONSUME)
            if stream.consumption is None:
                return stream
            self.parts.resolution.take_over(stream.consumption, consumer)
        raise StreamConflict(
            f"stream {name}",
            "could not be consumed",
            cause="other consumers kept taking it",
            fix="give each consumer its own stream",
        )

    def _consumed(
        self,
        attempt: Consumer,
        target: HistoryTarget,
        stream: Stream,
        views: OpenChangeSets,
        plan: Plan,
    ) -> Outcome:
        shape, relation = target.shape, quote(stream.name)
        # A killed call must not be finished with rows that were computed from other versions.
        mark = f"/* plan {uuid.uuid4().hex} */ "
        if plan.is_anew or not plan.share.files:
            write = target_insert(shape, target.sql, relation, replaces=plan.is_anew)
        else:
            write = target_merge(
                shape, target.sql, relation, plan.condition, is_small=plan.is_small
            )
        texts, versions = [mark + write], [plan.share.version]
        if plan.has_memory_rows:
            self.tables.create_memory(target)
            memory = f"delta.{quote(target.memory)}"
            texts.insert(0, mark + memory_merge(shape, memory, relation, moment_sql(self.clock())))
            newest = plan.memory_version
            if newest < 0:
                newest = DeltaLog(target.memory, self.files).latest_version()
            versions.insert(0, newest)
        basis = ReadBasis(PlannedViews(views, plan.view), tuple(versions))
        outcome = _measured(attempt.consume(texts, basis=basis), plan)
        self.upkeep.run_when_due(target)
        return outcome


def _kept_moving(subject: str) -> StreamConflict:
    return StreamConflict(
        subject,
        "could not be written",
        cause="others kept writing to it, or kept taking the stream",
        fix="let one task write to it",
    )


def _measured(outcome: Outcome, plan: Plan) -> Outcome:
    metrics = {name: plan.counts.get(action, 0) for action, name in METRICS.items()}
    metrics |= {BASE_BYTES: plan.share.total_bytes, BASE_BYTES_READ: plan.share.read_bytes}
    *others, last = outcome.statements
    measured = replace(last, metrics={**last.metrics, **metrics})
    return replace(outcome, statements=(*others, measured))
