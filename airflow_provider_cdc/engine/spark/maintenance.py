"""Keeping streams from going stale: extending the retention of what they read, and taking it back.

Seed 000: the retention of a source is extended to the offset of a stream that is not consumed, and
goes back to what it was when the stream is consumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from ..catalog import StreamCatalog
from ..core.errors import NotADeltaTable, StreamUnusable, TableNotFound
from ..core.model import Stream
from ..core.names import quote
from ..core.retention import (
    Maintenance,
    SourceRetention,
    extended,
    extension_of,
    needed_extension,
    own_retention,
)
from ..storage.delta_log import DeltaLog
from ..storage.extended_sources import ExtendedSources
from ..storage.files import Files
from ..storage.registry import Registry
from ..storage.source_log import SourceLog, SourceRange, StreamSpan
from .tables import Tables


@dataclass(frozen=True, slots=True)
class _Need:
    """What a stream needs of one table."""

    stream: str
    length: timedelta
    bytes_kept: int


class Maintainer:
    """Does the upkeep of all streams of a state folder; run again, it finds nothing to do."""

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
        """Move empty streams on, extend what is needed, take back what is not.

        A table that cannot be looked at or changed does not keep the others from it.

        :param ahead: how much later this runs again, at the latest
        """
        holder = str(self._registry.identity())
        skipped = []
        needs: dict[str, list[_Need]] = {location: [] for location in self._extended.locations()}
        for stream in self._catalog.show():
            if stream.folder is not None:
                continue
            span = StreamSpan(stream, tuple(self._readable(stream)))
            is_whole = len(span.tables) == len(stream.bases)
            if is_whole and span.holds_nothing and self._catalog.skip_range(span, younger=True):
                skipped.append(stream.name)
                span = StreamSpan(stream, ())
            for base in stream.bases:
                needs.setdefault(base.source.location, [])
            for table in span.tables:
                needs[table.stream.source.location] += self._needs(table, ahead)
        sources = [self._maintain(location, holder, found) for location, found in needs.items()]
        return Maintenance(tuple(skipped), tuple(sources))

    def _readable(self, stream: Stream) -> Iterator[SourceRange]:
        """What happened to each base table since the offset, also where the initial rows wait. One
        that cannot be read any more is left out; the stream's status says why.
        """
        for each in stream.by_base():
            with suppress(StreamUnusable):
                yield self._sources.range(each)

    def _needs(self, span: SourceRange, ahead: timedelta) -> list[_Need]:
        """What the stream of ``span`` needs of its table: nothing, or an extension."""
        if not span.commits:
            return []
        own, now = own_retention(span.end.properties), self._clock()
        oldest, limit = span.commits[0].timestamp, span.stream.max_data_extension
        length = needed_extension(oldest, now, own=own, limit=limit, ahead=ahead)
        if length is None:
            return []
        kept = sum(
            file.size_bytes
            for commit in span.commits
            if commit.timestamp + own < now
            for file in commit.removes
        )
        return [_Need(span.stream.name, length, kept)]

    def _maintain(self, location: str, holder: str, needs: list[_Need]) -> SourceRetention:
        streams = tuple(sorted(need.stream for need in needs))
        length = max((need.length for need in needs), default=None)
        bytes_kept = max((need.bytes_kept for need in needs), default=0)
        own: timedelta | None = None
        try:
            properties = self._properties_of(location)
            own = own_retention(properties)
            changes = extended(properties, holder, length)
            if changes:
                if length is not None:
                    self._extended.note(location)
                self._tables.set_properties(f"delta.{quote(location)}", changes)
                properties = self._properties_of(location)
        except (NotADeltaTable, TableNotFound):
            # Nothing is kept where there is no table.
            self._extended.strike_off(location)
            return SourceRetention(location, None, None, streams, 0, has_changed=False)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"[:1000]
            return SourceRetention(
                location, own, None, streams, bytes_kept, has_changed=False, problem=problem
            )
        found = extension_of(properties, holder)
        if found is None:
            self._extended.strike_off(location)
        return SourceRetention(
            location,
            own,
            found,
            streams if found else (),
            bytes_kept if found else 0,
            has_changed=bool(changes),
        )

    def _properties_of(self, location: str) -> Mapping[str, str]:
        log = DeltaLog(location, self._files)
        return log.state_at(log.latest_version()).configuration
