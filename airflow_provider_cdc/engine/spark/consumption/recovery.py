"""Recovers a target after its stream went stale: writes only the rows that differ.

The engine compares the newest rows of the source with the rows of the target by a key. The
difference is a change set like any other. A consumption merges it into the target and ends at the
source's newest version. The protocol is the same as for other consumptions: if the driver crashes,
the consumption is finished or undone, and nothing is applied twice. The engine compares source rows
in the form in which the target would store them, independent of the session's settings. It matches
fields by name, and a value that does not fit is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import CharType, StructField

from ...consumption.attempts import BEGIN_TRIES, Attempt, ConsumptionServices
from ...consumption.consumer import resume_consumption, run_consumption
from ...core.change_sets.read_plan import ReadPlan, Strategy
from ...core.delta.table_features import check_readable
from ...core.delta.tracking import ENABLED, is_tracked
from ...core.errors import ChangeTrackingDisabled, InvalidRequest, StatementFailed
from ...core.model.access import Right, check_access
from ...core.model.consumption import Consumption, StreamRange, TableRange
from ...core.model.outcomes import Outcome
from ...core.model.sources import Base
from ...core.model.stream import METADATA_COLUMNS, Stream, StreamMode
from ...core.names import quote, stream_name
from ...core.progress import ProtocolPoint
from ...core.sql.statements import Statement, analyse
from ...storage.registry.registry_snapshot import RegistrySnapshot
from ...storage.sources.source_log import SourceRange, StreamSpan
from ..change_sets.metadata_columns import with_metadata_columns
from ..change_sets.netting import NEW, OLD, changes_of, same_values
from ..change_sets.row_columns import ROW, ROW_ID
from ..reading.stream_reader import StreamChanges, StreamReader
from ..session.session_settings import settings
from ..tables.delta_tables import Tables
from ..tables.store_assignment import declared_type, unfit_value
from .keyed_targets import KeyedTarget, keyed_target
from .stream_views import SparkChangeSets, StreamViews

# Delta's MERGE does not match a column that Spark pads with spaces when it reads it.
_AS_IT_IS_STORED = {"spark.sql.readSideCharPadding": "false"}
_LOAD_ANEW = "load the target again with the statements that fill it"


class Recovery:
    """One attempt of one consumer to recover a target.

    :param within: returns the condition of the rows to compare, by the side that they are on. Then
        the target is healed: it becomes equal to the source at the offset, which does not move
    """

    def __init__(
        self,
        parts: ConsumptionServices,
        change_sets: SparkChangeSets,
        reader: StreamReader,
        tables: Tables,
        consumer: str,
        *,
        within: Callable[[str], Column] | None = None,
    ) -> None:
        self._parts = parts
        self._within = within
        self._spark = change_sets.spark
        self._scratch = change_sets.scratch
        self._reader = reader
        self._tables = tables
        self._attempt = Attempt(parts, consumer)

    def recover(self, name: str, target: str, key: str | Collection[str]) -> Outcome:
        """Merge the difference into the target; see ``Engine.recover_stream``."""
        found = keyed_target(self._spark, self._tables, target, key, "recovered")
        padding = settings(self._spark, _AS_IT_IS_STORED) if found.has_padded_key else None
        shown = self._attempt.work.shown()
        with shown, _naming_what_does_not_fit(found), padding or nullcontext():
            return self._recover(name, found)

    def _recover(self, name: str, found: KeyedTarget) -> Outcome:
        for _ in range(BEGIN_TRIES):
            snapshot = self._parts.registry.snapshot()
            stream = snapshot.get(stream_name(name))
            check_access(stream, self._parts.principal, Right.CONSUME)
            self._check_source(stream)
            statement = analyse(_merge(stream, found), [stream.name])
            open_one = stream.consumption
            if open_one is None:
                return self._start(snapshot, stream, statement, found)
            if self._attempt.owns(stream, [statement]):
                return self._finish(stream, open_one, statement, found)
            self._parts.resolution.take_over(open_one, self._attempt.consumer)
        raise self._attempt.could_not_begin()

    def _start(
        self, snapshot: RegistrySnapshot, stream: Stream, statement: Statement, target: KeyedTarget
    ) -> Outcome:
        self._attempt.report(ProtocolPoint.BEFORE_BEGIN)
        taken = tuple(map(self._taken, stream.by_base()))
        wanted = [StreamRange(stream.stream_id, stream.name, taken)]
        consumer = self._attempt.consumer
        with self._views(stream, taken, target) as views:
            planned = self._parts.planner.plan([statement], views.names, consumer)
            consumption = self._parts.consumptions.begin(
                snapshot, [stream], wanted, planned, consumer
            )
            return run_consumption(self._parts, self._attempt, consumption, [statement], views)

    def _taken(self, stream: Stream) -> TableRange:
        """The whole range of a base table, up to its newest version. The table at its location may
        be another one now.
        """
        if self._within is not None:
            return TableRange(stream.offset.version, stream.offset)
        end = self._parts.sources.newest_offset(stream.source.location)
        subject = f"stream {stream.name}"
        problem = f"cannot advance to the newest version of {stream.source.name}"
        check_readable(subject, problem, end.protocol)
        if not is_tracked(end.metadata):
            raise ChangeTrackingDisabled(
                subject,
                problem,
                cause="its row tracking is off",
                fix=f"ALTER TABLE {stream.source.name} SET TBLPROPERTIES ('{ENABLED}' = 'true')",
            )
        source = replace(stream.source, table_id=end.table_id)
        return TableRange(stream.offset.version, end, source=source)

    def _finish(
        self, stream: Stream, found: Consumption, statement: Statement, target: KeyedTarget
    ) -> Outcome:
        """Finish what an earlier attempt left open, at the versions at which it began."""

        def views(consumption: Consumption) -> AbstractContextManager[StreamViews]:
            (taken,) = (item.tables for item in consumption.streams)
            return self._views(stream, taken, target)

        return resume_consumption(self._parts, self._attempt, found, [statement], views)

    def _views(
        self, stream: Stream, taken: Sequence[TableRange], target: KeyedTarget
    ) -> AbstractContextManager[StreamViews]:
        """A view under the stream's name that holds the difference."""
        bases = tuple(
            Base(table.source or base.source, table.through)
            for base, table in zip(stream.bases, taken, strict=True)
        )
        now = replace(stream, bases=bases)
        ends = (SourceRange(each, each.offset, each.offset, ()) for each in now.by_base())
        difference = _Difference(self._spark, self._reader, target, self._within)
        span = StreamSpan(now, tuple(ends))
        return SparkChangeSets(self._spark, difference, self._scratch).open([span])

    def _check_source(self, stream: Stream) -> None:
        if stream.mode is StreamMode.FEED:
            raise InvalidRequest(
                f"stream {stream.name}",
                "cannot be recovered",
                cause="it returns each change of each commit, and the rows of its source do not"
                " show the changes that were lost",
                fix="create the stream again with or_replace=True; with show_initial_rows=True it"
                " begins with all rows",
            )
        if stream.folder is not None:
            raise InvalidRequest(
                f"stream {stream.name}",
                "cannot be recovered",
                cause=f"it is on the folder {stream.table_on}, whose files have no key",
                fix="create the stream again with or_replace=True and at=Version(0), and load"
                " its targets again",
            )


