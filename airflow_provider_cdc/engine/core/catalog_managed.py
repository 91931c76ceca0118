"""Tables that a catalog commits to: their log at the path is not all there is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .errors import InvalidRequest

# The last one is an older form of the same.
_FEATURES = frozenset({"catalogManaged", "catalogOwned-preview", "coordinatedCommits-preview"})


def check_not_catalog_managed(subject: str, problem: str, protocol: Mapping[str, Any]) -> None:
    """Refuse a table whose newest commits are known to its catalog alone.

    :param subject: what was to be done with it, for messages
    :param problem: what cannot be
    :param protocol: the table's ``protocol`` action
    :raises InvalidRequest: it is one
    """
    check_features(subject, problem, protocol.get("writerFeatures") or ())


def check_features(subject: str, problem: str, features: Iterable[str]) -> None:
    """The same of a table with these features."""
    managed = _FEATURES.intersection(features)
    if managed:
        raise InvalidRequest(
            subject,
            problem,
            cause=f"its catalog alone knows its newest commits: {', '.join(sorted(managed))}",
            fix="take a table that is not managed by a catalog",
        )
