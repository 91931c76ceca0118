"""From which version on the changes of a table are recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..delta.log_actions import Commit


@dataclass(frozen=True, slots=True)
class ChangeTracking:
    """What records the changes of ``table``, and since which of its versions.

    ``row_tracking_since`` and ``change_feed_since`` are the versions that switched row tracking and
    the change data feed on; a feed from that version on holds every change. ``None``: it is off.
    """

    table: str
    row_tracking_since: int | None
    change_feed_since: int | None


def switched_on_at(
    metadata: Mapping[str, Any],
    newest_first: Iterable[Commit],
    is_on: Callable[[Mapping[str, Any]], bool],
) -> int | None:
    """The version that switched something on that has been on ever since; ``None``: it is off.

    If the log begins later, the result is its oldest commit.

    :param metadata: the ``metaData`` action in force at the newest version
    :param newest_first: the commits of the log
    :param is_on: whether it is on in a ``metaData`` action
    """
    if not is_on(metadata):
        return None
    oldest = changed = None
    for commit in newest_first:
        if commit.metadata is not None:
            if not is_on(commit.metadata):
                break
            changed = commit.version
        oldest = commit.version
    else:
        return oldest
    return changed