@dataclass(frozen=True, slots=True)
class _Difference:
    """Reads the rows in which a target differs from the end of a source.

    ``within`` returns the condition of the rows to compare, by the side that they are on.
    """

    spark: SparkSession
    reader: StreamReader
    target: KeyedTarget
    within: Callable[[str], Column] | None

    def read(self, span: StreamSpan) -> StreamChanges:
        """The change set that makes the target equal to the source. For an append-only stream: the
        rows that the target lacks.

        :raises InvalidRequest: the source lacks a column or a field of the target, a column has a
            type that the target does not store, or rows share a key
        """
        source, target = span.stream.table_on, self.target
        now = self.reader.all_rows(span)
        flat = now.select(ROW_ID, f"{ROW}.*")
        in_one = F.struct(*map(quote, target.columns))
        new = target.stored(self.spark, flat, source, [ROW_ID])
        new = new.select(ROW_ID, in_one.alias(NEW))
        old = self.spark.read.format("delta").load(target.table.location)
        # Pad the values of a CHAR here too: not every writer and every session pads them.
        old = target.stored(self.spark, old, source).select(in_one.alias(OLD))
        if self.within is not None:
            new, old = new.where(self.within(NEW)), old.where(self.within(OLD))
        self._check_unique(new, NEW, source)
        self._check_unique(old, OLD, target.table.name)
        pairs = new.join(old, self._same_key(), "full_outer")
        if span.stream.mode is StreamMode.APPEND_ONLY:
            # Snowflake: an append-only stream ignores updates and deletes, so the target's rows
            # stay.
            pairs = pairs.where(f"{OLD} IS NULL")
        changes = changes_of(
            pairs, f"{OLD} IS NOT NULL", f"{NEW} IS NOT NULL", same_values(target.schema)
        )
        rows = with_metadata_columns(changes, target.columns, span.stream.column_style, ROW_ID)
        reason = "the stream is stale: the rows of the source and of the target are compared"
        plan = ReadPlan(Strategy.COMPARISON, 0, 0, 0, reason)
        return StreamChanges(rows, (plan,) * len(span.tables), (), ())

    def _same_key(self) -> Column:
        pairs = (
            F.col(f"{NEW}.{name}").eqNullSafe(F.col(f"{OLD}.{name}"))
            for name in map(quote, self.target.key)
        )
        return reduce(lambda left, right: left & right, pairs)

    def _check_unique(self, rows: DataFrame, side: str, name: str) -> None:
        key = [F.col(f"{side}.{quote(column)}").alias(column) for column in self.target.key]
        found = rows.select(*key).groupBy(*map(quote, self.target.key)).count()
        twice = found.where("count > 1").first()
        if twice is not None:
            raise InvalidRequest(
                f"target {self.target.table.name}",
                f"cannot be recovered by the key {', '.join(self.target.key)}",
                cause=f"{twice['count']} rows of {name} have the key {tuple(twice)[:-1]}",
                fix="name a key that identifies every row",
            )


