"""Points in the history of a source, as offsets."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from ...core.arguments.points import Bound, OffsetOf, Timestamp, Version
from ...core.delta.log_actions import TableState
from ...core.delta.tracking import offset_before, offset_of
from ...core.errors import InvalidRange, InvalidRequest
from ...core.model.sources import Offset, Source
from ..delta.commit_times import CommitTimes
from ..delta.delta_log import DeltaLog, LogIncomplete
from ..files.stores import Files
from ..registry.registry_snapshot import RegistrySnapshot


class SourceHistory:
    """Finds the version that a bound means.

    :param clock: gives the time, in UTC
    """

    def __init__(self, files: Files, clock: Callable[[], datetime]) -> None:
        self._files = files
        self._clock = clock

    def offset(
        self,
        subject: str,
        source: Source,
        bound: Bound,
        streams: RegistrySnapshot,
        *,
        may_precede_all: bool = False,
    ) -> Offset:
        """The offset after the last version that ``bound`` includes.

        :param subject: the stream or table, for messages
        :param streams: the streams that an ``OffsetOf`` may name
        :param may_precede_all: whether a bound before version 0 is an offset too; otherwise it is
            refused
        :raises InvalidRange: there is no such version, or the log no longer reaches back to it
        :raises StreamNotFound: there is no such stream
        :raises InvalidRequest: that stream is on another table
        """
        named = _named_offset(subject, source, bound, streams)
        if named is not None and bound.is_inclusive:
            return named
        log = DeltaLog(source.location, self._files)
        newest = log.latest_version()
        try:
            version = self._version(subject, log, bound, named)
            if 0 <= version <= newest:
                return offset_of(_checked(subject, source, bound, log.state_at(version)))
            if version < 0 and may_precede_all:
                return offset_before(_checked(subject, source, bound, log.state_at(0)))
        except LogIncomplete as error:
            missing = f"the log no longer holds version {error.missing_version}"
            raise _outside(subject, bound, missing) from None
        if version < 0:
            raise _before_all(subject, bound)
        raise _outside(subject, bound, f"expected a version from 0 to {newest}")

    def _version(self, subject: str, log: DeltaLog, bound: Bound, named: Offset | None) -> int:
        match bound.point:
            case Version(number):
                return number if bound.is_inclusive else number - 1
            case Timestamp() as point:
                if point.moment > self._clock():
                    raise _outside(subject, bound, "that time is in the future")
                times = CommitTimes(log)
                found = times.newest(point.moment, is_inclusive=bound.is_inclusive)
                if found is None:
                    raise _outside(subject, bound, "the log begins later")
                return found
            case OffsetOf():
                assert named is not None
                return named.version - 1


def _named_offset(
    subject: str, source: Source, bound: Bound, streams: RegistrySnapshot
) -> Offset | None:
    """The offset of the stream that an ``OffsetOf`` names; ``None`` for other points."""
    if not isinstance(bound.point, OffsetOf):
        return None
    other = streams.get(bound.point.stream)
    for base in other.bases:
        if base.source.table_id == source.table_id:
            return base.offset
    raise InvalidRequest(
        subject,
        f"cannot begin {bound}",
        cause=f"that stream is on {other.table_on}, not on {source.name}",
        fix="name a stream on the same table",
    )


def _checked(subject: str, source: Source, bound: Bound, state: TableState) -> TableState:
    if state.table_id != source.table_id:
        raise _outside(
            subject, bound, f"{source.name} was a different table then, and was replaced"
        )
    return state


def _before_all(subject: str, bound: Bound) -> InvalidRange:
    return InvalidRange(
        subject,
        f"cannot begin {bound}",
        cause="an offset is a version, and no version is before version 0",
        fix="pass at=Version(0); with show_initial_rows, a stream on a table returns the rows of"
        " version 0 first",
    )


def _outside(subject: str, bound: Bound, cause: str) -> InvalidRange:
    return InvalidRange(
        subject,
        f"cannot begin {bound}",
        cause=cause,
        fix="name a point that the source's history still holds; see DESCRIBE HISTORY",
    )
