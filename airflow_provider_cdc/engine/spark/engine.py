"""The engine's entry: streams on Delta tables, for notebooks and jobs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from getpass import getuser
from typing import TypeVar

from pyspark.sql import DataFrame, SparkSession

from ..catalog import StreamCatalog
from ..clock import utc_now
from ..core.batches import BatchLimit
from ..core.errors import InvalidRequest, StreamConflict
from ..core.lifecycle import Transition, next_phase
from ..core.model import AppendSemantics, ColumnStyle, Outcome, Stream, StreamMode
from ..core.names import table_name
from ..core.points import Point, bound_of
from ..core.progress import Listener
from ..core.read_plan import READING_DIFFERENCES, ReadPlan, Strategy
from ..storage.consumptions import Consumptions
from ..storage.files import Files
from ..storage.registry import Registry
from ..storage.registry_snapshot import Change
from ..storage.scratch import Scratch
from ..storage.source_history import SourceHistory
from ..storage.source_log import SourceLog
from ..stream_status import StreamStatus
from .change_sets.reader import ChangeSetReader
from .changes import TableChanges
from .consumption import Consumer, Parts
from .creation import Creation, NewStream
from .planning import Planner
from .resolution import Resolution
from .tables import Tables
from .targets import Targets

_Enumeration = TypeVar("_Enumeration", bound=StrEnum)


class _Information(StrEnum):
    """Which changes a query asks for (seed 000, CHANGES)."""

    DEFAULT = "default"
    APPEND_ONLY = "append_only"

    @property
    def mode(self) -> StreamMode:
        """The mode of a stream that returns these."""
        return StreamMode.STANDARD if self is _Information.DEFAULT else StreamMode.APPEND_ONLY


class Engine:
    """Streams over Delta tables: create, read, consume.

    :param spark: a session with Delta, classic or over Spark Connect
    :param state: the folder of registry and scratch, a URI or an absolute path; Spark and this
        process must both reach it under this name
    :param storage_options: how this process reaches the store
    :param on_progress: is told each step of a consumption
    :param clock: gives the time, in UTC
    :param strategy: read net differences by ``file_difference`` or by ``change_files`` wherever
        that is possible; by default in the way that reads the fewest bytes
    """

    def __init__(
        self,
        spark: SparkSession,
        state: str,
        *,
        storage_options: Mapping[str, str] | None = None,
        on_progress: Listener | None = None,
        clock: Callable[[], datetime] = utc_now,
        strategy: Strategy | str | None = None,
    ) -> None:
        self._clock = clock
        self._catalog = StreamCatalog(state, storage_options=storage_options, clock=clock)
        self._registry = Registry(state, storage_options=storage_options, clock=clock)
        files = Files(storage_options)
        self._tables = Tables(spark, files)
        self._sources = SourceLog(files)
        self._scratch = Scratch(state, files, clock)
        self._reader = ChangeSetReader(spark, files, self._scratch, _strategy(strategy))
        history = SourceHistory(files, clock)
        self._creation = Creation(
            registry=self._registry,
            tables=self._tables,
            sources=self._sources,
            history=history,
            reader=self._reader,
            scratch=self._scratch,
            clock=clock,
        )
        self._changes = TableChanges(
            registry=self._registry,
            tables=self._tables,
            sources=self._sources,
            history=history,
            reader=self._reader,
            clock=clock,
        )
        self._consumptions = Consumptions(self._registry, clock)
        listener: Listener = on_progress or (lambda _: None)
        targets = Targets(spark, files)
        self._resolution = Resolution(self._consumptions, targets, listener)
        self._parts = Parts(
            spark=spark,
            registry=self._registry,
            consumptions=self._consumptions,
            sources=self._sources,
            reader=self._reader,
            scratch=self._scratch,
            planner=Planner(self._tables, targets),
            targets=targets,
            resolution=self._resolution,
            listener=listener,
        )
        self._scratch.sweep()

    def create_stream(
        self,
        name: str,
        *,
        on_table: str,
        mode: StreamMode | str = StreamMode.STANDARD,
        append_semantics: AppendSemantics | str = AppendSemantics.INSERTED,
        column_style: ColumnStyle | str = ColumnStyle.SNOWFLAKE,
        at: Point | None = None,
        before: Point | None = None,
        or_replace: bool = False,
        if_not_exists: bool = False,
        comment: str | None = None,
        owner: str | None = None,
    ) -> Stream:
        """Create a stream that stands right behind the table's newest version, or earlier.

        The first stream on a table switches row tracking on; when the creation fails, tracking is
        left as it was. Seed 000: a stream starts at the table's current version and holds no data;
        with Time Travel it starts at an earlier point, from which change tracking has to be on.

        :param name: one identifier; names ignore case
        :param on_table: a catalog name or the path of a Delta table
        :param mode: ``standard`` or ``append_only``
        :param append_semantics: what an append-only stream returns, ``inserted`` or ``surviving``
        :param column_style: ``snowflake`` (METADATA$ACTION, ...) or ``databend`` (change$action)
        :param at: the point behind which it stands, ``Version(3)``, ``OffsetOf("other_stream")`` or
            ``Timestamp("2026-01-01T00:00:00Z")``: changes of that very version or time are left out
        :param before: the same, but changes of that very version or time are its first ones
        :param or_replace: drop a stream of that name in the same step
        :param if_not_exists: leave a stream of that name as it is, and return it
        :raises InvalidName: the name cannot be one
        :raises InvalidRange: the source's history does not hold the point
        :raises ChangeTrackingDisabled: row tracking was off at the point, or since
        :raises StreamExists: there is one of that name
        :raises StreamConflict: the one to replace is being consumed
        :raises TableNotFound: there is no such table
        :raises NotADeltaTable: it is not a Delta table
        """
        subject = f"stream {name}"
        wanted = NewStream(
            name=name,
            on_table=on_table,
            mode=_member(subject, "mode", StreamMode, mode),
            append_semantics=_member(
                subject, "append_semantics", AppendSemantics, append_semantics
            ),
            column_style=_member(subject, "column_style", ColumnStyle, column_style),
            bound=bound_of(subject, at, before),
            or_replace=or_replace,
            if_not_exists=if_not_exists,
            comment=comment,
            owner=owner,
        )
        return self._creation.create(wanted)

    def has_data(self, name: str, *, exact: bool = True) -> bool:
        """Whether a stream has a change that is not consumed.

        :param exact: read the change set where the log alone cannot tell; otherwise the answer may
            be true without a change, never false with one
        :raises StreamNotFound: there is no such stream
        :raises StreamUnusable: its change set can no longer be read
        """
        if not self._catalog.look(name).may_have_data:
            return False
        if not exact:
            return True
        change_set = self._reader.read(self._sources.range(self._catalog.describe(name)))
        try:
            return not change_set.rows.isEmpty()
        finally:
            for root in change_set.scratch:
                self._scratch.remove(root)

    def read_stream(self, name: str) -> DataFrame:
        """The change set of a stream from its offset to now; never consumes.

        The source's columns as they are now, then action, is-update and row id: one row for an
        insert or a delete, two for an update, in no order. Seed 000: a query alone moves no offset.

        :raises StreamNotFound: there is no such stream
        :raises StreamUnusable: its change set can no longer be read
        """
        span = self._sources.range(self._catalog.describe(name))
        return self._reader.read(span).rows

    def changes(
        self,
        table: str,
        *,
        at: Point | None = None,
        before: Point | None = None,
        end: Point | None = None,
        information: str = "default",
        column_style: ColumnStyle | str = ColumnStyle.SNOWFLAKE,
    ) -> DataFrame:
        """What changed in a table between two points of its history, as a stream would return it.

        Seed 000, CHANGES: read-only, no stream is needed and none moves.

        :param table: a catalog name or the path of a Delta table
        :param at: the point behind which the changes begin, exclusive; or else
        :param before: the point that they begin with, inclusive
        :param end: the last point, inclusive; now by default
        :param information: ``default``: the net difference; ``append_only``: every row that was
            inserted, as it was inserted
        :param column_style: as of a stream
        :raises InvalidRequest: neither ``at`` nor ``before`` is given, or both
        :raises InvalidRange: the history does not hold a point, or they are in the wrong order
        :raises StreamUnusable: the change set cannot be told
        """
        subject = f"changes of {table}"
        start, last = bound_of(subject, at, before), bound_of(subject, end, None)
        if start is None:
            raise InvalidRequest(
                subject,
                "have no beginning",
                cause="expected at or before, found neither",
                fix='say where they begin, such as at=Version(3) or at=OffsetOf("a_stream")',
            )
        mode = _member(subject, "information", _Information, information).mode
        style = _member(subject, "column_style", ColumnStyle, column_style)
        return self._changes.read(table_name(table), start, last, mode, style)

    def explain(self, name: str) -> ReadPlan:
        """How the change set of a stream would be read now; looks at the log alone.

        :raises StreamNotFound: there is no such stream
        :raises StreamUnusable: its change set can no longer be read
        """
        return self._reader.plan(self._sources.range(self._catalog.describe(name)))

    def consume(
        self,
        statements: Sequence[str],
        *,
        consumer: str,
        max_commits: int | None = None,
        max_bytes: int | None = None,
    ) -> Outcome:
        """Apply DML that reads streams and move these streams, exactly once.

        Every statement sees the same records: from each stream's offset to the moment when the
        consumption began. All streams move together or none does. Whatever ends the driver, the
        next call of the same consumer finishes the same consumption; a call of another consumer
        first commits or undoes it. Readers of several targets may see one changed before the other.

        :param statements: INSERT, MERGE, UPDATE, DELETE or CREATE TABLE AS; streams are found in
            them by name
        :param consumer: who consumes, such as ``dag_id.task_id``
        :param max_commits: take at most so many commits of each stream, and leave the rest for the
            next consumption
        :param max_bytes: take only the first commits, at least one, that added and removed so many
            bytes of files together
        :raises InvalidStatement: a statement cannot take part; nothing was written
        :raises StatementFailed: a statement failed; nothing of the consumption remains
        :raises StreamConflict: another consumer was first
        :raises ConsumptionOpen: a failed consumption could not be undone
        """
        limit = BatchLimit(max_commits, max_bytes)
        return Consumer(self._parts, consumer, limit).consume(statements)

    def advance(self, name: str) -> Stream:
        """Move a stream's offset to now without any DML.

        :raises StreamConflict: a consumption of it is open
        :raises StreamUnusable: its change set can no longer be read
        """
        snapshot = self._registry.snapshot()
        stream = snapshot.get(name)
        phase = next_phase(stream, Transition.ADVANCED)
        span = self._sources.range(stream)
        moved = replace(stream, phase=phase, offset=span.end, last_consumed_at=self._clock())
        (advanced,) = self._registry.transact(
            snapshot, [Change(moved, Transition.ADVANCED)], actor=getuser()
        )
        return advanced

    def abort(self, name: str, *, keep: Collection[str] = ()) -> Stream:
        """End the open consumption of a stream without moving its offset.

        What was applied is undone, but for the targets in ``keep``, which stay as they are: the
        next consumption will give them the same changes again.

        :param keep: targets as the statements name them
        :raises StreamConflict: no consumption is open
        :raises ConsumptionOpen: a target that is not in ``keep`` has moved on
        """
        stream = self._catalog.describe(name)
        if stream.consumption is None:
            raise StreamConflict(
                f"stream {stream.name}",
                "has no open consumption to abort",
                cause=f"expected it to be applying or resolving, it is {stream.phase.value}",
                fix="nothing needs to be done",
            )
        kept = {table_name(target).sql for target in keep}
        self._resolution.abort(stream.consumption, getuser(), kept)
        return self._catalog.describe(name)

    def show_streams(self) -> list[StreamStatus]:
        """How every stream stands, by name."""
        return self._catalog.statuses()

    def describe_stream(self, name: str) -> StreamStatus:
        """How one stream stands; raises ``StreamNotFound``."""
        return self._catalog.status(name)

    def drop_stream(self, name: str, *, if_exists: bool = False) -> None:
        """Drop a stream; its source and its targets are not touched.

        :raises StreamNotFound: there is none, unless ``if_exists``
        :raises StreamConflict: a consumption of it is open
        """
        self._catalog.drop(name, if_exists=if_exists, actor=getuser())

    def undrop_stream(self, name: str) -> Stream:
        """Bring back the stream that was dropped last under a name, where it stood.

        :raises StreamNotFound: none was dropped
        :raises StreamExists: there is a stream of that name
        :raises InvalidName: it is the name of a table or a view by now
        """
        self._tables.check_free(name)
        return self._catalog.undrop(name, actor=getuser())

    def alter_stream(self, name: str, *, comment: str | None) -> Stream:
        """Give a stream another comment, or none.

        :raises StreamNotFound: there is none
        :raises StreamConflict: a consumption of it is open
        """
        return self._catalog.alter(name, comment=comment, actor=getuser())

    def rename_stream(self, name: str, to: str) -> Stream:
        """Give a stream another name; statements find it under that name from then on.

        :raises StreamNotFound: there is none
        :raises StreamExists: there is another one of the new name
        :raises StreamConflict: a consumption of it is open
        :raises InvalidName: the new name cannot be one, or is that of a table or a view
        """
        self._tables.check_free(to)
        return self._catalog.rename(name, to, actor=getuser())

    def clone_stream(self, name: str, of: str, *, comment: str | None = None) -> Stream:
        """Create a stream that stands where another one stands, and goes its own way.

        :raises StreamNotFound: there is no stream ``of``
        :raises StreamExists: there is a stream of that name
        :raises InvalidName: the name cannot be one, or is that of a table or a view
        """
        self._tables.check_free(name)
        return self._catalog.clone(name, of, comment=comment, owner=getuser())


def _strategy(name: str | None) -> Strategy | None:
    if name is None:
        return None
    if name in READING_DIFFERENCES:
        return Strategy(name)
    raise InvalidRequest(
        "engine",
        "cannot read change sets as asked",
        cause=f"{name!r} is no strategy",
        fix=f"strategy is one of {', '.join(READING_DIFFERENCES)}, or None for the cheapest",
    )


def _member(subject: str, argument: str, kind: type[_Enumeration], value: str) -> _Enumeration:
    """``value`` as a member of ``kind``; raises ``InvalidRequest`` naming those that there are."""
    try:
        return kind(value)
    except ValueError as error:
        raise InvalidRequest(
            subject,
            "cannot be as asked",
            cause=str(error),
            fix=f"{argument} is one of {', '.join(member.value for member in kind)}",
        ) from None
