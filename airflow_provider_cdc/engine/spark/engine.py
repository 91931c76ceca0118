"""The engine's entry: streams on Delta tables, for notebooks and jobs."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from getpass import getuser

from pyspark.sql import DataFrame, SparkSession

from ..catalog import StreamCatalog, StreamStatus
from ..clock import utc_now
from ..core.errors import InvalidRequest, StreamConflict, StreamExists
from ..core.lifecycle import Transition, next_phase
from ..core.model import (
    AppendSemantics,
    ColumnStyle,
    Offset,
    Outcome,
    Phase,
    Source,
    Stream,
    StreamMode,
)
from ..core.names import consumer_name, stream_name, table_name
from ..core.progress import Listener
from ..core.read_plan import READING_DIFFERENCES, ReadPlan, Strategy
from ..core.table_schema import Layout
from ..core.tracking import ENABLED, is_tracked
from ..storage.consumptions import Consumptions
from ..storage.files import Files
from ..storage.registry import Registry
from ..storage.registry_snapshot import Change
from ..storage.scratch import Scratch
from ..storage.source_log import SourceLog
from .change_sets.checks import check_columns
from .change_sets.reader import ChangeSetReader
from .consumption import Consumer, Parts
from .planning import Planner
from .resolution import Resolution
from .tables import Table, Tables, table_id
from .targets import Targets


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
        if_not_exists: bool = False,
        comment: str | None = None,
        owner: str | None = None,
    ) -> Stream:
        """Create a stream that stands right behind the table's newest version.

        The first stream on a table switches row tracking on; when the creation fails, tracking is
        left as it was. Seed 000: a stream starts at the table's current version and holds no data.

        :param name: one identifier; names ignore case
        :param on_table: a catalog name or the path of a Delta table
        :param mode: ``standard`` or ``append_only``
        :param append_semantics: what an append-only stream returns, ``inserted`` or ``surviving``
        :param column_style: ``snowflake`` (METADATA$ACTION, ...) or ``databend`` (change$action)
        :param if_not_exists: leave a stream of that name as it is, and return it
        :raises InvalidName: the name cannot be one
        :raises StreamExists: there is one of that name
        :raises TableNotFound: there is no such table
        :raises NotADeltaTable: it is not a Delta table
        """
        stream_name(name)
        options = _Options.of(name, mode, append_semantics, column_style)
        snapshot = self._registry.snapshot()
        existing = snapshot.find(name)
        if existing is not None:
            if if_not_exists:
                return existing
            raise StreamExists(
                f"stream {name}",
                "exists already",
                cause=f"it was created on {existing.source.name} at {existing.created_at}",
                fix="choose another name, or drop that stream first",
            )
        table = self._tables.get(table_name(on_table))
        before = self._tables.newest_offset(table)
        draft = self._draft(name, options, table, before, comment, owner)
        check_columns(draft, Layout.of(json.loads(before.metadata)))
        switched_on = not is_tracked(json.loads(before.metadata))
        try:
            if switched_on:
                self._tables.set_property(table, ENABLED, "true")
            offset = self._tables.newest_offset(table)
            (stream,) = self._registry.transact(
                snapshot,
                [Change(replace(draft, offset=offset), Transition.CREATED)],
                actor=draft.owner,
            )
        except BaseException:
            if switched_on:
                self._restore_tracking(table, before)
            raise
        return stream

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

    def explain(self, name: str) -> ReadPlan:
        """How the change set of a stream would be read now; looks at the log alone.

        :raises StreamNotFound: there is no such stream
        :raises StreamUnusable: its change set can no longer be read
        """
        return self._reader.plan(self._sources.range(self._catalog.describe(name)))

    def consume(self, statements: Sequence[str], *, consumer: str) -> Outcome:
        """Apply DML that reads streams and move these streams, exactly once.

        Every statement sees the same records: from each stream's offset to the moment when the
        consumption began. All streams move together or none does. Whatever ends the driver, the
        next call of the same consumer finishes the same consumption; a call of another consumer
        first commits or undoes it. Readers of several targets may see one changed before the other.

        :param statements: INSERT, MERGE, UPDATE, DELETE or CREATE TABLE AS; streams are found in
            them by name
        :param consumer: who consumes, such as ``dag_id.task_id``
        :raises InvalidStatement: a statement cannot take part; nothing was written
        :raises StatementFailed: a statement failed; nothing of the consumption remains
        :raises StreamConflict: another consumer was first
        :raises ConsumptionOpen: a failed consumption could not be undone
        """
        return Consumer(self._parts, consumer).consume(statements)

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

    def _draft(
        self,
        name: str,
        options: _Options,
        table: Table,
        offset: Offset,
        comment: str | None,
        owner: str | None,
    ) -> Stream:
        return Stream(
            stream_id=uuid.uuid4().hex,
            name=name,
            sequence=0,
            phase=Phase.IDLE,
            source=Source(table.name, table.location, table_id(offset)),
            mode=options.mode,
            append_semantics=options.append_semantics,
            column_style=options.column_style,
            offset=offset,
            created_at=self._clock(),
            owner=consumer_name(owner or getuser()),
            comment=comment,
        )

    def _restore_tracking(self, table: Table, before: Offset) -> None:
        """Leave change tracking as it was, unless another stream has come to need it."""
        identity = table_id(before)
        if any(stream.source.table_id == identity for stream in self._catalog.show()):
            return
        configuration = json.loads(before.metadata).get("configuration") or {}
        self._tables.set_property(table, ENABLED, configuration.get(ENABLED))


class _Options:
    """The enumerated arguments of a new stream, checked."""

    def __init__(self, mode: StreamMode, semantics: AppendSemantics, style: ColumnStyle) -> None:
        self.mode = mode
        self.append_semantics = semantics
        self.column_style = style

    @classmethod
    def of(cls, name: str, mode: str, semantics: str, style: str) -> _Options:
        """The arguments as enumerations; raises ``InvalidRequest`` naming the ones there are."""
        try:
            return cls(StreamMode(mode), AppendSemantics(semantics), ColumnStyle(style))
        except ValueError as error:
            raise InvalidRequest(
                f"stream {name}",
                "cannot be created",
                cause=str(error),
                fix=f"mode is one of {_values(StreamMode)}; append_semantics one of"
                f" {_values(AppendSemantics)}; column_style one of {_values(ColumnStyle)}",
            ) from None


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


def _values(kind: type[StreamMode] | type[AppendSemantics] | type[ColumnStyle]) -> str:
    return ", ".join(member.value for member in kind)
