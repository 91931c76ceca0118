"""When a stream goes stale: how long its source keeps what the stream has not consumed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from .table_retention import own_log_retention, own_retention

MAX_DATA_EXTENSION = timedelta(days=14)
"""How far the retention of a source is extended for a stream by default (Snowflake: 14 days)."""
NEXT_MAINTENANCE = timedelta(days=2)
"""The longest time until the next maintenance by default: twice the interval of a daily DAG."""


def stale_after(
    since: datetime, properties: Mapping[str, str], max_data_extension: timedelta
) -> datetime:
    """When a stream is predicted to go stale.

    Snowflake: a stream has the longer of the source's retention and its own extension. The time
    counts from the oldest commit that the stream has not consumed.

    A stream needs the commits after its offset. Delta keeps each of them for a time after it was
    made. A stream also needs the files that these commits removed. Delta keeps each of them for a
    time after its removal. Files at the offset that were not removed are kept anyway. The offset
    itself holds what is needed of its commit.

    :param since: the time of that commit, or now if all is consumed
    :param properties: the table properties of the source
    """
    return since + max(own_retention(properties), max_data_extension)


def rows_missing_after(
    committed_at: datetime, properties: Mapping[str, str], max_data_extension: timedelta
) -> datetime:
    """When an older version is predicted to be no longer readable with all its rows.

    Delta finds these rows through the log up to that version. It keeps the commit of the version
    for a time after it was made.

    :param committed_at: when the version was committed
    :param properties: the table properties of the source
    """
    return committed_at + max(own_log_retention(properties), max_data_extension)
