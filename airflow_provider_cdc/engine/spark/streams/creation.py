"""Creates streams: finds the offset of a new stream, and checks the conditions for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from ...core.delta.table_schema import Layout
from ...core.delta.tracking import ENABLED, is_tracked
from ...core.errors import InvalidRequest, StreamConflict, StreamExists, TableNotFound
from ...core.model.access import Right, check_access
from ...core.model.lifecycle import Transition, next_phase
from ...core.model.serialization import UnreadableStream
from ...core.model.sources import Offset
from ...core.model.stream import Stream, StreamMode, new_stream
from ...core.model.stream_spec import StreamSpec
from ...core.model.tables import Table
from ...core.names import consumer_name, stream_name, table_name
from ...storage.registry.registry import Registry
from ...storage.registry.registry_snapshot import Change, RegistrySnapshot
from ..change_feed.feed_reader import OF_STREAMS, check_feed_columns
from ..change_sets.metadata_columns import check_names
from ..change_sets.schema_checks import check_columns
from ..reading.file_sources import FileSources
from ..reading.found_sources import FoundSource, Sources
from ..tables.delta_tables import Tables
from .rewinding import Readability


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

    def create(self, spec: StreamSpec, upsert_table: str | None = None) -> Stream:
        """Create a stream; see ``Engine.create_stream``.

        :param upsert_table: the name of the upsert table whose changes the stream returns
        """
        stream_name(spec.name)
        bound = spec.bound
        if spec.or_replace and spec.if_not_exists:
            raise InvalidRequest(
                spec.subject,
                "cannot be created",
                cause="or_replace and if_not_exists contradict each other",
                fix="pass only one of them",
            )
        snapshot = self.registry.snapshot()
        existing = snapshot.holder(spec.name)
        if existing is not None and spec.if_not_exists:
            return snapshot.get(spec.name)
        replaced = self._replaced(existing, spec)
        self.tables.check_free(spec.name)
        found = self._found(spec, snapshot)
        draft = self._draft(spec, found, upsert_table)
        if found.folder is not None:
            check_names(draft, Layout.of({"schemaString": found.folder.schema}).column_names)
        if draft.mode is StreamMode.FEED:
            check_feed_columns(draft, Layout.of(draft.offset.metadata), OF_STREAMS)
        if bound is not None:
            offsets = self.sources.offsets(
                spec.subject,
                found,
                bound,
                snapshot,
                self.principal,
                # A feed may begin with the first commit: it needs no row from before.
                may_precede_all=draft.mode is StreamMode.FEED,
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

    def _found(self, spec: StreamSpec, streams: RegistrySnapshot) -> FoundSource:
        _check_arguments(spec)
        try:
            return self._looked_up(spec)
        except TableNotFound:
            named = spec.on_table or spec.on_view
            stream = None if named is None else streams.find(named)
            if stream is None:
                raise
        raise InvalidRequest(
            spec.subject,
            "cannot be created on another stream",
            cause=f"{stream.name} is a stream, and holds no rows",
            fix=f"name its source, {stream.table_on}, or clone it with CloneStream or"
            " engine.clone_stream()",
        )

    def _looked_up(self, spec: StreamSpec) -> FoundSource:
        if spec.on_files is not None:
            return self.file_sources.open(
                spec.subject,
                spec.on_files,
                spec.file_format,
                spec.file_options,
                spec.file_schema,
            )
        if spec.on_view is not None:
            return self.sources.view(table_name(spec.on_view))
        return self.sources.table(table_name(str(spec.on_table)))

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

    def _draft(self, spec: StreamSpec, found: FoundSource, upsert_table: str | None) -> Stream:
        return new_stream(
            spec.name,
            found.bases,
            created_at=self.clock(),
            owner=self.principal if spec.owner is None else consumer_name(spec.owner),
            mode=spec.mode,
            append_semantics=spec.append_semantics,
            column_style=spec.column_style,
            comment=spec.comment,
            view=found.view,
            folder=found.folder,
            shows_initial_rows=spec.show_initial_rows,
            readers=spec.readers,
            consumers=spec.consumers,
            max_data_extension=spec.max_data_extension,
            max_lag=spec.max_lag,
            upsert_table=upsert_table,
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
        self, existing: Stream | UnreadableStream | None, spec: StreamSpec
    ) -> list[Change]:
        """The changes that drop the stream that already has the name."""
        if existing is None:
            return []
        if isinstance(existing, UnreadableStream):
            if not spec.or_replace:
                raise existing.error
            check_access(existing, self.principal, Right.OWN)
            return [Change(existing, Transition.DROPPED)]
        if not spec.or_replace:
            raise StreamExists(
                spec.subject,
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


def _check_arguments(spec: StreamSpec) -> None:
    """Refuse arguments that contradict each other.

    :raises InvalidRequest: names them
    """
    sources = (spec.on_table, spec.on_view, spec.on_files)
    given = sum(name is not None for name in sources)
    of_files = (spec.file_format, spec.file_options, spec.file_schema)
    cause = None
    if given != 1:
        cause = f"expected one of on_table, on_view and on_files, found {given}"
    elif spec.mode is StreamMode.FEED and spec.on_table is None:
        cause = "mode feed needs a table, because neither a view nor a folder has commits"
    elif spec.on_files is None:
        if spec.mode is StreamMode.INSERT_ONLY:
            cause = "mode insert_only belongs to on_files; a stream on a table is append_only"
        elif any(value is not None for value in of_files):
            cause = "file_format, file_options and file_schema belong to on_files"
    elif spec.mode is not StreamMode.INSERT_ONLY:
        cause = f"mode {spec.mode.value} needs a table; a stream on files is insert_only"
    elif spec.show_initial_rows:
        cause = "show_initial_rows needs a table; at=Version(0) begins with the existing files"
    if cause is not None:
        raise InvalidRequest(
            spec.subject,
            "cannot be created",
            cause=cause,
            fix="pass one source; on_files goes with file_format and mode insert_only",
        )
