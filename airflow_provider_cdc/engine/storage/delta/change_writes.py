"""Finding the commit of a write of changes in the log of the table of changes."""

from __future__ import annotations

from contextlib import suppress

from ...core.delta.log_actions import Commit
from ...core.upserts.write_result import WriteResult, write_result
from ..files.best_effort import log_failures
from ..files.stores import Files
from .delta_log import DeltaLog, LogIncomplete

_SEARCHED_COMMITS = 100


def result_of_write(
    location: str,
    files: Files,
    mark: str,
    transaction: tuple[str, int] | None,
    *,
    since: int = 0,
) -> WriteResult:
    """The result of a write that has just ended. It is unknown if the log cannot be read: an error
    would make the caller write again.

    Only the newest 100 commits are searched. Usually the newest one is the commit of the write.

    :param location: the table of changes
    :param mark: the user metadata of the write
    :param transaction: the id and the number of the write. Delta skips the write if an earlier
        commit has them
    :param since: a version that the table has certainly reached. The log is listed from there on
    """
    with log_failures(f"reading the commit of a write to {location}"):
        log = DeltaLog(location, files)
        newest = log.listing(since=since).latest_version
        first = max(-1, newest - _SEARCHED_COMMITS)
        with suppress(LogIncomplete):
            for commit in log.newest_first(after=first, through=newest):
                if commit.user_metadata == mark:
                    return write_result(commit, is_repeated=False)
                if transaction is not None and _has(commit, *transaction):
                    return write_result(commit, is_repeated=True)
    # Without an id, Delta skips no write.
    return write_result(None, is_repeated=None if transaction else False)


def _has(commit: Commit, application: str, version: int) -> bool:
    return commit.transactions.get(application) == version
