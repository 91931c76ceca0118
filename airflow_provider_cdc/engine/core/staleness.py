"""When a stream goes stale: how long its source keeps what the stream has not consumed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from .retention import own_log_retention, own_retention

MAX_DATA_EXTENSION = timedelta(days=14)
"""How far the retention of a source is extended for a stream that does not say (seed 000)."""


def stale_after(
    since: datetime, properties: Mapping[str, str], max_data_extension: timedelta
) -> datetime:
    """When a stream is predicted to go stale.

    Seed 000: the larger of the source's retention and of the extension that the stream may have.
    They count from the oldest commit on that the stream has not consumed. It needs the commits
    after its offset, each kept for a while from its own time on, and the files that these removed,
    kept from their removal on. What stands at the offset and was not removed is kept anyway, and
    the offset itself holds what is needed of its commit.

    :param since: when that commit was made; now, where all was consumed
    :param properties: the table properties of the source
    """
    return since + max(own_retention(properties), max_data_extension)


def rows_gone_after(
    committed_at: datetime, properties: Mapping[str, str], max_data_extension: timedelta
) -> datetime:
    """When all rows of an older version are predicted to be out of reach.

    Delta finds them by the log up to that version, whose commit is kept from its own time on.

    :param committed_at: when the version was committed
    :param properties: the table properties of the source
    """
    return committed_at + max(own_log_retention(properties), max_data_extension)
