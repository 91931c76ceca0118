"""Fills archives: each batch of commits is one consumption with one INSERT."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...consumption.attempts import ConsumptionServices
from ...consumption.consumer import Consumer, ReadBasis
from ...core.archives.archive_outcome import ArchiveOutcome
from ...core.archives.archive_stream import (
    archived_by,
    consumer_of,
    filled_through,
    moved_by_others,
    stream_of,
)
from ...core.archives.definition import (
    ARCHIVE_COLUMNS,
    COMMIT_DATE,
    COMMIT_TIMESTAMP,
    SCHEMA_VERSION,
    Archive,
    Era,
)
from ...core.consumption.batches import BatchLimit
from ...core.delta.log_actions import Commit
from ...core.delta.table_schema import Layout
from ...core.errors import CdcError, InvalidRequest, StreamConflict, StreamMoved
from ...core.figures import counted
from ...core.model.outcomes import Outcome
from ...core.model.stream import Stream, StreamMode
from ...core.model.stream_spec import StreamSpec
from ...core.model.tables import Table
from ...core.names import TableName, quote
from ...storage.delta.commit_times import CommitTimes
from ...storage.delta.delta_log import DeltaLog, LogIncomplete
from ...storage.delta.target_log import TargetLog
from ...storage.files.stores import Files
from ...storage.files.uris import store_key
from ...storage.sources.source_log import SourceLog, StreamSpan
from ..archives.archive_tables import ArchiveTables
from ..archives.archived_changes import ArchivedChanges
from ..tables.delta_tables import Tables

log = logging.getLogger(__name__)

_DATE = f"date_from_unix_date(CAST(floor(unix_micros({COMMIT_TIMESTAMP}) / 86400000000) AS INT))"
_TRIES = 5
_COMMENT = "fills an archive; only archive_changes consumes it"


@dataclass(frozen=True, slots=True)
class ArchiveStart:
    """Where a new archive begins: before a point in the form of ``StreamSpec.before``, or now.

    If it ``is_whole``, it begins with all rows of the source.
    """

    before: dict[str, int | str] | None
    is_whole: bool


class Archiving:
    """Creates and fills archives.

    :param create_stream: creates a stream
    :param drop_stream: drops the stream of that name
    """

    def __init__(
        self,
        parts: ConsumptionServices,
        tables: Tables,
        archives: ArchiveTables,
        archived: ArchivedChanges,
        files: Files,
        create_stream: Callable[[StreamSpec], Stream],
        drop_stream: Callable[[str], object],
    ) -> None:
        self._parts = parts
        self._sources: SourceLog = parts.sources
        self._tables = tables
        self._archives = archives
        self._archived = archived
        self._files = files
        self._create_stream = create_stream
        self._drop_stream = drop_stream

    def archive(
        self, name: TableName, archive_name: TableName, start: ArchiveStart, limit: BatchLimit
    ) -> ArchiveOutcome:
        """Archive what is not archived yet; see ``Engine.archive_changes``."""
        table = self._tables.get(name)
        archive, stream = self._opened(table, archive_name, start)
        self._check_moves(archive, stream)
        batches: list[Outcome] = []
        # Later commits wait for the next call. So a call ends even if a writer never stops.
        newest, tries = self._sources.newest_version(stream), 0
        is_whole = limit == BatchLimit()
        while tries < _TRIES:
            try:
                found = self._batch(archive, stream, limit)
            except StreamMoved:
                # Another call archived the same changes, or is about to.
                tries += 1
                archive = self._archives.get(archive_name)
                stream = self._stream(archive)
                continue
            if found is None:
                break
            outcome, archive = found
            batches.append(outcome)
            stream = self._stream(archive)
            log.info("%s", _progress(archive, stream, outcome))
            if not is_whole or stream.offset.version >= newest:
                break
        else:
            raise StreamConflict(
                archive.subject,
                "could not be filled",
                cause="other calls kept filling it",
                fix="run one call at a time",
            )
        offset = stream.offset
        return ArchiveOutcome(
            archive.name,
            table.name,
            stream.name,
            archive.after,
            offset.version,
            offset.timestamp,
            tuple(batches),
            bool(self._sources.span(stream).tables[0].commits),
        )

    def _opened(self, table: Table, name: TableName, start: ArchiveStart) -> tuple[Archive, Stream]:
        """The archive and its stream; both are created if they do not exist."""
        archive = self._archives.find(name)
        if archive is None:
            if table.sql == name.sql:
                raise _own_archive(name)
            return self._created(name, table, start)
        self._archives.check_untouched(archive)
        snapshot = self._parts.registry.snapshot()
        if archive.stream_id not in snapshot:
            self._check_source(archive, table)
            return self._adopted(archive, table, snapshot.find(archive.stream))
        stream = snapshot.by_id(archive.stream_id)
        if store_key(stream.source.location) != store_key(table.location):
            self._check_source(archive, table)
            raise InvalidRequest(
                archive.subject,
                f"is not an archive of {table.name}",
                cause=f"it is an archive of the table at {stream.source.location}, and"
                f" {table.location} is another folder with the same table id",
                fix="name the original table, or another archive",
            )
        return self._archives.begun(archive, stream), stream

    def _check_source(self, archive: Archive, table: Table) -> None:
        """Refuse an archive of another table."""
        found = self._tables.newest_offset(table).table_id
        if archive.table_id != found:
            raise InvalidRequest(
                archive.subject,
                f"is not an archive of {table.name}",
                cause=f"it is an archive of {archive.source} with the id {archive.table_id},"
                f" the id of {table.name} is {found}",
                fix="name another archive; a table that was created again needs a new one",
            )

    def _created(
        self, name: TableName, table: Table, start: ArchiveStart
    ) -> tuple[Archive, Stream]:
        known = self._parts.registry.snapshot().find(stream_of(name))
        stream = self._new_stream(table, stream_of(name), start)
        found = self._archives.find(name)
        if found is not None and found.stream_id == stream.stream_id:
            # Another call created it at the same time.
            return self._archives.begun(found, stream), stream
        if stream.last_consumer is not None:
            raise InvalidRequest(
                f"archive {name.sql}",
                "is missing",
                cause=f"stream {stream.name} has filled it through version"
                f" {stream.offset.version}, and the table is not there",
                fix=f'bring the table back, or drop the stream with engine.drop_stream("'
                f'{stream.name}") to begin a new archive',
            )
        try:
            return self._archives.create(name, stream), stream
        except CdcError:
            found = self._archives.find(name)
            if found is not None and found.stream_id == stream.stream_id:
                # Another call created it at the same time.
                return self._archives.begun(found, stream), stream
            if known is None:
                # Nothing remains of a call that was refused.
                self._drop_stream(stream.name)
            raise

    def _new_stream(self, table: Table, name: str, start: ArchiveStart) -> Stream:
        begins_empty = start.before == {"version": 0}
        stream = self._create(
            name,
            table,
            before=start.before,
            if_not_exists=True,
            show_initial_rows=start.is_whole and not begins_empty,
        )
        newest = self._tables.newest_offset(table)
        if stream.source.table_id != newest.table_id:
            raise InvalidRequest(
                f"stream {name}",
                "is on another table",
                cause=f"expected a stream on {table.name}, it is on {stream.source.name}",
                fix=f'drop it with engine.drop_stream("{name}") to begin a new archive',
            )
        return stream

    def _create(self, name: str, table: Table, **given: Any) -> Stream:
        """Create a stream that fills an archive.

        :param given: further fields of its ``StreamSpec``
        """
        spec = StreamSpec(
            name=name, on_table=table.sql, mode=StreamMode.FEED, comment=_COMMENT, **given
        )
        return self._create_stream(spec)

    def _adopted(
        self, archive: Archive, table: Table, found: Stream | None
    ) -> tuple[Archive, Stream]:
        """The archive with a new stream that continues where the archive ends.

        :param found: the stream that has the name; a killed call may have created it
        """
        newest = self._archived.newest(archive)
        after = archive.after if newest is None else newest
        shows_rows = newest is None and archive.has_initial_rows
        if found is None:
            found = self._create(
                archive.stream,
                table,
                before={"version": 0} if after < 0 else None,
                at=None if after < 0 else {"version": after},
                show_initial_rows=shows_rows,
            )
        wanted = (archive.table_id, StreamMode.FEED, after, shows_rows, None)
        if wanted != (
            found.source.table_id,
            found.mode,
            found.offset.version,
            found.shows_initial_rows,
            found.last_consumer,
        ):
            raise InvalidRequest(
                archive.subject,
                "is filled by another stream",
                cause=f"expected a stream with the id {archive.stream_id}, {found.name} has the id"
                f" {found.stream_id}",
                fix=f"archive with the state folder that filled it last, or drop stream"
                f" {found.name} here: then a new stream continues where the archive ends",
            )
        log.info(
            "%s: stream %s was missing, a new one continues after version %d",
            archive.subject,
            found.name,
            after,
        )
        archive = self._archives.adopt(archive, found.name, found.stream_id)
        return self._archives.begun(archive, found), found

    def _stream(self, archive: Archive) -> Stream:
        """The stream that fills ``archive``.

        :raises StreamConflict: somebody dropped it since the call began
        """
        snapshot = self._parts.registry.snapshot()
        if archive.stream_id in snapshot:
            return snapshot.by_id(archive.stream_id)
        raise StreamConflict(
            archive.subject,
            "was not filled to the end",
            cause=f"stream {archive.stream} was dropped at the same time",
            fix="run archive_changes again: a new stream continues where the archive ends",
        )

    def _check_moves(self, archive: Archive, stream: Stream) -> None:
        """Refuse a stream that others moved: the archive would have a gap or changes twice."""
        taken, at = archived_by(archive, stream), stream.offset.version
        is_in_place = taken is not None and taken.through_version == at
        # Nobody can move a stream while a consumption of it is open.
        if is_in_place or stream.consumption is not None:
            return
        newest = self._archived.newest(archive)
        through = filled_through(archive, stream, newest)
        commits: list[Commit] = []
        cause = None
        if through < at:
            try:
                source = DeltaLog(stream.source.location, self._files)
                commits = list(source.commits(after=through, through=at))
            except LogIncomplete as error:
                cause = f"version {error.missing_version} may have changed rows, and its commit"
                cause += " was cleaned up"
        cause = cause or moved_by_others(archive, stream, newest, commits)
        if cause is not None:
            raise InvalidRequest(
                archive.subject,
                "cannot be continued, its stream was moved by hand",
                cause=f"stream {stream.name}: {cause}",
                fix=f'drop the stream with engine.drop_stream("{stream.name}"): then a new stream'
                " continues after the newest change in the archive; if the table no longer has"
                " the changes after that, begin a new archive",
            )

    def _batch(
        self, archive: Archive, stream: Stream, limit: BatchLimit
    ) -> tuple[Outcome, Archive] | None:
        """Archive the next commits that have the same columns, ``None`` without any."""
        span = self._span(stream, limit)
        commits = span.tables[0].commits
        if not commits and not stream.shows_initial_rows and stream.consumption is None:
            return None
        archive, era = self._in_era(archive, span)
        log_of_target = TargetLog(self._files)
        consumer = Consumer(self._parts, consumer_of(archive.stream), limit)
        with consumer.opened(span) as views:
            version = log_of_target.newest_version(archive.location)
            text = _insert(archive, era, stream.name)
            return consumer.consume([text], basis=ReadBasis(views, (version,))), archive

    def _span(self, stream: Stream, limit: BatchLimit) -> StreamSpan:
        """The next commits of ``stream`` that leave the columns as the first of them made them."""
        span = self._sources.span(stream, limit=limit)
        (table,) = span.tables
        layout = Layout.of(table.start.metadata)
        for place, commit in enumerate(table.commits):
            if commit.metadata is None or Layout.of(commit.metadata).reads_as(layout):
                continue
            if place:
                through = table.commits[place - 1].version
                return self._sources.span(stream, through=[through])
            layout = Layout.of(commit.metadata)
        return span

    def _in_era(self, archive: Archive, span: StreamSpan) -> tuple[Archive, Era]:
        """The archive, and the era that has the columns of the commits of ``span``.

        The archive may have later eras already: a killed call, or a stream that is lost now, has
        begun them.
        """
        (table,) = span.tables
        metadata, version, commit = table.start.metadata, max(table.start.version, 0), None
        first = next(iter(table.commits), None)
        if first is not None and first.metadata is not None:
            metadata, version, commit = first.metadata, first.version, first
        layout = Layout.of(metadata)
        era = archive.eras[archive.era_at(version)]
        if era.layout.reads_as(layout):
            return archive, era
        log_of_source = DeltaLog(table.stream.source.location, self._files)
        timestamp = table.start.timestamp
        if commit is not None:
            timestamp = CommitTimes(log_of_source).times([commit], table.end.properties)[version]
        origin = archive.origin_of(layout, commit)
        archive = self._archives.evolve(archive, metadata, origin, version, timestamp)
        return archive, archive.eras[archive.era_at(version)]


def _insert(archive: Archive, era: Era, stream: str) -> str:
    """The statement that archives the changes of ``stream``, which have the columns of ``era``."""
    names = archive.names
    values = {column: quote(column) for column in ARCHIVE_COLUMNS}
    values[SCHEMA_VERSION] = f"CAST({era.version} AS BIGINT)"
    values[COMMIT_DATE] = _DATE
    into = [*map(quote, values), *(quote(names[each]) for each in era.columns.values())]
    taken = [*values.values(), *map(quote, era.columns)]
    return (
        f"INSERT INTO {archive.sql} ({', '.join(into)})"
        f" SELECT {', '.join(taken)} FROM {quote(stream)}"
    )


def _progress(archive: Archive, stream: Stream, outcome: Outcome) -> str:
    changes = sum(sum(each.rows.values()) for each in outcome.streams)
    return (
        f"{archive.subject}: {counted(changes, 'change')}, through version"
        f" {stream.offset.version} of {archive.source}"
    )


def _own_archive(name: TableName) -> InvalidRequest:
    return InvalidRequest(
        f"archive {name.sql}",
        "cannot be an archive of itself",
        cause="the table and its archive have the same name",
        fix="name another table as the archive",
    )
