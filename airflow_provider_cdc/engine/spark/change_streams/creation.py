"""Creates and drops change streams."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ...catalog.stream_catalog import StreamCatalog
from ...core.change_streams.definition import ChangeStream
from ...core.change_streams.key_ranges import BUCKETS
from ...core.change_streams.layout import Layout as Partitions
from ...core.change_streams.load_policy import MOST_PARTITIONS
from ...core.change_streams.source_streams import source_comment, source_prefix
from ...core.change_streams.spec import ChangeStreamSpec
from ...core.change_streams.stamps import stamp_of
from ...core.change_streams.watches import Watch, WatchedTable, resolved
from ...core.delta.table_schema import Layout
from ...core.errors import InvalidRequest
from ...core.model.stream import Stream, StreamMode
from ...core.model.stream_spec import StreamSpec
from ...core.model.tables import Table
from ...core.names import stream_name, table_name
from ...storage.files.best_effort import log_failures
from ...storage.files.stores import Files
from ...storage.files.uris import store_key
from ...storage.state.change_streams import ChangeStreams, exists
from ..streams.creation import Creation
from ..tables.delta_tables import Tables

_SECRET_BYTES = 32
_ID_CHARACTERS = 12
# A table to watch: the name and the watch as given, the table, and the physical keys and columns.
_Named = tuple[str, Watch, Table, tuple[tuple[str, ...], tuple[str, ...] | None]]


@dataclass(frozen=True, slots=True)
class ChangeStreamCreation:
    """Creates and drops the change streams of one state folder."""

    streams: ChangeStreams
    tables: Tables
    files: Files
    creation: Creation
    catalog: StreamCatalog
    clock: Callable[[], datetime]

    def create(self, new: ChangeStreamSpec) -> ChangeStream:
        """Create a change stream; see ``Engine.create_change_stream``."""
        stream_name(new.name)
        _check(new)
        known = self.streams.find(new.name)
        if known is not None and new.if_not_exists:
            return known
        if known is not None and not new.or_replace:
            raise exists(known)
        named = self._named(new.subject, new.tables)
        watched = self._watched(new.name, new.subject, named)
        try:
            now = stamp_of(self.clock())
            stream = ChangeStream(
                stream_id=uuid.uuid4().hex,
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
            created = self.streams.create(stream, known)
        except BaseException:
            self.drop_sources(watched)
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

    def rewatched(
        self, known: ChangeStream, tables: Mapping[str, Watch]
    ) -> tuple[WatchedTable, ...]:
        """The tables of a change stream that is altered to watch ``tables``.

        Those that it watches already keep their names, keys and positions.
        """
        before = {store_key(table.source.location): table for table in known.tables}
        named = self._named(known.subject, tables)
        found: dict[str, WatchedTable] = {}
        for given, _, table, (keys, columns) in named:
            watched = before.get(store_key(table.location))
            if watched is not None:
                _check_keys(known.subject, watched, keys)
                found[given] = replace(watched, columns=columns)
        new = [each for each in named if each[0] not in found]
        for added in self._watched(known.name, known.subject, new):
            found[added.name] = added
        return tuple(found[given] for given in tables)

    def drop_sources(self, tables: Sequence[WatchedTable]) -> None:
        """Drop the streams that make ``tables`` keep what is not captured."""
        for table in tables:
            with log_failures(f"dropping stream {table.stream}"):
                self.catalog.drop_stream(table.stream, if_exists=True)

    def _named(self, subject: str, tables: Mapping[str, Watch]) -> list[_Named]:
        """The tables to watch, checked before anything is written."""
        if not tables:
            raise InvalidRequest(
                subject,
                "cannot watch nothing",
                cause="it watches no table",
                fix='pass tables={"lake.accounts": Watch(keys=["id"])}',
            )
        locations: dict[str, str] = {}
        found: list[_Named] = []
        for given, watch in tables.items():
            table = self.tables.get(table_name(given))
            same = locations.setdefault(store_key(table.location), given)
            if same != given:
                raise InvalidRequest(
                    subject,
                    f"cannot watch {given}",
                    cause=f"{same} is the same table",
                    fix="name each table once",
                )
            layout = Layout.of(self.tables.newest_offset(table).metadata)
            found.append((given, watch, table, resolved(subject, given, watch, layout)))
        return found

    def _watched(
        self, name: str, subject: str, named: Sequence[_Named]
    ) -> tuple[WatchedTable, ...]:
        """The tables to watch, each with a new stream that makes it keep what is not captured."""
        found: list[WatchedTable] = []
        try:
            for given, watch, table, _ in named:
                source = self._source(name, table.sql)
                layout, version = Layout.of(source.offset.metadata), source.offset.version
                keys, columns = resolved(subject, given, watch, layout)
                found.append(
                    WatchedTable(given, source.source, keys, columns, source.name, version, version)
                )
        except BaseException:
            self.drop_sources(found)
            raise
        return tuple(found)

    def _source(self, name: str, table: str) -> Stream:
        spec = StreamSpec(
            name=f"{source_prefix(name)}{uuid.uuid4().hex[:_ID_CHARACTERS]}",
            on_table=table,
            mode=StreamMode.FEED,
            comment=source_comment(name),
        )
        return self.creation.create(spec)

    def _clean_up(self, stream: ChangeStream) -> None:
        self.drop_sources(stream.tables)
        with log_failures(f"removing the records of {stream.subject}"):
            self.files.remove(self.streams.folder_of(stream))

    def _drop_strays(self, stream: ChangeStream) -> None:
        """Drop what a killed creation of a change stream with that name left."""
        used = {table.stream for table in stream.tables}
        for each in self.catalog.list_streams():
            if each.name.startswith(source_prefix(stream.name)) and each.name not in used:
                with log_failures(f"dropping stream {each.name}"):
                    self.catalog.drop_stream(each.name, if_exists=True)


def _check(new: ChangeStreamSpec) -> None:
    cause, fix = None, ""
    if new.or_replace and new.if_not_exists:
        cause, fix = "or_replace and if_not_exists contradict each other", "pass only one of them"
    elif not 1 <= new.partitions <= MOST_PARTITIONS:
        cause = f"expected 1 to {MOST_PARTITIONS} partitions, found {new.partitions}"
        fix = f"pass partitions=1; there are {BUCKETS} buckets of keys"
    if cause is not None:
        raise InvalidRequest(new.subject, "cannot be created", cause=cause, fix=fix)


def _check_keys(subject: str, before: WatchedTable, keys: tuple[str, ...]) -> None:
    if before.keys != keys:
        raise InvalidRequest(
            subject,
            f"cannot watch {before.name} by another key",
            cause=f"its key is {', '.join(before.keys) or 'the row id'}, found"
            f" {', '.join(keys) or 'the row id'}",
            fix="create another change stream for that key",
        )
