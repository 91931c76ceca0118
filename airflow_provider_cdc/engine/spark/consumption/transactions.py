"""Transactions: a block of code whose statements see the same records and consume them together."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame

from ...consumption.attempts import BEGIN_TRIES, Attempt, range_of, statement_failed
from ...core.arguments.validation import validated
from ...core.consumption.batches import BatchLimit
from ...core.errors import CdcError, InvalidRequest, InvalidStatement, StreamConflict
from ...core.model.access import Right, check_access
from ...core.model.consumption import Consumption, PlannedStatement
from ...core.model.outcomes import Outcome, StatementOutcome, StreamOutcome
from ...core.model.stream import Phase, Stream
from ...core.names import quote, table_name
from ...core.near_names import stream_meant
from ...core.progress import ProtocolPoint
from ...core.sql.statements import Statement, analyse, bind
from ...core.sql.stream_queries import analyse_query, bind_query
from ...core.sql.stream_references import subject
from ...storage.registry.registry_snapshot import RegistrySnapshot
from ...storage.sources.source_pins import SourcePins
from ..session.failures import first_line
from ..tables.store_assignment import StoreAssignment
from .stream_views import SparkChangeSets, StreamViews

_INSERTS = {"append": "INSERT INTO", "overwrite": "INSERT OVERWRITE"}


@validated
class Transaction:
    """BEGIN ... COMMIT: every statement sees the same records of a stream, and all streams that
    were used move together when the block ends.

    Snowflake: in a transaction a stream returns the records from its offset to the start of the
    transaction. So the next transaction sees the writes of this transaction to a source. The offset
    moves to the start of the transaction when it commits and a DML statement has used the stream. A
    query by itself moves nothing. The engine cannot see how the rows of :meth:`stream` are used, so
    a call of it counts as a use.

    Each statement is applied when it is called, and readers of its target see it from then on
    (Delta has no commit over several tables). A failure undoes all of them. Only one thread at a
    time may use a transaction.
    """

    def __init__(
        self,
        attempt: Attempt,
        change_sets: SparkChangeSets,
        start: RegistrySnapshot,
        pins: SourcePins,
        limit: BatchLimit,
        open_views: ExitStack,
    ) -> None:
        self._attempt = attempt
        self._parts = attempt.parts
        self._spark = change_sets.spark
        self._change_sets = change_sets
        self._start = start
        self._pins = pins
        self._limit = limit
        self._open_views = open_views
        self._stream_names = start.names
        self._views: dict[str, StreamViews] = {}
        self._names: dict[str, str] = {}
        self._used: dict[str, StreamOutcome] = {}
        self._applied: list[StatementOutcome] = []
        self._consumption: Consumption | None = None
        self._failure: BaseException | None = None
        self._is_undone = False
        self._has_ended = False
        self._outcome: Outcome | None = None

    @property
    def outcome(self) -> Outcome | None:
        """What was consumed, after the block has ended; ``None``: no stream was used."""
        return self._outcome

    def stream(self, name: str) -> DataFrame:
        """The change set of a stream, from its offset to the transaction's start, computed once.

        The stream is consumed when the transaction commits, even if the rows are not used. They can
        be read until the block ends.

        :returns: the columns of the source, then action, is-update and row id, as ``read_stream``
        :raises StreamNotFound: there was no such stream when the transaction started
        :raises StreamAccessDenied: the principal may not consume it
        :raises InvalidRequest: it is the stream of an upsert table
        :raises StreamConflict: another consumer moved it since
        :raises StreamUnusable: its change set can no longer be read
        """
        self._check_open()
        names = (self._start.get(name).name,)
        snapshot = self._freed(names)
        self._open_missing(snapshot, names)
        with self._at_stake():
            self._take(snapshot, names, ())
        return self._spark.table(self._names[names[0]])

    def sql(self, text: str) -> DataFrame | StatementOutcome:
        """Run a query, or apply a statement that writes.

        A query returns its rows, which can be read until the block ends, and consumes nothing. DML
        and CREATE TABLE AS are applied at once. The streams that they read are consumed when the
        transaction commits. A statement that reads no stream may follow one that does.

        :param text: one statement; it reads streams by name
        :returns: the rows of a query; the outcome of any other statement
        :raises InvalidStatement: it cannot take part; nothing of it was done, and the block may
            continue
        :raises StreamAccessDenied: the principal may not read, or may not consume, a stream
        :raises InvalidRequest: it would consume the stream of an upsert table
        :raises StatementFailed: it failed, and the whole transaction was undone
        :raises StreamConflict: another consumer moved a stream first
        :raises ConsumptionOpen: it failed, and what was done before could not be undone
        :raises FilesChanged: a file of a folder was overwritten or removed during the read
        :raises FileUnreadable: a file of a folder cannot be read
        """
        self._check_open()
        query = analyse_query(text, self._stream_names)
        if query is None:
            return self._do(analyse(text, self._stream_names))
        snapshot = self._parts.registry.snapshot()
        self._check_access(snapshot, query.streams, Right.READ)
        opened = [name for name in query.streams if name not in self._views]
        self._open_missing(snapshot, query.streams)
        for name in opened:
            self._views[name].settle()
        try:
            return self._spark.sql(bind_query(query, self._names))
        except AnalysisException as error:
            raise InvalidStatement(
                subject(query.text),
                "is refused by Spark",
                cause=first_line(error),
                fix=stream_meant(query.other_tables, self._stream_names) or "correct the query",
            ) from None

    def write(self, rows: DataFrame, target: str, *, mode: str = "append") -> StatementOutcome:
        """Write a DataFrame of this session to a Delta table. Columns and the fields in them are
        matched by name, as in Delta's store assignment, independent of the session's settings.

        The write is a statement like those of :meth:`sql`: it is applied at once, exactly once, and
        undone with the transaction. It counts as a use of the streams that the rows are made of.

        :param rows: such as rows made of what :meth:`stream` returns
        :param target: a catalog name or the path of an existing Delta table
        :param mode: ``append``, or ``overwrite`` as INSERT OVERWRITE does it
        :raises InvalidRequest: there is no such mode, or the columns do not fit those of the target
        :raises StatementFailed: a value does not fit, and the whole transaction was undone
        """
        self._check_open()
        if mode not in _INSERTS:
            raise InvalidRequest(
                f"target {target}",
                "cannot be written with this mode",
                cause=f"{mode!r} is not a mode",
                fix=f"set mode to one of {', '.join(_INSERTS)}",
            )
        table, spark = self._parts.planner.delta_table(table_name(target)), self._spark
        fix = "select the columns of the target, and cast values of another type"
        assignment = StoreAssignment(spark, f"target {table.name}", "cannot hold these rows", fix)
        stored = assignment.rows(rows, spark.table(table.sql).schema)
        columns = ", ".join(map(quote, stored.columns))
        view = f"cdc_{uuid.uuid4().hex}"
        text = f"{_INSERTS[mode]} {table.sql} ({columns}) SELECT {columns} FROM {quote(view)}"
        stored.createOrReplaceTempView(view)
        try:
            return self._do(analyse(text, self._stream_names))
        finally:
            spark.catalog.dropTempView(view)

    def _do(self, statement: Statement) -> StatementOutcome:
        snapshot, names = self._freed(statement.streams), statement.streams
        self._open_missing(snapshot, names)
        if unnamed := self._read_unnamed(statement):
            names = (*names, *unnamed)
            snapshot = self._freed(names)
        if self._consumption is None and not names:
            raise InvalidStatement(
                subject(statement.text),
                "comes before the transaction has used a stream",
                cause="until then the engine cannot undo a statement",
                fix=stream_meant(statement.other_tables, self._stream_names)
                or "use a stream first, such as with tx.stream(name), or run the statement before"
                " the block",
            )
        found = self._parts.planner.plan([statement], self._names, self._attempt.consumer)
        planned = replace(found[0], index=len(self._applied))
        with self._at_stake():
            consumption = self._take(snapshot, names, [planned])
            self._applied.append(self._apply(consumption, planned, statement))
        return self._applied[-1]

    def _read_unnamed(self, statement: Statement) -> list[str]:
        """The streams that ``statement`` reads through the rows of an earlier query, not by name:
        its plan shows their views.
        """
        unused = [name for name in self._views if name not in (*self._used, *statement.streams)]
        if not unused:
            return []
        text = bind(statement, self._names)
        try:
            plan = self._spark.sql(f"EXPLAIN EXTENDED {text}").collect()
        except PySparkException:
            return []  # the planner refuses it
        return [name for name in unused if self._names[name] in plan[0][0]]

    def _apply(
        self, consumption: Consumption, planned: PlannedStatement, statement: Statement
    ) -> StatementOutcome:
        work = self._attempt.work
        try:
            with work.shown(), work.statement(consumption, planned):
                return self._attempt.apply(consumption, planned, statement, self._names)
        except CdcError:
            self._undo(has_ended=False)
            raise
        except Exception as error:
            failure = self._attempt.failure(error)
            self._undo(has_ended=failure.has_ended)
            raise statement_failed(consumption, planned, failure) from error

    def _freed(self, names: Sequence[str]) -> RegistrySnapshot:
        """The registry without open consumptions of other consumers on the streams that join the
        transaction. This call ends such consumptions.

        :raises StreamAccessDenied: the principal may not consume one of them
        :raises StreamConflict: somebody else ended the transaction itself
        """
        joining = [name for name in names if name not in self._used]
        for _ in range(BEGIN_TRIES):
            snapshot = self._parts.registry.snapshot()
            self._check_access(snapshot, names, Right.CONSUME)
            if self._consumption is not None:
                self._parts.consumptions.streams(snapshot, self._consumption)
            others = [found for name in joining if (found := self._now(snapshot, name).consumption)]
            if not others:
                return snapshot
            self._parts.resolution.take_over(others[0], self._attempt.consumer)
        raise self._attempt.could_not_begin()

    def _check_access(self, snapshot: RegistrySnapshot, names: Sequence[str], right: Right) -> None:
        for name in names:
            check_access(self._now(snapshot, name), self._parts.principal, right)

    def _open_missing(self, snapshot: RegistrySnapshot, names: Sequence[str]) -> None:
        """Open a view for each stream that does not have one."""
        for name in names:
            if name not in self._views:
                span = self._pins.span(self._now(snapshot, name), self._limit)
                opened = self._open_views.enter_context(self._change_sets.open([span]))
                self._views[name] = opened
                # The stream may have been renamed since.
                self._names[name] = opened.names[span.stream.name]

    def _take(
        self,
        snapshot: RegistrySnapshot,
        names: Sequence[str],
        statements: Sequence[PlannedStatement],
    ) -> Consumption:
        """Record the next steps before they are done: the streams of ``names`` that are used for
        the first time, and ``statements``.
        """
        joining = [name for name in names if name not in self._used]
        consumption = self._consumption
        if consumption is None or joining or statements:
            consumption = self._recorded(snapshot, joining, statements)
        for name in joining:
            # Counting computes the change set, before the statements read it.
            views, work = self._views[name], self._attempt.work
            with work.shown():
                work.counting(views.plans, None)
                (self._used[name],) = self._attempt.counted(consumption, views)
        return consumption

    def _recorded(
        self,
        snapshot: RegistrySnapshot,
        joining: Sequence[str],
        statements: Sequence[PlannedStatement],
    ) -> Consumption:
        streams = [self._now(snapshot, name) for name in joining]
        spans = [self._views[name].spans[0] for name in joining]
        for stream, span in zip(streams, spans, strict=True):
            if _position(stream) != _position(span.stream):
                raise StreamConflict(
                    f"stream {stream.name}",
                    "was moved while the transaction was reading it",
                    cause="another consumer moved it first",
                    fix="run the transaction again",
                )
        attempt, consumptions = self._attempt, self._parts.consumptions
        ranges = [range_of(span) for span in spans]
        if self._consumption is None:
            attempt.report(ProtocolPoint.BEFORE_BEGIN)
            self._consumption = consumptions.begin(
                snapshot, streams, ranges, statements, attempt.consumer, is_open_ended=True
            )
            attempt.report(ProtocolPoint.AFTER_BEGIN, self._consumption)
        else:
            attempt.report(ProtocolPoint.BEFORE_EXTEND, self._consumption)
            self._consumption = consumptions.extend(
                snapshot, self._consumption, streams, ranges, statements
            )
            attempt.report(ProtocolPoint.AFTER_EXTEND, self._consumption)
        return self._consumption

    def _now(self, snapshot: RegistrySnapshot, name: str) -> Stream:
        """The stream that had that name when the transaction started, as it is now."""
        return snapshot.by_id(self._start.get(name).stream_id)

    def _check_open(self) -> None:
        if self._has_ended or self._failure is not None:
            raise InvalidRequest(
                f"transaction of {self._attempt.consumer}",
                "cannot be used any more",
                cause="it has ended" if self._failure is None else f"it failed: {self._failure}",
                fix="begin another one with engine.transaction()",
            )

    @contextmanager
    def _at_stake(self) -> Iterator[None]:
        """A block whose failure ends the transaction at once, even if the user's code continues."""
        try:
            yield
        except Exception as error:
            self._failure = error
            self._undo(has_ended=True)
            raise
        except BaseException as interrupt:
            # The next attempt undoes the transaction, as after a crash of the driver.
            self._failure = interrupt
            raise

    def _undo(self, *, has_ended: bool) -> None:
        """Undo all of the transaction; only the first call tries it.

        :param has_ended: none of its statements still runs
        :raises ConsumptionOpen: somebody else has written to a target
        """
        if self._consumption is None or self._is_undone:
            return
        self._is_undone = True
        consumptions, resolution = self._parts.consumptions, self._parts.resolution
        try:
            # A consumer that took the consumption over undoes it.
            with suppress(StreamConflict):
                if consumptions.phase(self._consumption) is Phase.APPLYING:
                    resolution.fail(self._consumption, self._attempt.consumer, has_ended=has_ended)
        except Exception as error:
            self._failure = error
            raise

    def _roll_back(self) -> None:
        """End the transaction after the block failed. A statement may still run, for example one
        that was interrupted, if the block turned the interrupt into another error.
        """
        self._has_ended = True
        self._undo(has_ended=False)

    def _commit(self) -> None:
        """End the transaction after the block succeeded."""
        self._has_ended = True
        if self._failure is not None:
            raise self._failure
        if self._consumption is not None:
            streams = tuple(self._used.values())
            self._outcome = self._attempt.commit(self._consumption, streams, self._applied)


