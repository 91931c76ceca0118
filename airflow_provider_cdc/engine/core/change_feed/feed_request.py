"""What a caller asks of a change feed, checked."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from ..arguments.points import Timestamp, Version
from ..errors import InvalidRange, InvalidRequest

_LOCAL = re.compile(r"\d{4}-\d{2}-\d{2}( \d{2}:\d{2}:\d{2}(\.\d{1,3})?)?")
_PREFIX = re.compile(r"[A-Za-z0-9_]{0,100}")

# A version, or a moment in UTC.
FeedPoint = int | datetime


@dataclass(frozen=True, slots=True)
class FeedEdge:
    """One bound of a feed as a caller gives it: a version or a time, or neither."""

    argument: str
    version: int | None
    timestamp: str | datetime | None

    def check_single(self, subject: str) -> None:
        """Refuse two bounds; raises ``InvalidRequest``."""
        if self.version is not None and self.timestamp is not None:
            raise InvalidRequest(
                subject,
                f"has two bounds for {self.argument}",
                cause=f"found {self.argument}_version={self.version!r} and"
                f" {self.argument}_timestamp={str(self.timestamp)!r}",
                fix="pass one of them",
            )

    def point(self, subject: str, moment_of: Callable[[str], datetime | None]) -> FeedPoint | None:
        """The version or the moment; ``None`` if neither is given.

        Delta change data feed: a time is ``yyyy-MM-dd[ HH:mm:ss[.SSS]]`` in the session's time
        zone. Here it may also be ISO 8601 with its offset from UTC.

        :param moment_of: returns the moment of such a text in the session's time zone; ``None`` if
            the calendar does not have it
        :raises InvalidRequest: both are given
        :raises InvalidRange: the value is not a version, or not a time
        """
        self.check_single(subject)
        if self.version is not None:
            return Version(self.version).number
        if self.timestamp is None:
            return None
        if isinstance(self.timestamp, str) and _LOCAL.fullmatch(self.timestamp.strip()):
            found = moment_of(self.timestamp.strip())
            if found is None:
                raise InvalidRange(
                    subject,
                    f"has no time {self.argument}_timestamp={self.timestamp!r}",
                    cause="the calendar has no such time",
                    fix="write it like 2026-01-31 or 2026-01-31 09:00:00.000",
                )
            return found
        return Timestamp(self.timestamp).moment


def checked_prefix(subject: str, prefix: str) -> str:
    """``prefix`` if it can be the beginning of a column's name.

    :raises InvalidRequest: it has other characters than letters, digits and underscores
    """
    if not _PREFIX.fullmatch(prefix):
        raise InvalidRequest(
            subject,
            "cannot use this column_prefix",
            cause=f"expected at most 100 letters, digits and underscores, found {prefix!r}",
            fix="pass a prefix such as feed",
        )
    return prefix
