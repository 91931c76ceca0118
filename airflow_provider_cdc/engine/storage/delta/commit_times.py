"""The times of the commits of a Delta log, as Delta's own time travel sees them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from ...core.delta.log_actions import Commit
from ...core.delta.tracking import precedes_all
from ...core.model.sources import Offset
from .delta_log import DeltaLog, LogIncomplete

_ENABLED = "delta.enableInCommitTimestamps"
_SINCE = "delta.inCommitTimestampEnablementVersion"
_TICK = timedelta(milliseconds=1)
# Delta looks back over this many commits for a clock that was turned back.
_UNSETTLED = 100


class CommitTimes:
    """The times of a log's commits.

    If a table has in-commit timestamps, the time in the commit counts. For a commit before these
    were switched on, the time counts at which its file was written. If the clock was turned back,
    the time is one millisecond after the time of the previous commit. So a time means the same
    version here as in ``TIMESTAMP AS OF``.
    """

    def __init__(self, log: DeltaLog) -> None:
        self._log = log

    def newest(self, moment: datetime, *, is_inclusive: bool) -> int | None:
        """The newest version that was committed by ``moment``. -1: no version was committed by
        then. ``None``: unknown, because the log begins later.

        :param moment: with a time zone
        :param is_inclusive: whether a commit at exactly that time counts
        :raises NotADeltaTable: there is no log
        """
        listing = self._log.listing()
        versions = listing.unbroken(listing.latest_version)
        if not versions:
            return None
        own_since = _own_times_since(self._log.state_at(versions[-1]).configuration)
        begin = bisect_left(versions, own_since)
        older, newer = versions[:begin], versions[begin:]
        search = bisect_right if is_inclusive else bisect_left
        count = search(newer, moment, key=lambda version: self._log.commit(version).timestamp)
        if count:
            return newer[count - 1]
        count = search(_rising(self._log.file_times(older)), moment)
        if count:
            return older[count - 1]
        return None if versions[0] else -1

    def of_newest(self) -> datetime:
        """The time of the newest commit.

        :raises NotADeltaTable: there is no log
        """
        state = self._log.newest_state()
        commit = self._log.commit(state.version)
        return self.times([commit], state.configuration)[state.version]

    def of_offset(self, offset: Offset) -> datetime:
        """The time of the commit at ``offset``; its own time if the log no longer holds it."""
        if precedes_all(offset):
            return offset.timestamp
        try:
            commit = self._log.commit(offset.version)
            return self.times([commit], offset.properties)[offset.version]
        except LogIncomplete:
            return offset.timestamp

    def times(
        self, commits: Sequence[Commit], configuration: Mapping[str, str]
    ) -> dict[int, datetime]:
        """The time of each of consecutive ``commits``, by version.

        :param configuration: the table's properties after the last of them
        :raises LogIncomplete: the file of a commit is missing now
        """
        own_since = _own_times_since(configuration)
        found = {each.version: each.timestamp for each in commits if each.version >= own_since}
        older = [each.version for each in commits if each.version < own_since]
        if older:
            first = max(older[0] - _UNSETTLED, 0)
            listing = self._log.listing(since=first)
            versions = [each for each in listing.unbroken(older[-1]) if each >= first]
            times = _rising(self._log.file_times(versions))
            wanted = set(older)
            found |= {
                version: time
                for version, time in zip(versions, times, strict=True)
                if version in wanted
            }
        return found


def _own_times_since(configuration: Mapping[str, str]) -> float:
    """The first version whose commit holds its own time."""
    if str(configuration.get(_ENABLED, "false")).lower() != "true":
        return float("inf")
    return int(configuration.get(_SINCE, 0))


def _rising(times: Sequence[datetime]) -> list[datetime]:
    found: list[datetime] = []
    for time in times:
        whole = time.replace(microsecond=time.microsecond // 1000 * 1000)
        found.append(max(whole, found[-1] + _TICK) if found else whole)
    return found