def _position(stream: Stream) -> tuple[object, ...]:
    """Values that change whenever a stream is consumed or advanced."""
    return stream.bases, stream.last_consumed_at


@contextmanager
def transaction(
    attempt: Attempt, change_sets: SparkChangeSets, limit: BatchLimit
) -> Iterator[Transaction]:
    """The block of one transaction; see ``Engine.transaction``."""
    _end_unfinished(attempt)
    start = attempt.parts.registry.snapshot()
    pins = SourcePins(attempt.parts.sources, start.streams())
    with ExitStack() as open_views:
        found = Transaction(attempt, change_sets, start, pins, limit, open_views)
        try:
            yield found
        except Exception:
            found._roll_back()
            raise
        found._commit()


def _end_unfinished(attempt: Attempt) -> None:
    """Undo what an earlier attempt of this consumer left of a transaction. This comes before the
    sources are read, because an undo may write to them.
    """
    for _ in range(BEGIN_TRIES):
        left = {
            found.consumption_id: found
            for stream in attempt.parts.registry.snapshot().streams()
            if (found := stream.consumption)
            and found.is_open_ended
            and found.consumer == attempt.consumer
        }
        if not left:
            return
        for found in left.values():
            attempt.parts.resolution.take_over(found, attempt.consumer)
    raise attempt.could_not_begin()
