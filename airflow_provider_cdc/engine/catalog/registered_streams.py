"""Streams as the registry and the logs of their sources show them: list, get, describe."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import datetime

from ..core.arguments.validation import validated
from ..core.change_sets.read_plan import ReadPlan
from ..core.errors import RegistryNotFound
from ..core.model.access import Right, check_access
from ..core.model.serialization import UnreadableStream
from ..core.model.stream import Stream
from ..core.names import stream_key, stream_name
from ..core.upserts.quarantine_size import QuarantineSize
from ..core.verification.proof import VerificationState
from ..storage.files.stores import Files
from ..storage.registry.registry import Registry
from ..storage.registry.registry_snapshot import Record
from ..storage.sources.source_log import SourceLog, StreamSpan
from ..storage.state.verifications import Verifications
from .read_plans import ReadPlanner
from .stream_status import StreamStatus, status_and_span, status_or_reason, unreadable_status
from .upsert_jobs import upsert_streams
from .upsert_status import UpsertTableSummary, quarantine_of, summary_of


@validated
class RegisteredStreams:
    """The streams of one state folder, as ``principal`` reads them. No method changes a stream.

    :param state: the state folder, a URI or an absolute path
    :param storage_options: how to reach the store
    :param clock: gives the time, in UTC
    :param principal: who reads streams
    """

    def __init__(
        self,
        state: str,
        storage_options: Mapping[str, str] | None,
        clock: Callable[[], datetime],
        principal: str,
    ) -> None:
        self.principal = principal
        self._state = state
        self._registry = Registry(state, storage_options=storage_options, clock=clock)
        self._files = Files(storage_options)
        self._sources = SourceLog(self._files, clock)
        self._planner = ReadPlanner(self._files)
        self._verifications = Verifications(state, self._files)
        self._clock = clock

    @property
    def is_begun(self) -> bool:
        """Whether the state folder holds a registry. A folder that is not mounted holds no
        registry.
        """
        return self._registry.snapshot().version is not None

    def check_begun(self) -> None:
        """Check that the state folder holds a registry, which the first stream creates.

        :raises RegistryNotFound: the folder holds no registry
        """
        if not self.is_begun:
            raise RegistryNotFound(
                f"state folder {self._state}",
                "holds no registry of streams",
                cause="no stream was created in this folder yet, its name is wrong, or it is"
                " not mounted here",
                fix="check the name of the folder; the first created stream creates the registry",
            )

    def list_streams(self) -> list[Stream]:
        """The streams that can be read, by name; :meth:`describe_streams` lists the others too."""
        return self._registry.snapshot().streams()

    def list_streams_if_begun(self) -> list[Stream | UnreadableStream] | None:
        """All streams. Those that can be read come first. ``None``: there is no registry."""
        snapshot = self._registry.snapshot()
        if snapshot.version is None:
            return None
        return [*snapshot.streams(), *snapshot.unreadable()]

    def registered(self, names: Collection[str]) -> tuple[list[str], list[str]]:
        """``names`` as they are registered, and the names of all streams, from one read.

        :raises StreamNotFound: there is no stream of one of ``names``
        """
        snapshot = self._registry.snapshot()
        return [snapshot.get(stream_name(name)).name for name in names], snapshot.names

    def get_stream(self, name: str) -> Stream:
        """One stream; raises ``StreamNotFound``."""
        return self._registry.snapshot().get(stream_name(name))

    def stream_history(self, name: str) -> list[Record]:
        """Every transition of a stream, oldest first, including those whose record cannot be read.
        Raises ``StreamNotFound``.
        """
        found = self._registry.snapshot()
        holder = found.holder(stream_name(name)) or found.get(name)
        return self._registry.history(holder.stream_id)

    def permitted(self, name: str, right: Right) -> Stream:
        """One stream, if the principal has ``right`` on it.

        :raises StreamNotFound: there is no such stream
        :raises StreamAccessDenied: the principal does not have the right
        """
        stream = self.get_stream(name)
        check_access(stream, self.principal, right)
        return stream

    def describe_stream(self, name: str) -> StreamStatus:
        """The status of one stream; raises ``StreamNotFound``."""
        stream = self.get_stream(name)
        found = self.verifications_of([stream.stream_id])
        return replace(self.status_of(stream), verifications=found[stream.stream_id])

    def describe_streams(self) -> list[StreamStatus]:
        """The status of every stream, by name. If a stream could not be checked, its status gives
        the reason.
        """
        now, snapshot = self._clock(), self._registry.snapshot()
        verifications = self.verifications_of([each.stream_id for each in snapshot.streams()])
        found = [
            replace(
                status_or_reason(stream, self._sources, now),
                verifications=verifications[stream.stream_id],
            )
            for stream in snapshot.streams()
        ]
        found += [unreadable_status(stream, now) for stream in snapshot.unreadable()]
        return sorted(found, key=lambda status: stream_key(status.name))

    def status_of(self, stream: Stream) -> StreamStatus:
        """The status of a stream that was read already, without the checks of its targets. It does
        not read the registry again.
        """
        return self.status_and_span(stream)[0]

    def status_and_span(self, stream: Stream) -> tuple[StreamStatus, StreamSpan | None]:
        """Like :meth:`status_of`, with the range from which the status was made. ``None``: a table
        cannot be read.
        """
        return status_and_span(stream, self._sources, self._clock())

    def explain_stream(self, name: str) -> ReadPlan:
        """How the change set of a stream would be read now; reads only logs.

        For a stream on a view the plan is a sum, and ``tables`` has the plan of each table.

        :raises StreamNotFound: there is no such stream
        :raises StreamAccessDenied: the principal may not read it
        :raises StreamUnusable: its change set can no longer be read
        """
        return self.plan_of(self._sources.span(self.permitted(name, Right.READ)))

    def plan_of(self, span: StreamSpan) -> ReadPlan:
        """How a range that was read already would be read, for every principal."""
        return self._planner.of_stream(span)

    def verifications_of(
        self, stream_ids: Collection[str]
    ) -> dict[str, tuple[VerificationState, ...]]:
        """What the last checks of the targets of each stream found."""
        return self._verifications.of_streams(stream_ids)

    def upsert_tables(self) -> list[UpsertTableSummary]:
        """What the logs show of every upsert table, by name."""
        now = self._clock()
        found = [
            summary_of(stream, status_or_reason(stream, self._sources, now), self._files)
            for stream in upsert_streams(self.list_streams())
        ]
        return sorted(found, key=lambda each: each.name)

    def quarantine_of(self, stream: Stream) -> QuarantineSize | None:
        """The size of the quarantine of an upsert table, from its log; ``None``: it cannot be read.

        :param stream: on the changes of the table
        """
        return quarantine_of(stream, self._files)
