"""The versions that the bounds of a change feed mean."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ...core.arguments.points import ends_before_it_begins
from ...core.change_feed.feed_options import OutOfRange
from ...core.change_feed.feed_request import FeedPoint
from ...core.errors import InvalidRange
from ..delta.commit_times import CommitTimes
from ..delta.delta_log import DeltaLog, LogIncomplete


@dataclass(frozen=True, slots=True)
class FeedBounds:
    """The first and the last commit of a feed, both inclusive. Without ``last``, the feed ends with
    the newest commit.
    """

    first: FeedPoint
    last: FeedPoint | None
    out_of_range: OutOfRange

    def versions(self, subject: str, log: DeltaLog) -> range:
        """The versions of the feed; empty if no commit is between the bounds.

        Delta change data feed: a time means the first commit from it on for the beginning, and the
        last commit up to it for the end.

        :param subject: the feed, for messages
        :raises InvalidRange: the end is before the beginning, the log begins later, or a bound is
            after the newest commit and ``out_of_range`` does not allow that
        """
        newest = log.latest_version()
        times = CommitTimes(log)
        try:
            beyond = [
                bound
                for bound in (self.first, self.last)
                if bound is not None and self._is_beyond(bound, newest, times)
            ]
            self._check_order(subject)
            if beyond and self.out_of_range is OutOfRange.ERROR:
                raise _after_newest(subject, beyond[0], newest)
            if self.first in beyond or (beyond and self.out_of_range is OutOfRange.EMPTY):
                return range(0)
            last = newest if self.last is None or beyond else self._last(subject, times)
            first = self._first(subject, times)
        except LogIncomplete as error:
            raise cleaned_up(subject, f"version {error.missing_version}") from None
        are_times = isinstance(self.first, datetime) and isinstance(self.last, datetime)
        if last < first and not (are_times or self.last is None):
            raise ends_before_it_begins(
                subject, f"the first version is {first}, the last version is {last}"
            )
        return range(first, last + 1)

    def end(self, subject: str, log: DeltaLog) -> int | None:
        """The last version of a feed whose beginning the log need not hold; ``None``: the feed is
        empty, because its end is after the newest commit.

        :raises InvalidRange: the end is before the beginning, or is after the newest commit and
            ``out_of_range`` does not allow that
        """
        newest, times = log.latest_version(), CommitTimes(log)
        self._check_order(subject)
        try:
            if self.last is None:
                return newest
            if not self._is_beyond(self.last, newest, times):
                return self._last(subject, times)
        except LogIncomplete as error:
            raise cleaned_up(subject, f"version {error.missing_version}") from None
        if self.out_of_range is OutOfRange.ERROR:
            raise _after_newest(subject, self.last, newest)
        return newest if self.out_of_range is OutOfRange.CLAMP else None

    def _check_order(self, subject: str) -> None:
        match self.first, self.last:
            case (int(first), int(last)) if last < first:
                raise ends_before_it_begins(subject, f"version {last} is before version {first}")
            case (datetime() as start, datetime() as end) if end < start:
                raise ends_before_it_begins(subject, f"{end} is before {start}")

    @staticmethod
    def _is_beyond(bound: FeedPoint, newest: int, times: CommitTimes) -> bool:
        if isinstance(bound, int):
            return bound > newest
        return bound > times.of_newest()

    def _first(self, subject: str, times: CommitTimes) -> int:
        if isinstance(self.first, int):
            return self.first
        found = times.newest(self.first, is_inclusive=False)
        if found is None:
            raise cleaned_up(subject, f"what was committed by {self.first}")
        return found + 1

    def _last(self, subject: str, times: CommitTimes) -> int:
        if not isinstance(self.last, datetime):
            assert self.last is not None
            return self.last
        found = times.newest(self.last, is_inclusive=True)
        if found is None:
            raise cleaned_up(subject, f"what was committed by {self.last}")
        return found


def _after_newest(subject: str, bound: FeedPoint, newest: int) -> InvalidRange:
    named = f"version {bound}" if isinstance(bound, int) else str(bound)
    return InvalidRange(
        subject,
        f"cannot include {named}",
        cause=f"it is after the newest commit, version {newest}",
        fix='name an earlier bound, or pass out_of_range="clamp" to end with the newest commit',
    )


def cleaned_up(subject: str, missing: str) -> InvalidRange:
    """The error of a feed if the log no longer holds a part of it.

    :param missing: what the log lacks
    """
    return InvalidRange(
        subject,
        "cannot be read from the table's log",
        cause=f"the log no longer holds {missing}",
        fix="begin with a later version or time; see DESCRIBE HISTORY",
    )