def _merge(stream: Stream, target: KeyedTarget) -> str:
    """The MERGE of the difference, which has the stream's name."""
    names = METADATA_COLUMNS[stream.column_style]
    action, is_update = quote(names.action), quote(names.is_update)
    columns = [quote(name) for name in target.columns]
    same_key = " AND ".join(map(_is_same_key, target.key_fields))
    return (
        f"MERGE INTO {target.table.sql} AS t USING (SELECT * FROM {quote(stream.name)}"
        f" WHERE {action} = 'INSERT' OR NOT {is_update}) AS c ON {same_key}"
        f" WHEN MATCHED AND c.{action} = 'DELETE' THEN DELETE"
        f" WHEN MATCHED THEN UPDATE SET {', '.join(f't.{name} = c.{name}' for name in columns)}"
        # A row to delete may already be missing.
        f" WHEN NOT MATCHED AND c.{action} = 'INSERT' THEN INSERT ({', '.join(columns)})"
        f" VALUES ({', '.join(f'c.{name}' for name in columns)})"
    )


def _is_same_key(column: StructField) -> str:
    """The condition that target ``t`` and difference ``c`` have the same value in a key column."""
    name, kind = quote(column.name), declared_type(column)
    held = f"t.{name}"
    if isinstance(kind, CharType):
        held = f"rpad({held}, {kind.length}, ' ')"
    return f"{held} <=> c.{name}"


@contextmanager
def _naming_what_does_not_fit(target: KeyedTarget) -> Iterator[None]:
    """Name the value that ended a job because it does not fit a column of ``target``.

    :raises StatementFailed: a value does not fit
    """
    try:
        yield
    except Exception as error:
        found = unfit_value(error)
        if found is None:
            raise
        raise StatementFailed(
            f"target {target.table.name}",
            "cannot hold a value of the source; nothing was written and no offset moved",
            cause=found,
            fix="give the column a type that holds the value, or correct the source, and recover"
            " again",
        ) from error
