"""When a stream goes stale: how long its source keeps what the stream has not consumed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TypeVar, cast

from .errors import InvalidRequest
from .retention import own_retention

MAX_DATA_EXTENSION = timedelta(days=14)
"""How far the retention of a source is extended for a stream that does not say (seed 000)."""

Given = TypeVar("Given")


def stale_after(
    since: datetime, properties: Mapping[str, str], max_data_extension: timedelta
) -> datetime:
    """When a stream is predicted to go stale.

    Seed 000: the larger of the source's retention and of the extension that the stream may have,
    from the moment on when it was consumed, or found to be empty, for the last time.

    :param since: that moment, or the first commit that it has not consumed where that is older
    :param properties: the table properties of the source
    """
    return since + max(own_retention(properties), max_data_extension)


def checked_length(subject: str, name: str, length: Given) -> Given:
    """``length`` as a stream keeps it; what stands for none, or for the one there is, stays.

    :param subject: what asks, for messages
    :param name: the argument that it is
    :raises InvalidRequest: it is negative
    """
    if not isinstance(length, timedelta):
        return length
    if length < timedelta(0):
        raise InvalidRequest(
            subject,
            f"cannot have this {name}",
            cause=f"expected a length of time, found {length}",
            fix="name one such as timedelta(days=14)",
        )
    # Not one of its subclasses, which JSON does not know.
    return cast(Given, timedelta(microseconds=length // timedelta(microseconds=1)))
