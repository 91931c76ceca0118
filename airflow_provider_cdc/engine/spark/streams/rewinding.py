"""Moves a stream back to an earlier point, so that it returns the same changes again."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...core.arguments.points import Point, bound_of
from ...core.errors import InvalidRange, InvalidRequest
from ...core.model.access import Right, check_access
from ...core.model.lifecycle import Transition, next_phase
from ...core.model.stream import Stream
from ...core.names import stream_name
from ...storage.files.scratch import Scratch
from ...storage.registry.registry import Registry
from ...storage.registry.registry_snapshot import Change
from ...storage.sources.source_log import SourceLog
from ..reading.found_sources import FoundSource, Sources
from ..reading.stream_reader import StreamReader


@dataclass(frozen=True, slots=True)
class Readability:
    """Checks whether the change set of a stream could be read from a given offset."""

    logs: SourceLog
    reader: StreamReader
    scratch: Scratch

    def check(self, draft: Stream) -> None:
        """Refuse an offset whose change set can no longer be read; this reads no rows.

        :raises StreamUnusable: names what is missing
        """
        span = self.logs.span_from(draft)
        if draft.shows_initial_rows:
            span = self.logs.span(draft)
        changes = self.reader.read(span)
        for root in changes.scratch:
            self.scratch.remove(root)


@dataclass(frozen=True, slots=True)
class Rewinding:
    """Moves the streams of one registry back."""

    registry: Registry
    sources: Sources
    readability: Readability
    principal: str

    def rewind(self, name: str, to: Point) -> Stream:
        """Move a stream back; see ``Engine.rewind_stream``."""
        subject = f"stream {name}"
        bound = bound_of(subject, to, None)
        if bound is None:
            raise InvalidRequest(
                subject,
                "cannot be rewound",
                cause="expected a point to rewind to, found None",
                fix='name one, such as to=Version(3) or to=Timestamp("2026-01-01T00:00:00Z")',
            )
        snapshot = self.registry.snapshot()
        stream = snapshot.get(stream_name(name))
        check_access(stream, self.principal, Right.CONSUME)
        phase = next_phase(stream, Transition.REWOUND)
        found = FoundSource(stream.bases, (), stream.view, stream.folder)
        offsets = self.sources.offsets(subject, found, bound, snapshot, self.principal)
        for base, offset in zip(stream.bases, offsets, strict=True):
            if offset.version > base.offset.version:
                raise InvalidRange(
                    subject,
                    f"cannot be rewound to a point that it has not reached, {bound}",
                    cause=f"it is at version {base.offset.version} of {base.source.name},"
                    f" that point is version {offset.version}",
                    fix="consume it, or skip all changes with AdvanceStream or"
                    " engine.advance_stream(stream)",
                )
        moved = replace(stream, phase=phase).with_offsets(*offsets)
        if stream.folder is None:
            self.readability.check(moved)
        changes = [Change(moved, Transition.REWOUND)]
        (rewound,) = self.registry.transact(snapshot, changes, actor=self.principal)
        return rewound
