"""Alters change streams: what they watch, what their records hold, and how long they are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...core.arguments.validation import Kept
from ...core.change_streams.definition import ChangeStream
from ...core.change_streams.watches import Watch, WatchedTable
from ...core.errors import StreamConflict
from ...storage.state.change_streams import ChangeStreams
from .creation import ChangeStreamCreation

_TRIES = 10
# These change nothing of what is captured, so they take effect at once.
_AT_ONCE = frozenset({"retention", "on_duplicate_key", "target_rows"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Alteration:
    """What to change of a change stream; ``KEPT`` leaves something as it is."""

    tables: Mapping[str, Watch] | Kept
    settings: Mapping[str, Any]
    comment: str | Kept | None

    @property
    def is_at_once(self) -> bool:
        """Whether it changes nothing of what is captured."""
        return isinstance(self.tables, Kept) and set(self.settings) <= _AT_ONCE


@dataclass(frozen=True, slots=True)
class ChangeStreamAlteration:
    """Alters the change streams of one state folder.

    :param advance: seals and captures everything of a change stream
    """

    streams: ChangeStreams
    creation: ChangeStreamCreation
    advance: Callable[[str], ChangeStream]

    def alter(self, name: str, wanted: Alteration) -> ChangeStream:
        """Alter a change stream; see ``Engine.alter_change_stream``."""
        known = self.streams.get(name)
        tables = known.tables
        if not isinstance(wanted.tables, Kept):
            tables = self.creation.rewatched(known, wanted.tables)
        before = _streams(known)
        added = [table for table in tables if table.stream not in before]
        try:
            altered = self._altered(known, tables, wanted)
        except BaseException:
            self.creation.drop_sources(added)
            raise
        kept = _streams(altered)
        self.creation.drop_sources([each for each in known.tables if each.stream not in kept])
        return altered

    def _altered(
        self, known: ChangeStream, tables: tuple[WatchedTable, ...], wanted: Alteration
    ) -> ChangeStream:
        def change(found: ChangeStream) -> ChangeStream:
            if found.stream_id != known.stream_id or _watches(found) != _watches(known):
                raise StreamConflict(
                    known.subject,
                    "was altered by another process first; nothing was changed",
                    cause="two processes altered it",
                    fix="read it again and retry",
                )
            if found.pending and not wanted.is_at_once:
                raise _Waiting
            return replace(
                found,
                settings=replace(found.settings, **wanted.settings),
                tables=found.tables
                if isinstance(wanted.tables, Kept)
                else _with_versions(tables, found),
                comment=found.comment if isinstance(wanted.comment, Kept) else wanted.comment,
            )

        for _ in range(_TRIES):
            # What is sealed keeps the settings under which it was sealed.
            if not wanted.is_at_once:
                self.advance(known.name)
            try:
                return self.streams.update(known.name, change)
            except _Waiting:
                continue
        raise StreamConflict(
            known.subject,
            "could not be altered",
            cause="other processes kept sealing commits of its tables",
            fix="alter it while no other process advances it",
        )


class _Waiting(Exception):
    """Commits were sealed since the last capture."""


def _streams(stream: ChangeStream) -> set[str]:
    return {table.stream for table in stream.tables}


def _watches(stream: ChangeStream) -> list[tuple[str, Any]]:
    return [(table.stream, table.columns) for table in stream.tables]


def _with_versions(
    tables: tuple[WatchedTable, ...], found: ChangeStream
) -> tuple[WatchedTable, ...]:
    """``tables``, those that were watched before at the versions that they have reached now."""
    reached = {table.stream: table for table in found.tables}
    return tuple(
        replace(table, sealed=reached[table.stream].sealed, captured=reached[table.stream].captured)
        if table.stream in reached
        else table
        for table in tables
    )
