"""Creates streams: finds the offset of a new stream, and checks the conditions for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from ...core.arguments.points import Bound
from ...core.delta.catalog_managed import check_not_catalog_managed
from ...core.delta.table_schema import Layout
from ...core.delta.tracking import ENABLED, is_tracked
from ...core.errors import InvalidRequest, StreamConflict, StreamExists, TableNotFound
from ...core.model.access import Right, check_access
from ...core.model.lifecycle import Transition, next_phase
from ...core.model.serialization import UnreadableStream
from ...core.model.sources import Offset
from ...core.model.stream import AppendSemantics, ColumnStyle, Stream, StreamMode, new_stream
from ...core.model.tables import Table
from ...core.names import consumer_name, stream_name, table_name
from ...core.retention.staleness import MAX_DATA_EXTENSION
from ...storage.registry.registry import Registry
from ...storage.registry.registry_snapshot import Change, RegistrySnapshot
from ..change_sets.metadata_columns import check_names
from ..change_sets.schema_checks import check_columns
from ..reading.file_sources import FileSources
from ..reading.found_sources import FoundSource, Sources
from ..tables.delta_tables import Tables
from .rewinding import Readability


@dataclass(frozen=True, slots=True)
class NewStream:
    """The request of a caller; see ``Engine.create_stream`` for the arguments."""

    name: str
    on_table: str | None
    on_view: str | None
    mode: StreamMode
    append_semantics: AppendSemantics
    column_style: ColumnStyle
    bound: Bound | None = None
    or_replace: bool = False
    if_not_exists: bool = False
    show_initial_rows: bool = False
    comment: str | None = None
    owner: str | None = None
    readers: tuple[str, ...] | None = None
    consumers: tuple[str, ...] | None = None
    max_data_extension: timedelta = MAX_DATA_EXTENSION
    max_lag: timedelta | None = None
    on_files: str | None = None
    file_format: str | None = None
    file_options: Mapping[str, Any] | None = None
    file_schema: str | None = None
    upsert_table: str | None = None

    @property
    def subject(self) -> str:
        """The subject of messages."""
        return f"stream {self.name}"


@dataclass(frozen=True, slots=True)
class Creation:
    """Creates the streams of one registry."""

    registry: Registry
    tables: Tables
    sources: Sources
    readability: Readability
    clock: Callable[[], datetime]
    principal: str
    file_sources: FileSources

    def create(self, wanted: NewStream) -> Stream:
        """Create a stream; see ``Engine.create_stream``."""
        stream_name(wanted.name)
        if wanted.or_replace and wanted.if_not_exists:
            raise InvalidRequest(
                wanted.subject,
                "cannot be created",
                cause="or_replace and if_not_exists contradict each other",
                fix="pass only one of them",
            )
        snapshot = self.registry.snapshot()
        existing = snapshot.holder(wanted.name)
        if existing is not None and wanted.if_not_exists:
            return snapshot.get(wanted.name)
        replaced = self._replaced(existing, wanted)
        self.tables.check_free(wanted.name)
        found = self._found(wanted, snapshot)
        draft = self._draft(wanted, found)
        for base in draft.bases:
            protocol = base.offset.protocol
            problem = f"cannot be created on {base.source.name}"
            check_not_catalog_managed(wanted.subject, problem, protocol)
        if found.folder is not None:
            check_names(draft, Layout.of({"schemaString": found.folder.schema}).column_names)
        if wanted.bound is not None:
            offsets = self.sources.offsets(
                wanted.subject, found, wanted.bound, snapshot, self.principal
            )
            earlier = draft.with_offsets(*offsets)
            if found.folder is None:
                self.readability.check(earlier)
            return self._register(snapshot, replaced, earlier)
        if found.folder is not None:
            return self._register(snapshot, replaced, draft)
        if found.view is not None:
            self.readability.check(draft)
            return self._register(snapshot, replaced, draft)
        check_columns(draft, Layout.of(draft.offset.metadata))
        return self._create_now(snapshot, replaced, draft, found.tables[0])

    def _found(self, wanted: NewStream, streams: RegistrySnapshot) -> FoundSource:
        _check_arguments(wanted)
        try:
            return self._looked_up(wanted)
        except TableNotFound:
            named = wanted.on_table or wanted.on_view
            stream = None if named is None else streams.find(named)
            if stream is None:
                raise
        raise InvalidRequest(
            wanted.subject,
            "cannot be created on another stream",
            cause=f"{stream.name} is a stream, and holds no rows",
            fix=f"name its source, {stream.table_on}, or clone it with CloneStream or"
            " engine.clone_stream()",
        )

    def _looked_up(self, wanted: NewStream) -> FoundSource:
        if wanted.on_files is not None:
            return self.file_sources.open(
                wanted.subject,
                wanted.on_files,
                wanted.file_format,
                wanted.file_options,
                wanted.file_schema,
            )
        if wanted.on_view is not None:
            return self.sources.view(table_name(wanted.on_view))
        return self.sources.table(table_name(str(wanted.on_table)))

    def _create_now(
        self, snapshot: RegistrySnapshot, replaced: list[Change], draft: Stream, table: Table
    ) -> Stream:
        """Create ``draft`` at the newest version, after switching change tracking on."""
        switched_on = False
        try:
            if not is_tracked(draft.offset.metadata):
                self.tables.set_properties(table.sql, {ENABLED: "true"})
                # If that call fails, another creation may have switched it on. Then it stays on.
                switched_on = True
            offset = self.tables.newest_offset(table)
            if not is_tracked(offset.metadata):
                raise _switched_off(draft)
            return self._register(snapshot, replaced, draft.with_offsets(offset))
        except BaseException:
            if switched_on:
                self._restore_tracking(table, draft.offset)
            raise

    def _register(
        self, snapshot: RegistrySnapshot, replaced: list[Change], draft: Stream
    ) -> Stream:
        changes = [*replaced, Change(draft, Transition.CREATED)]
        return self.registry.transact(snapshot, changes, actor=draft.owner)[-1]

    def _draft(self, wanted: NewStream, found: FoundSource) -> Stream:
        return new_stream(
            wanted.name,
            found.bases,
            created_at=self.clock(),
            owner=self.principal if wanted.owner is None else consumer_name(wanted.owner),
            mode=wanted.mode,
            append_semantics=wanted.append_semantics,
            column_style=wanted.column_style,
            comment=wanted.comment,
            view=found.view,
            folder=found.folder,
            shows_initial_rows=wanted.show_initial_rows,
            readers=wanted.readers,
            consumers=wanted.consumers,
            max_data_extension=wanted.max_data_extension,
            max_lag=wanted.max_lag,
            upsert_table=wanted.upsert_table,
        )

    def _restore_tracking(self, table: Table, before: Offset) -> None:
        """Set change tracking back to what it was, unless another stream needs it now."""
        identity, snapshot = before.table_id, self.registry.snapshot()
        tables = [stream.bases for stream in snapshot.streams()]
        unread = [stream.bases for stream in snapshot.unreadable()]
        # A stream whose tables cannot be read from its record may need change tracking.
        if None in unread or any(
            base.source.table_id == identity for bases in (*tables, *unread) for base in bases or ()
        ):
            return
        self.tables.set_properties(table.sql, {ENABLED: before.properties.get(ENABLED)})

    def _replaced(
        self, existing: Stream | UnreadableStream | None, wanted: NewStream
    ) -> list[Change]:
        """The changes that drop the stream that already has the name."""
        if existing is None:
            return []
        if isinstance(existing, UnreadableStream):
            if not wanted.or_replace:
                raise existing.error
            check_access(existing, self.principal, Right.OWN)
            return [Change(existing, Transition.DROPPED)]
        if not wanted.or_replace:
            raise StreamExists(
                wanted.subject,
                "exists already",
                cause=f"it was created on {existing.table_on} at {existing.created_at}",
                fix="choose another name, drop that stream first, or pass or_replace=True",
            )
        check_access(existing, self.principal, Right.OWN)
        phase = next_phase(existing, Transition.DROPPED)
        return [Change(replace(existing, phase=phase), Transition.DROPPED)]


def _switched_off(draft: Stream) -> StreamConflict:
    return StreamConflict(
        f"stream {draft.name}",
        "was not created, because somebody switched row tracking off meanwhile",
        cause=f"expected {ENABLED} = true at the newest version of {draft.source.name}",
        fix="create it again",
    )


def _check_arguments(wanted: NewStream) -> None:
    """Refuse arguments that contradict each other.

    :raises InvalidRequest: names them
    """
    sources = (wanted.on_table, wanted.on_view, wanted.on_files)
    given = sum(name is not None for name in sources)
    of_files = (wanted.file_format, wanted.file_options, wanted.file_schema)
    cause = None
    if given != 1:
        cause = f"expected one of on_table, on_view and on_files, found {given}"
    elif wanted.on_files is None:
        if wanted.mode is StreamMode.INSERT_ONLY:
            cause = "mode insert_only belongs to on_files; a stream on a table is append_only"
        elif any(value is not None for value in of_files):
            cause = "file_format, file_options and file_schema belong to on_files"
    elif wanted.mode is not StreamMode.INSERT_ONLY:
        cause = f"mode {wanted.mode.value} needs a table; a stream on files is insert_only"
    elif wanted.show_initial_rows:
        cause = "show_initial_rows needs a table; at=Version(0) begins with the existing files"
    if cause is not None:
        raise InvalidRequest(
            wanted.subject,
            "cannot be created",
            cause=cause,
            fix="pass one source; on_files goes with file_format and mode insert_only",
        )
