"""Keeps streams from going stale: extends the retention of what they read, and ends extensions.

Snowflake: the retention of a source is extended to the offset of a stream that is not consumed, and
goes back to what it was when the stream is consumed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ...catalog.stream_catalog import StreamCatalog
from ...core.errors import NotADeltaTable, StreamUnusable, TableNotFound
from ...core.model.serialization import UnreadableStream
from ...core.model.stream import Stream
from ...core.names import quote
from ...core.retention.table_retention import (
    Maintenance,
    SourceRetention,
    extended,
    extension_of,
    needed_extension,
    own_log_retention,
    own_retention,
)
from ...storage.delta.delta_log import DeltaLog
from ...storage.files.stores import Files
from ...storage.files.uris import store_key
from ...storage.registry.registry import Registry
from ...storage.sources.source_log import SourceLog, SourceRange, StreamSpan
from ...storage.state.extended_sources import ExtendedSources
from ..session.failures import reason
from ..tables.delta_tables import Tables


@dataclass(frozen=True, slots=True)
class _Need:
    """The extension that a stream needs of one table."""

    stream: str
    length: timedelta
    bytes_kept: int


@dataclass
class _Source:
    """A table as maintenance finds it: one spelling of its location, the spellings that are
    ``noted`` as extended, what streams need of it, and why one of the streams could not be checked.
    """

    location: str
    noted: list[str] = field(default_factory=list)
    needs: list[_Need] = field(default_factory=list)
    problem: str | None = None


class Maintainer:
    """Does the upkeep of all streams of a state folder. A second run finds nothing to do."""

    def __init__(
        self,
        *,
        catalog: StreamCatalog,
        registry: Registry,
        sources: SourceLog,
        tables: Tables,
        extended_sources: ExtendedSources,
        files: Files,
        clock: Callable[[], datetime],
    ) -> None:
        self._catalog = catalog
        self._registry = registry
        self._sources = sources
        self._tables = tables
        self._extended = extended_sources
        self._files = files
        self._clock = clock

    def run(self, ahead: timedelta) -> Maintenance:
        """Move the offsets of empty streams, make the extensions that are needed, end the others.

        A table that cannot be checked or changed does not stop the work on the other tables.

        :param ahead: the longest time until the next run
        """
        holder = str(self._registry.identity())
        found = self._catalog.list_streams_if_begun() or []
        streams = [each for each in found if isinstance(each, Stream) and each.folder is None]
        sources = self._known(streams)
        for each in found:
            if isinstance(each, UnreadableStream):
                _keep_extensions(each, sources)
        skipped = [stream.name for stream in streams if self._collect_needs(stream, sources, ahead)]
        maintained = [self._maintain(source, holder) for source in sources.values()]
        return Maintenance(tuple(skipped), tuple(maintained))

    def _known(self, streams: Sequence[Stream]) -> dict[str, _Source]:
        """The tables that streams read or that were extended, each once in one of its spellings."""
        sources: dict[str, _Source] = {}
        for stream in streams:
            for base in stream.bases:
                location = base.source.location
                sources.setdefault(store_key(location), _Source(location))
        for location in self._extended.locations():
            sources.setdefault(store_key(location), _Source(location)).noted.append(location)
        return sources

    def _collect_needs(
        self, stream: Stream, sources: Mapping[str, _Source], ahead: timedelta
    ) -> bool:
        """Note what ``stream`` needs of its tables, also while its initial rows wait, or why this
        is unknown. Returns whether its offset moved.
        """
        tables = []
        for each in stream.by_base():
            try:
                tables.append(self._sources.range(each))
            except StreamUnusable:
                # Keeping more would not help the stream. Its status shows why.
                continue
            except Exception as error:
                source = sources[store_key(each.source.location)]
                source.problem = f"stream {stream.name}: {_failure_text(error)}"
        span = StreamSpan(stream, tuple(tables))
        is_whole = len(tables) == len(stream.bases)
        is_skipped = (
            is_whole and span.holds_nothing and self._catalog.skip_range(span, younger=True)
        )
        for table in tables:
            source = sources[store_key(table.stream.source.location)]
            source.needs += self._needs(table, ahead, is_consumed=is_skipped)
        return is_skipped

    def _needs(self, span: SourceRange, ahead: timedelta, *, is_consumed: bool) -> list[_Need]:
        """The extension that the stream of ``span`` needs of its table, or nothing.

        :param is_consumed: the stream has moved over the range
        """
        properties, now = span.end.properties, self._clock()
        own = own_retention(properties)
        begun = [(None if is_consumed else span.oldest, own)]
        if span.stream.shows_initial_rows and span.commits:
            # Delta needs the log up to the offset to find the rows at the offset.
            begun.append((span.stream.offset.timestamp, own_log_retention(properties)))
        limit = span.stream.max_data_extension
        lengths = [
            needed_extension(oldest, now, own=kept, limit=limit, ahead=ahead)
            for oldest, kept in begun
        ]
        length = max(filter(None, lengths), default=None)
        if length is None:
            return []
        kept = sum(
            file.size_bytes
            for commit in span.commits
            if commit.timestamp + own < now and not is_consumed
            for file in commit.removes
        )
        return [_Need(span.stream.name, length, kept)]

    def _maintain(self, source: _Source, holder: str) -> SourceRetention:
        location = source.location
        streams = tuple(sorted({need.stream for need in source.needs}))
        bytes_kept = max((need.bytes_kept for need in source.needs), default=0)
        own: timedelta | None = None
        try:
            properties = self._properties_of(location)
            own = own_retention(properties)
            length = self._wanted(source, extension_of(properties, holder))
            changes = extended(properties, holder, length)
            if changes:
                properties = self._changed(location, changes, is_extended=length is not None)
            found = extension_of(properties, holder)
            if found is None and source.noted:
                self._strike_off(source, holder)
        except (NotADeltaTable, TableNotFound):
            # A missing table keeps nothing. If it comes back, a later run ends its extension.
            return SourceRetention(
                location, None, None, streams, 0, has_changed=False, problem=source.problem
            )
        except Exception as error:
            return SourceRetention(
                location,
                own,
                None,
                streams,
                bytes_kept,
                has_changed=False,
                problem=_failure_text(error),
            )
        return SourceRetention(
            location,
            own,
            found,
            streams if found else (),
            bytes_kept if found else 0,
            has_changed=bool(changes),
            problem=source.problem,
        )

    def _wanted(self, source: _Source, held: timedelta | None) -> timedelta | None:
        """The extension that the table gets. If one of its streams could not be checked, the
        extension does not get shorter.
        """
        lengths = [need.length for need in source.needs]
        if source.problem is not None and held is not None:
            lengths.append(held)
        return max(lengths, default=None)

    def _changed(
        self, location: str, changes: Mapping[str, str | None], *, is_extended: bool
    ) -> Mapping[str, str]:
        """The properties of a table after ``changes``."""
        if is_extended:
            self._extended.note(location)
        self._tables.set_properties(f"delta.{quote(location)}", changes)
        if is_extended:
            # Another run, which saw no extension yet, may have removed the note meanwhile.
            self._extended.note(location)
        return self._properties_of(location)

    def _strike_off(self, source: _Source, holder: str) -> None:
        """Forget a table without an extension. If another run is extending it, note it again."""
        for spelling in source.noted:
            self._extended.strike_off(spelling)
        if extension_of(self._properties_of(source.location), holder) is not None:
            self._extended.note(source.location)

    def _properties_of(self, location: str) -> Mapping[str, str]:
        return DeltaLog(location, self._files).newest_state().configuration


def _keep_extensions(stream: UnreadableStream, sources: dict[str, _Source]) -> None:
    """Note that the needs of ``stream`` are unknown for its tables, or else for all tables."""
    if stream.bases is None:
        concerned = list(sources.values())
    elif stream.parts.get("folder") is None:
        locations = [base.source.location for base in stream.bases]
        concerned = [sources.setdefault(store_key(each), _Source(each)) for each in locations]
    else:
        concerned = []
    for source in concerned:
        source.problem = repr(stream)


def _failure_text(error: Exception) -> str:
    return f"{type(error).__name__}: {reason(error)}"[:1000]
