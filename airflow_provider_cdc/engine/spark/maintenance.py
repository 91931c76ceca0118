"""Keeping streams from going stale: extending the retention of what they read, and taking it back.

Seed 000: the retention of a source is extended to the offset of a stream that is not consumed, and
goes back to what it was when the stream is consumed.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from ..catalog import StreamCatalog
from ..core.errors import CdcError, NotADeltaTable, StreamUnusable, TableNotFound
from ..core.model import Stream
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
from ..storage.source_log import SourceLog, SourceRange
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
        streams = [stream for stream in self._catalog.show() if stream.folder is None]
        skipped = tuple(stream.name for stream in streams if self._skip(stream))
        holder = self._registry.identity()
        needs: dict[str, list[_Need]] = defaultdict(list)
        for location in self._extended.locations():
            needs[location] = []
        for stream in self._catalog.show():
            for each in stream.by_base() if stream.folder is None else ():
                needs[each.source.location] += self._needs(each, ahead)
        sources = [
            self._maintain(location, str(holder), found) for location, found in needs.items()
        ]
        return Maintenance(skipped, tuple(sources))

    def _skip(self, stream: Stream) -> bool:
        try:
            return self._catalog.skip(stream.name, younger=True)
        except CdcError:
            # Gone, or not to be read any more: its status says so.
            return False

    def _needs(self, stream: Stream, ahead: timedelta) -> list[_Need]:
        """What ``stream`` needs of its only base table: nothing, or an extension."""
        try:
            span = self._sources.range(stream)
        except StreamUnusable:
            return []
        if not span.commits:
            return []
        own = own_retention(_properties(span))
        now = self._clock()
        length = needed_extension(
            span.commits[0].timestamp, now, own=own, limit=stream.max_data_extension, ahead=ahead
        )
        if length is None:
            return []
        kept = sum(
            file.size_bytes
            for commit in span.commits
            if commit.timestamp + own < now
            for file in commit.removes
        )
        return [_Need(stream.name, length, kept)]

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
                self._tables.set_properties(location, changes)
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


def _properties(span: SourceRange) -> Mapping[str, str]:
    return json.loads(span.end.metadata).get("configuration") or {}
