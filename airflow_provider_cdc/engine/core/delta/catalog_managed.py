"""Tables that a catalog commits to. The log at their path does not hold all commits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import InvalidRequest, StreamUnusable
from ..model.sources import Offset
from ..model.stream import Stream

# The last feature is an older form of the others.
_FEATURES = frozenset({"catalogManaged", "catalogOwned-preview", "coordinatedCommits-preview"})


def check_not_catalog_managed(subject: str, problem: str, protocol: Mapping[str, Any]) -> None:
    """Refuse a table whose newest commits only its catalog knows.

    :param subject: what the caller does with it, for messages
    :param problem: what is not possible
    :param protocol: the table's ``protocol`` action
    :raises InvalidRequest: the table is managed by a catalog
    """
    check_features(subject, problem, protocol.get("writerFeatures") or ())


def check_features(subject: str, problem: str, features: Iterable[str]) -> None:
    """Refuse a table by its ``features``, like :func:`check_not_catalog_managed`."""
    cause = _managed(features)
    if cause:
        raise InvalidRequest(
            subject,
            problem,
            cause=cause,
            fix="use a table that is not managed by a catalog",
        )


def check_log_is_whole(stream: Stream, end: Offset) -> None:
    """Refuse a range if a catalog has come to manage the source since the stream was created.

    :raises StreamUnusable: the source is managed by a catalog; the message names the feature
    """
    cause = _managed(end.protocol.get("writerFeatures") or ())
    if cause:
        raise StreamUnusable(
            f"stream {stream.name}",
            f"cannot determine what changed in {stream.source.name}",
            cause=cause,
            fix="take the table out of its catalog's management, or drop the stream",
        )


def _managed(features: Iterable[str]) -> str:
    """What is wrong with a table that has ``features``. Empty if no catalog manages it."""
    found = ", ".join(sorted(_FEATURES.intersection(features)))
    return f"only its catalog knows its newest commits: {found}" if found else ""
