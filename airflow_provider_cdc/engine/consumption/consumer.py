"""Consumes streams exactly once: begins, applies and commits a consumption."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass

from ..core.consumption.batches import BatchLimit
from ..core.errors import CdcError, InvalidRange, StreamMoved, StreamStale
from ..core.model.access import Right, check_access
from ..core.model.consumption import Consumption, PlannedStatement, StreamRange
from ..core.model.lifecycle import Transition
from ..core.model.outcomes import Outcome, StatementOutcome
from ..core.model.stream import Stream
from ..core.progress import ProtocolPoint
from ..core.sql.statements import Statement, analyse, plan_streams
from ..storage.registry.registry_snapshot import RegistrySnapshot
from ..storage.sources.source_log import StreamSpan
from .attempts import BEGIN_TRIES, Attempt, ConsumptionServices, range_of, statement_failed
from .ports import OpenChangeSets
from .statement_errors import refused


@dataclass(frozen=True, slots=True)
class ReadBasis:
    """What statements were made from: the ``views`` of their only stream, and the version of the
    target of each.
    """

    views: OpenChangeSets
    target_versions: tuple[int, ...]


class Consumer:
    """One attempt of one consumer to consume the streams that its statements read.

    Snowflake: a stream advances only when a DML transaction that reads it commits. All statements
    of the transaction see the same records, from the offset to the start of the transaction.
    Databend: a failed transaction leaves the stream unchanged.

    :param confirm: called when the range to read is fixed, before anything begins; it raises if the
        statements no longer fit
    """

    def __init__(
        self,
        parts: ConsumptionServices,
        consumer: str,
        limit: BatchLimit,
        *,
        confirm: Callable[[], None] | None = None,
    ) -> None:
        self._parts = parts
        self._attempt = Attempt(parts, consumer)
        self._limit = limit
        self._confirm = confirm

    def opened(self, span: StreamSpan) -> AbstractContextManager[OpenChangeSets]:
        """A view over ``span`` that can be read before the statement that consumes it is made. The
        progress of the block is shown.
        """
        return self._shown_views([span], are_read_once=True)

    def consume(self, texts: Sequence[str], *, basis: ReadBasis | None = None) -> Outcome:
        """Apply the statements and move the offsets; see ``Engine.consume``.

        :param basis: what the statements were made from, with the views of :meth:`opened`. Only
            the rows of these views are consumed, and no later ones
        :raises StreamMoved: the stream changed or a target was written since ``basis``; nothing was
            begun
        """
        for _ in range(BEGIN_TRIES):
            snapshot = self._parts.registry.snapshot()
            statements, streams = _analysed(texts, snapshot)
            for stream in streams:
                self._check_access(stream)
            own = self._own_consumption(streams, statements)
            if own is not None:
                return self._finish(own, streams, statements)
            if basis is not None:
                _check_unmoved(streams[0], basis.views.spans[0].stream)
            if not any(stream.consumption for stream in streams):
                return self._start(snapshot, streams, statements, basis)
        raise self._attempt.could_not_begin()

    def _check_access(self, stream: Stream) -> None:
        parts = self._parts
        check_access(stream, parts.principal, Right.CONSUME, for_upserts=parts.is_for_upserts)

    def _start(
        self,
        snapshot: RegistrySnapshot,
        streams: Sequence[Stream],
        statements: Sequence[Statement],
        basis: ReadBasis | None,
    ) -> Outcome:
        consumer = self._attempt.consumer
        self._attempt.report(ProtocolPoint.BEFORE_BEGIN)
        with ExitStack() as stack:
            if basis is None:
                spans = [self._parts.sources.span(stream, limit=self._limit) for stream in streams]
                views = stack.enter_context(self._views(spans, statements))
            else:
                views = basis.views
            if self._confirm is not None:
                self._confirm()
            # What the engine made over these very views does not have to be analysed twice.
            planned = self._parts.planner.plan(
                statements, views.names, consumer, are_known=basis is not None
            )
            if basis is not None:
                _check_unwritten(planned, basis.target_versions)
            consumption = self._parts.consumptions.begin(
                snapshot, streams, [range_of(span) for span in views.spans], planned, consumer
            )
            return run_consumption(self._parts, self._attempt, consumption, statements, views)

    def _finish(
        self, found: Consumption, streams: Sequence[Stream], statements: Sequence[Statement]
    ) -> Outcome:
        """Finish the consumption that an earlier attempt of this consumer left open."""
        by_id = {stream.stream_id: stream for stream in streams}

        def views(consumption: Consumption) -> AbstractContextManager[OpenChangeSets]:
            spans = [self._pinned(by_id[item.stream_id], item) for item in consumption.streams]
            return self._views(spans, statements)

        return resume_consumption(self._parts, self._attempt, found, statements, views)

    def _views(
        self, spans: Sequence[StreamSpan], statements: Sequence[Statement]
    ) -> AbstractContextManager[OpenChangeSets]:
        return self._shown_views(spans, are_read_once=len(statements) == 1)

    @contextmanager
    def _shown_views(
        self, spans: Sequence[StreamSpan], *, are_read_once: bool
    ) -> Iterator[OpenChangeSets]:
        attempt = self._attempt
        with attempt.work.shown(), attempt.views(spans, are_read_once=are_read_once) as views:
            yield views

    def _pinned(self, stream: Stream, pinned: StreamRange) -> StreamSpan:
        ends = [table.through for table in pinned.tables]
        seen = [table.seen_through for table in pinned.tables]
        try:
            span = self._parts.sources.span(
                stream, through=[end.version for end in ends], seen_through=seen
            )
        except InvalidRange as error:
            raise StreamStale(
                f"stream {stream.name}",
                "is stale, its source lacks versions that a consumption has read",
                cause=str(error),
                fix=stream.way_back,
            ) from None
        for found, end in zip(span.tables, ends, strict=True):
            if found.end.fingerprint != end.fingerprint:
                raise StreamStale(
                    f"stream {stream.name}",
                    f"cannot be finished, its source {found.stream.source.name} was replaced",
                    cause=f"version {end.version} is a different commit now",
                    fix=stream.way_back,
                )
        return span

    def _own_consumption(
        self, streams: Sequence[Stream], statements: Sequence[Statement]
    ) -> Consumption | None:
        """The open consumption that this attempt may finish; this call ends any other one."""
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


def _check_unmoved(stream: Stream, earlier: Stream) -> None:
    # Equal offsets are not enough: others may have seen a consumption that was begun and undone.
    if (stream.stream_id, stream.sequence) != (earlier.stream_id, earlier.sequence):
        state = f"state {earlier.sequence}"
        raise _moved(f"stream {stream.name}", state, "consumed or changed by somebody else")


def _check_unwritten(planned: Sequence[PlannedStatement], versions: Sequence[int]) -> None:
    for statement, version in zip(planned, versions, strict=True):
        if statement.before_version != version:
            raise _moved(statement.target, f"version {version}", "written by somebody else")


def _moved(subject: str, before: str, what: str) -> StreamMoved:
    return StreamMoved(
        subject,
        f"was {what}",
        cause=f"it was at {before} when it was read",
        fix="run the consumer again",
    )


def run_consumption(
    parts: ConsumptionServices,
    attempt: Attempt,
    consumption: Consumption,
    statements: Sequence[Statement],
    views: OpenChangeSets,
) -> Outcome:
    """Apply the statements of a begun consumption over ``views``, and commit it."""
    resolution = parts.resolution
    attempt.report(ProtocolPoint.AFTER_BEGIN, consumption)
    attempt.work.counting(views.plans, len(statements))
    try:
        streams = attempt.counted(consumption, views)
    except CdcError:
        if not resolution.fail(consumption, attempt.consumer, has_ended=True):
            raise
        return attempt.rolled_forward(consumption)
    applied: list[StatementOutcome] = []
    try:
        for planned, statement in zip(consumption.statements, statements, strict=True):
            with attempt.work.statement(consumption, planned):
                applied.append(attempt.apply(consumption, planned, statement, views.names))
    except CdcError:
        raise
    except Exception as error:
        failure = attempt.failure(error)
        if not resolution.fail(consumption, attempt.consumer, has_ended=failure.has_ended):
            planned, statement = consumption.statements[len(applied)], statements[len(applied)]
            if statement.create is not None and failure.is_refusal:
                # Delta refuses some types and names when it writes, not when Spark plans.
                raise refused(statement, failure.first_line) from error
            raise statement_failed(consumption, planned, failure) from error
        return attempt.rolled_forward(consumption)
    return attempt.commit(consumption, streams, applied)


def resume_consumption(
    parts: ConsumptionServices,
    attempt: Attempt,
    found: Consumption,
    statements: Sequence[Statement],
    views: Callable[[Consumption], AbstractContextManager[OpenChangeSets]],
) -> Outcome:
    """Finish what an earlier attempt left open, over the ``views`` of what that attempt read."""
    consumption = parts.consumptions.move(found, Transition.RESUMED, attempt.consumer)
    attempt.log_resumption(consumption)
    with ExitStack() as stack:
        try:
            opened = stack.enter_context(views(consumption))
        except Exception:
            # What the earlier attempt read can no longer be read: commit the consumption if all of
            # it was applied, else undo it.
            if not parts.resolution.fail(consumption, attempt.consumer, has_ended=True):
                raise
            return attempt.rolled_forward(consumption)
        return run_consumption(parts, attempt, consumption, statements, opened)


def _analysed(
    texts: Sequence[str], snapshot: RegistrySnapshot
) -> tuple[list[Statement], list[Stream]]:
    names = snapshot.names
    statements = [analyse(text, names) for text in texts]
    return statements, [snapshot.get(name) for name in plan_streams(statements, names)]
