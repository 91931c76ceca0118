"""Finding the commit of a write of changes in the log of the table of changes."""

from __future__ import annotations

from ...core.upserts.write_result import WriteResult, write_result
from ..files.stores import Files
from .delta_log import DeltaLog, LogIncomplete

_SEARCHED_COMMITS = 100


def result_of_write(
    location: str, files: Files, mark: str, transaction: tuple[str, int] | None
) -> WriteResult:
    """The result of a write that has just ended.

    Only the newest 100 commits are searched. Usually the newest one is the commit of the write.

    :param location: the table of changes
    :param mark: the user metadata of the write
    :param transaction: the id and the number of the write. Delta skips the write if an earlier
        commit has them
    """
    log = DeltaLog(location, files)
    newest = log.latest_version()
    try:
        for commit in log.newest_first(after=max(-1, newest - _SEARCHED_COMMITS), through=newest):
            if commit.user_metadata == mark:
                return write_result(commit, is_repeated=False)
            if transaction is not None:
                application, version = transaction
                if commit.transactions.get(application) == version:
                    return write_result(commit, is_repeated=True)
    except LogIncomplete:
        pass
    # Without an id, Delta skips no write. A write whose commit is not found has many newer commits.
    return write_result(None, is_repeated=transaction is not None)
