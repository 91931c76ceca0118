"""Streams without Spark: describe, change, drop, and check for data, in milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import replace
from datetime import datetime, timedelta
from getpass import getuser
from typing import Any

from ..clock import utc_now
from ..core.arguments.intervals import interval_if_given
from ..core.arguments.validation import KEPT, Kept, validated, validated_call
from ..core.errors import CdcError, NotADeltaTable, StreamNotFound
from ..core.model.access import Right, check_access, principals
from ..core.model.lifecycle import Transition, next_phase
from ..core.model.serialization import UnreadableStream
from ..core.model.stream import Phase, Stream, new_stream
from ..core.names import consumer_name, stream_name
from ..storage.registry.registry_snapshot import Change, RegistrySnapshot
from ..storage.sources.source_log import StreamProbe, StreamSpan
from .bounded_map import bounded_map
from .registered_streams import RegisteredStreams

_SKIPPED_AFTER = timedelta(days=1)
_PROBES_AT_ONCE = 16
_PROBE_PATIENCE_SECONDS = 120.0


@validated
class StreamCatalog(RegisteredStreams):
    """The streams of one state folder, read and changed without a JVM.

    :param state: the state folder, a URI or an absolute path
    :param storage_options: how to reach the store
    :param clock: gives the time, in UTC
    :param principal: who reads and changes streams; by default the user of this process
    :raises InvalidName: ``principal`` is not a valid name
    """

    @validated_call
    def __init__(
        self,
        state: str,
        *,
        storage_options: Mapping[str, str] | None = None,
        clock: Callable[[], datetime] = utc_now,
        principal: str | None = None,
    ) -> None:
        known = consumer_name(getuser() if principal is None else principal)
        super().__init__(state, storage_options, clock, known)
        self._is_for_upserts = False

    def for_upserts(self) -> StreamCatalog:
        """The same streams, for the methods of upsert tables. Only these methods may move the
        streams of upsert tables.
        """
        found = copy(self)
        found._is_for_upserts = True
        return found

    def drop_stream(self, name: str, *, if_exists: bool = False) -> None:
        """Drop a stream. Its source and its targets stay unchanged.

        The stream of an upsert table can be dropped only if that table is missing. A stream whose
        record cannot be read can always be dropped.

        :raises StreamNotFound: there is no such stream, unless ``if_exists``
        :raises StreamConflict: a consumption of it is open
        :raises StreamAccessDenied: the principal does not own it
        :raises InvalidRequest: it is the stream of an upsert table that still exists
        """
        snapshot = self._registry.snapshot()
        stream = snapshot.holder(stream_name(name))
        if isinstance(stream, UnreadableStream):
            check_access(stream, self.principal, Right.OWN, for_upserts=True)
            changes = [Change(stream, Transition.DROPPED)]
            self._registry.transact(snapshot, changes, actor=self.principal)
            return
        if stream is None and if_exists:
            return
        stream = snapshot.get(name)
        is_left_over = stream.upsert_table is not None and self._has_no_source(stream)
        catalog = self.for_upserts() if is_left_over else self
        catalog._moved(snapshot, stream, Transition.DROPPED)

    def alter_stream(
        self,
        name: str,
        *,
        comment: str | Kept | None = KEPT,
        owner: str | Kept = KEPT,
        readers: Collection[str] | Kept | None = KEPT,
        consumers: Collection[str] | Kept | None = KEPT,
        max_data_extension: timedelta | str | Kept = KEPT,
        max_lag: timedelta | str | Kept | None = KEPT,
    ) -> Stream:
        """Change attributes of a stream. Attributes that are not given stay as they are.

        To repair a stream whose record cannot be read, give the attributes that cannot be read.

        :param comment: the new comment, or ``None``
        :param owner: the principal that owns it after the call; the former owner keeps only the
            rights that ``readers`` and ``consumers`` give
        :param max_data_extension: how long its sources may be made to keep what it has not consumed
        :param max_lag: how old a change may get before the monitor sends an alert; ``None``: no
            limit
        :param readers: who may read it in addition to its owner; ``None``: everybody
        :param consumers: who may consume it in addition to its owner; ``None``: its readers
        :raises StreamNotFound: there is no such stream
        :raises StreamConflict: a consumption of it is open
        :raises StreamAccessDenied: the principal does not own it
        :raises InvalidName: ``owner`` is not a valid name
        :raises InvalidRequest: it is the stream of an upsert table, or an argument is wrong
        :raises StreamUnreadable: its record cannot be read, and these attributes do not repair it
        """
        given: dict[str, Any] = {
            "comment": comment,
            "owner": owner if isinstance(owner, Kept) else consumer_name(owner),
            "readers": principals(readers),
            "consumers": principals(consumers),
            "max_data_extension": interval_if_given(max_data_extension, "max_data_extension"),
            "max_lag": interval_if_given(max_lag, "max_lag"),
        }
        snapshot = self._registry.snapshot()
        changed = {field: value for field, value in given.items() if value is not KEPT}
        found = snapshot.holder(stream_name(name))
        if isinstance(found, UnreadableStream):
            check_access(found, self.principal, Right.OWN, for_upserts=self._is_for_upserts)
            stream = found.repaired(changed)
        else:
            stream = snapshot.get(name)
        return self._moved(snapshot, stream, Transition.ALTERED, **changed)

    def rename_stream(self, name: str, to: str) -> Stream:
        """Give a stream another name. After that, statements find it under the new name only.

        :raises StreamNotFound: there is no such stream
        :raises StreamExists: another stream has the new name
        :raises StreamConflict: a consumption of it is open
        :raises StreamAccessDenied: the principal does not own it
        :raises InvalidRequest: it is the stream of an upsert table
        """
        snapshot = self._registry.snapshot()
        stream = snapshot.get(stream_name(name))
        return self._moved(snapshot, stream, Transition.RENAMED, name=stream_name(to))

    def clone_stream(self, name: str, of: str, *, comment: str | None = None) -> Stream:
        """Create a stream at the same offset as another one. Then the two streams move
        independently.

        The clone belongs to the principal. Its readers and consumers are those of the original.

        :raises StreamNotFound: there is no stream ``of``
        :raises StreamExists: there is a stream of that name
        :raises StreamAccessDenied: the principal may not read the original
        """
        snapshot = self._registry.snapshot()
        original = snapshot.get(stream_name(of))
        check_access(original, self.principal, Right.READ)
        clone = new_stream(
            stream_name(name),
            original.bases,
            created_at=self._clock(),
            owner=self.principal,
            mode=original.mode,
            append_semantics=original.append_semantics,
            column_style=original.column_style,
            comment=comment,
            view=original.view,
            folder=original.folder,
            shows_initial_rows=original.shows_initial_rows,
            readers=original.readers,
            consumers=original.consumers,
            max_data_extension=original.max_data_extension,
            max_lag=original.max_lag,
        )
        (created,) = self._registry.transact(
            snapshot, [Change(clone, Transition.CREATED)], actor=self.principal
        )
        return created

    def undrop_stream(self, name: str) -> Stream:
        """Bring back the stream that was dropped last under a name, at the offset that it had.

        :raises StreamNotFound: no stream was dropped under that name
        :raises StreamExists: there is a stream of that name
        """
        snapshot = self._registry.snapshot()
        stream = self._registry.dropped(stream_name(name))
        if stream is None:
            self.check_begun()
            raise StreamNotFound(
                f"stream {name}",
                "cannot be brought back",
                cause="no stream was dropped under that name, or it was brought back already",
                fix="check the list of streams, or create the stream",
            )
        return self._moved(snapshot, stream, Transition.UNDROPPED)

    def advance_stream(self, name: str) -> Stream:
        """Move a stream's offset to now without a DML statement. Initial rows are skipped too.

        :raises StreamNotFound: there is no such stream
        :raises StreamConflict: a consumption of it is open
        :raises StreamAccessDenied: the principal may not consume it
        :raises StreamUnusable: its change set can no longer be read
        :raises InvalidRequest: it is the stream of an upsert table
        """
        snapshot = self._registry.snapshot()
        stream = snapshot.get(stream_name(name))
        check_access(stream, self.principal, Right.CONSUME, for_upserts=self._is_for_upserts)
        phase = next_phase(stream, Transition.ADVANCED)
        current = replace(stream, phase=phase, shows_initial_rows=False)
        ends = (table.end for table in self._sources.span(current).tables)
        moved = replace(current.with_offsets(*ends), last_consumed_at=self._clock())
        changes = [Change(moved, Transition.ADVANCED)]
        (advanced,) = self._registry.transact(snapshot, changes, actor=self.principal)
        return advanced

    def skip_range(self, span: StreamSpan, *, younger: bool = False) -> bool:
        """Move a stream's offset over a range that holds no change for it, so that the source does
        not have to keep these commits. Returns whether the offset moved.

        Snowflake: checking whether an empty stream has data keeps it from going stale.

        :param younger: move the offset even if it is less than a day old
        """
        snapshot = self._registry.snapshot()
        stream, ends = span.stream, [table.end for table in span.tables]
        is_there = stream.stream_id in snapshot and snapshot.by_id(stream.stream_id) == stream
        is_moving = ends != [base.offset for base in stream.bases]
        if not (is_there and is_moving and self._is_skippable(stream, younger=younger)):
            return False
        changes = [Change(stream.with_offsets(*ends), Transition.SKIPPED)]
        # This move is optional. Another process may move the stream at the same time, or the
        # principal may have no write access.
        with suppress(CdcError):
            self._registry.transact(snapshot, changes, actor=self.principal)
            return True
        return False

    def _is_skippable(self, stream: Stream, *, younger: bool) -> bool:
        """Whether the offset of ``stream`` may move without a consumption, and is old enough."""
        oldest = min(base.offset.timestamp for base in stream.bases)
        return (
            stream.phase is Phase.IDLE
            and stream.folder is None
            and not stream.shows_initial_rows
            and (younger or oldest <= self._clock() - _SKIPPED_AFTER)
        )

    def probe_stream(self, name: str) -> StreamProbe:
        """The position of a stream, and whether it may have a change: false only if it certainly
        has no change. The call is faster than :meth:`describe_stream` if the offset is far back.

        Snowflake, SYSTEM$STREAM_HAS_DATA: it may be true without a change, and is never false with
        one. The call keeps an empty stream from going stale (:meth:`skip_range`).

        :raises StreamNotFound: there is no such stream
        :raises StreamAccessDenied: the principal may not read it
        :raises StreamUnusable: its change set can no longer be read
        """
        return self.probe_of(self.get_stream(name))

    def probe_of(self, stream: Stream) -> StreamProbe:
        """Like :meth:`probe_stream`, for a stream that was read already. It reads no registry."""
        check_access(stream, self.principal, Right.READ)
        found = self._sources.probe(stream)
        is_behind = not found.may_have_data and found.latest_version > found.offset_version
        if is_behind and self._is_skippable(stream, younger=False):
            span = self._sources.span(stream)
            if span.holds_nothing:
                self.skip_range(span)
        return found

    def streams_with_work(self, names: Collection[str]) -> frozenset[str]:
        """Those of ``names`` in which a consumption may find something.

        A stream has work if it may have a change or has initial rows, if a consumption of it is
        open, or if it cannot be checked: then its consumption names the reason. Like
        :meth:`probe_stream`, this call keeps an empty stream from going stale.
        """
        snapshot = self._registry.snapshot()

        def has_work(name: str) -> bool:
            stream = snapshot.get(name)
            return (
                stream.phase is not Phase.IDLE
                or stream.shows_initial_rows
                or self.probe_of(stream).may_have_data
            )

        given = list(names)
        found = bounded_map(
            has_work, given, at_once=_PROBES_AT_ONCE, patience_seconds=_PROBE_PATIENCE_SECONDS
        )
        # An exception counts as work.
        return frozenset(name for name, has_any in zip(given, found, strict=True) if has_any)

    def _has_no_source(self, stream: Stream) -> bool:
        """Whether the table of ``stream`` is missing. Another table may be in its place."""
        try:
            found = self._sources.newest_offset(stream.source.location)
        except NotADeltaTable:
            return True
        return found.table_id != stream.source.table_id

    def _moved(
        self,
        snapshot: RegistrySnapshot,
        stream: Stream,
        transition: Transition,
        **fields: Any,
    ) -> Stream:
        check_access(stream, self.principal, Right.OWN, for_upserts=self._is_for_upserts)
        moved = replace(stream, phase=next_phase(stream, transition), **fields)
        (found,) = self._registry.transact(
            snapshot, [Change(moved, transition)], actor=self.principal
        )
        return found
