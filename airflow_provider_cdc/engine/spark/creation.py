"""Creating streams: where a new stream stands, and what has to hold for it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from getpass import getuser

from ..core.errors import InvalidRequest, StreamExists
from ..core.lifecycle import Transition, next_phase
from ..core.model import (
    AppendSemantics,
    ColumnStyle,
    Offset,
    Phase,
    Source,
    Stream,
    StreamMode,
)
from ..core.names import consumer_name, stream_name, table_name
from ..core.points import Bound
from ..core.table_schema import Layout
from ..core.tracking import ENABLED, is_tracked
from ..storage.registry import Registry
from ..storage.registry_snapshot import Change, RegistrySnapshot
from ..storage.scratch import Scratch
from ..storage.source_history import SourceHistory
from ..storage.source_log import SourceLog
from .change_sets.checks import check_columns
from .change_sets.reader import ChangeSetReader
from .tables import Table, Tables, table_id


@dataclass(frozen=True, slots=True)
class NewStream:
    """What a caller asks for; see ``Engine.create_stream`` for the arguments."""

    name: str
    on_table: str
    mode: StreamMode
    append_semantics: AppendSemantics
    column_style: ColumnStyle
    bound: Bound | None = None
    or_replace: bool = False
    if_not_exists: bool = False
    comment: str | None = None
    owner: str | None = None

    @property
    def subject(self) -> str:
        """What messages are about."""
        return f"stream {self.name}"


@dataclass(frozen=True, slots=True)
class Creation:
    """Creates the streams of one registry."""

    registry: Registry
    tables: Tables
    sources: SourceLog
    history: SourceHistory
    reader: ChangeSetReader
    scratch: Scratch
    clock: Callable[[], datetime]

    def create(self, wanted: NewStream) -> Stream:
        """Create a stream; see ``Engine.create_stream``."""
        stream_name(wanted.name)
        if wanted.or_replace and wanted.if_not_exists:
            raise InvalidRequest(
                wanted.subject,
                "cannot be created",
                cause="or_replace and if_not_exists contradict each other",
                fix="give one of them",
            )
        snapshot = self.registry.snapshot()
        existing = snapshot.find(wanted.name)
        if existing is not None and wanted.if_not_exists:
            return existing
        replaced = _replaced(existing, wanted)
        self.tables.check_free(wanted.name)
        table = self.tables.get(table_name(wanted.on_table))
        newest = self.tables.newest_offset(table)
        draft = self._draft(wanted, table, newest)
        check_columns(draft, Layout.of(json.loads(newest.metadata)))
        if wanted.bound is not None:
            offset = self.history.offset(wanted.subject, draft.source, wanted.bound, snapshot)
            earlier = replace(draft, offset=offset)
            self._check_readable(earlier)
            return self._register(snapshot, replaced, earlier)
        return self._create_now(snapshot, replaced, draft, table)

    def _create_now(
        self, snapshot: RegistrySnapshot, replaced: list[Change], draft: Stream, table: Table
    ) -> Stream:
        """Create ``draft`` behind the newest version, switching change tracking on before."""
        switched_on = not is_tracked(json.loads(draft.offset.metadata))
        try:
            if switched_on:
                self.tables.set_property(table, ENABLED, "true")
            offset = self.tables.newest_offset(table)
            return self._register(snapshot, replaced, replace(draft, offset=offset))
        except BaseException:
            if switched_on:
                self._restore_tracking(table, draft.offset)
            raise

    def _register(
        self, snapshot: RegistrySnapshot, replaced: list[Change], draft: Stream
    ) -> Stream:
        changes = [*replaced, Change(draft, Transition.CREATED)]
        return self.registry.transact(snapshot, changes, actor=draft.owner)[-1]

    def _draft(self, wanted: NewStream, table: Table, offset: Offset) -> Stream:
        return Stream(
            stream_id=uuid.uuid4().hex,
            name=wanted.name,
            sequence=0,
            phase=Phase.IDLE,
            source=Source(table.name, table.location, table_id(offset)),
            mode=wanted.mode,
            append_semantics=wanted.append_semantics,
            column_style=wanted.column_style,
            offset=offset,
            created_at=self.clock(),
            owner=consumer_name(wanted.owner or getuser()),
            comment=wanted.comment,
        )

    def _check_readable(self, draft: Stream) -> None:
        """Refuse an offset whose change set cannot be read any more; nothing of it is read."""
        change_set = self.reader.read(self.sources.range_from(draft))
        for root in change_set.scratch:
            self.scratch.remove(root)

    def _restore_tracking(self, table: Table, before: Offset) -> None:
        """Leave change tracking as it was, unless another stream has come to need it."""
        identity = table_id(before)
        streams = self.registry.snapshot().streams()
        if any(stream.source.table_id == identity for stream in streams):
            return
        configuration = json.loads(before.metadata).get("configuration") or {}
        self.tables.set_property(table, ENABLED, configuration.get(ENABLED))


def _replaced(existing: Stream | None, wanted: NewStream) -> list[Change]:
    """What becomes of the stream that bears the name already."""
    if existing is None:
        return []
    if not wanted.or_replace:
        raise StreamExists(
            wanted.subject,
            "exists already",
            cause=f"it was created on {existing.source.name} at {existing.created_at}",
            fix="choose another name, drop that stream first, or say or_replace",
        )
    phase = next_phase(existing, Transition.DROPPED)
    return [Change(replace(existing, phase=phase), Transition.DROPPED)]
