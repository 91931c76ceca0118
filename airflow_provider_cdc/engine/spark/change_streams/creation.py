"""Creates and drops change streams."""

from __future__ import annotations

import hashlib
import secrets
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ...catalog.stream_catalog import StreamCatalog
from ...core.change_streams.definition import CaptureSettings, ChangeStream
from ...core.change_streams.key_ranges import BUCKETS
from ...core.change_streams.layout import Layout as Partitions
from ...core.change_streams.stamps import stamp_of
from ...core.change_streams.watches import Watch, WatchedTable, resolved
from ...core.delta.table_schema import Layout
from ...core.errors import InvalidRequest
from ...core.model.stream import Stream, StreamMode
from ...core.model.stream_spec import StreamSpec
from ...core.names import name_key, stream_name, table_name
from ...storage.files.best_effort import log_failures
from ...storage.files.stores import store_key
from ...storage.state.change_streams import ChangeStreams, exists
from ..streams.creation import Creation
from ..tables.delta_tables import Tables
from .capture_tables import CaptureTables

MOST_PARTITIONS = 1024
_SECRET_BYTES = 32
_DIGEST_CHARACTERS = 16
_ID_CHARACTERS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class NewChangeStream:
    """A change stream to create; see ``Engine.create_change_stream``."""

    name: str
    tables: Mapping[str, Watch]
    settings: CaptureSettings
    partitions: int
    comment: str | None
    or_replace: bool
    if_not_exists: bool

    @property
    def subject(self) -> str:
        """The subject of messages."""
        return f"change stream {self.name}"


@dataclass(frozen=True, slots=True)
class ChangeStreamCreation:
    """Creates and drops the change streams of one state folder."""

    streams: ChangeStreams
    tables: Tables
    captures: CaptureTables
    creation: Creation
    catalog: StreamCatalog
    clock: Callable[[], datetime]

    def create(self, new: NewChangeStream) -> ChangeStream:
        """Create a change stream; see ``Engine.create_change_stream``."""
        stream_name(new.name)
        _check(new)
        known = self.streams.find(new.name)
        if known is not None and new.if_not_exists:
            return known
        if known is not None and not new.or_replace:
            raise exists(known)
        stream_id = uuid.uuid4().hex
        watched = self._watched(new, stream_id)
        try:
            now = stamp_of(self.clock())
            stream = ChangeStream(
                stream_id=stream_id,
                name=new.name,
                owner=self.catalog.principal,
                secret=secrets.token_hex(_SECRET_BYTES),
                created_at=now,
                settings=new.settings,
                tables=watched,
                steps=Partitions.created(new.subject, now, new.partitions).steps,
                through=now,
                comment=new.comment,
            )
            self.captures.create(stream)
            created = self.streams.create(stream, known)
        except BaseException:
            self._drop_sources(watched)
            raise
        if known is not None:
            self._clean_up(known)
        self._drop_strays(created)
        return created

    def drop(self, name: str, *, if_exists: bool) -> None:
        """Drop a change stream with what it captured."""
        if if_exists and self.streams.find(name) is None:
            return
        dropped: list[ChangeStream] = []

        def drop(known: ChangeStream) -> ChangeStream:
            dropped[:] = [known]
            return known.dropped()

        self.streams.update(name, drop)
        self._clean_up(*dropped)
        self._drop_strays(*dropped)

    def _watched(self, new: NewChangeStream, stream_id: str) -> tuple[WatchedTable, ...]:
        """The tables to watch, each with a new stream that makes it keep what is not captured."""
        found: list[WatchedTable] = []
        locations: dict[str, str] = {}
        named = [
            (given, watch, self.tables.get(table_name(given)))
            for given, watch in new.tables.items()
        ]
        for given, watch, table in named:
            same = locations.setdefault(store_key(table.location), given)
            if same != given:
                raise InvalidRequest(
                    new.subject,
                    f"cannot watch {given}",
                    cause=f"{same} is the same table",
                    fix="name each table once",
                )
            offset = self.tables.newest_offset(table)
            resolved(new.subject, given, watch, Layout.of(offset.metadata))
        try:
            for number, (given, watch, table) in enumerate(named):
                source = self._source(new, table.sql, stream_id, number)
                layout = Layout.of(source.offset.metadata)
                keys, columns = resolved(new.subject, given, watch, layout)
                version = source.offset.version
                found.append(
                    WatchedTable(given, source.source, keys, columns, source.name, version, version)
                )
        except BaseException:
            self._drop_sources(found)
            raise
        return tuple(found)

    def _source(self, new: NewChangeStream, table: str, stream_id: str, number: int) -> Stream:
        spec = StreamSpec(
            name=f"{_prefix(new.name)}{stream_id[:_ID_CHARACTERS]}_{number}",
            on_table=table,
            mode=StreamMode.FEED,
            comment=f"feeds change stream {new.name}; only advance_change_stream moves it",
        )
        return self.creation.create(spec)

    def _clean_up(self, stream: ChangeStream) -> None:
        self._drop_sources(stream.tables)
        with log_failures(f"removing the records of {stream.subject}"):
            self.captures.remove(stream)

    def _drop_sources(self, tables: Sequence[WatchedTable]) -> None:
        for table in tables:
            with log_failures(f"dropping stream {table.stream}"):
                self.catalog.drop_stream(table.stream, if_exists=True)

    def _drop_strays(self, stream: ChangeStream) -> None:
        """Drop what a killed creation of a change stream with that name left."""
        used = {table.stream for table in stream.tables}
        for each in self.catalog.list_streams():
            if each.name.startswith(_prefix(stream.name)) and each.name not in used:
                with log_failures(f"dropping stream {each.name}"):
                    self.catalog.drop_stream(each.name, if_exists=True)


def _prefix(name: str) -> str:
    """How the names of the streams begin that feed a change stream."""
    digest = hashlib.sha256(name_key(name).encode()).hexdigest()[:_DIGEST_CHARACTERS]
    return f"change_stream_{digest}_"


def _check(new: NewChangeStream) -> None:
    cause, fix = None, ""
    if new.or_replace and new.if_not_exists:
        cause, fix = "or_replace and if_not_exists contradict each other", "pass only one of them"
    elif not new.tables:
        cause, fix = "it watches no table", 'pass tables={"lake.accounts": Watch(keys=["id"])}'
    elif not 1 <= new.partitions <= MOST_PARTITIONS:
        cause = f"expected 1 to {MOST_PARTITIONS} partitions, found {new.partitions}"
        fix = f"pass partitions=1; there are {BUCKETS} buckets of keys"
    if cause is not None:
        raise InvalidRequest(new.subject, "cannot be created", cause=cause, fix=fix)
