"""Points in the history of a source, as offsets."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from ..core.errors import InvalidRange
from ..core.model import Offset
from ..core.points import Bound, OffsetOf, Timestamp, Version
from ..core.tracking import offset_of
from .commit_times import CommitTimes
from .delta_log import DeltaLog, LogIncomplete
from .files import Files


class SourceHistory:
    """Finds the version that a bound means.

    :param clock: gives the time, in UTC
    """

    def __init__(self, files: Files, clock: Callable[[], datetime]) -> None:
        self._files = files
        self._clock = clock

    def offset(
        self, subject: str, location: str, bound: Bound, standing: Offset | None = None
    ) -> Offset:
        """The offset behind the last version that lies on the near side of ``bound``.

        :param subject: what asks, for messages
        :param location: the root of the table
        :param standing: where the stream of an ``OffsetOf`` stands
        :raises InvalidRange: there is no such version, or the log no longer reaches back to it
        """
        if standing is not None and bound.is_inclusive:
            return standing
        log = DeltaLog(location, self._files)
        newest = log.latest_version()
        try:
            version = self._version(subject, log, bound, standing)
            if 0 <= version <= newest:
                return offset_of(log.state_at(version))
        except LogIncomplete as error:
            missing = f"the log no longer holds version {error.missing_version}"
            raise _outside(subject, bound, missing) from None
        raise _outside(subject, bound, f"expected a version from 0 to {newest}")

    def _version(self, subject: str, log: DeltaLog, bound: Bound, standing: Offset | None) -> int:
        match bound.point:
            case Version(number):
                return number if bound.is_inclusive else number - 1
            case Timestamp() as point:
                if point.moment > self._clock():
                    raise _outside(subject, bound, "that time has not come yet")
                times = CommitTimes(log)
                found = times.newest(point.moment, is_inclusive=bound.is_inclusive)
                if found is None:
                    raise _outside(subject, bound, "the log begins later")
                return found
            case OffsetOf():
                assert standing is not None
                return standing.version - 1


def _outside(subject: str, bound: Bound, cause: str) -> InvalidRange:
    return InvalidRange(
        subject,
        f"cannot stand {bound}",
        cause=cause,
        fix="name a point that the source's history still holds; see DESCRIBE HISTORY",
    )
