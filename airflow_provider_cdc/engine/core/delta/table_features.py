"""Table features that keep the engine from reading a table by its log, or from writing to it.

A table feature can change what a log means. A catalog may hold the newest commits, a redirect may
point to another table, and a release of Delta may store rows in a new way. A log that is read
without such a feature may show a part of the changes, so it is not read at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InvalidRequest, StreamUnusable
from ..model.sources import Offset
from ..model.stream import Stream
from .log_actions import Commit

NEWEST_READER = 3
"""The newest reader version of the Delta protocol that the engine knows."""

# The last feature is an older form of the others.
_OF_CATALOGS = frozenset({"catalogManaged", "catalogOwned-preview", "coordinatedCommits-preview"})
_REDIRECTS = frozenset({"redirectReaderWriter-preview", "redirectWriterOnly-preview"})
# What Delta calls a reader feature: who does not know it may not read the table.
_READ = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "variantShredding",
        "variantShredding-preview",
        "variantType",
        "variantType-preview",
    }
)
_DROP = "remove that feature with ALTER TABLE ... DROP FEATURE"


@dataclass(frozen=True, slots=True)
class _Obstacle:
    """Why a table cannot be read, and what to do about that."""

    cause: str
    fix: str


def check_readable(subject: str, problem: str, protocol: Mapping[str, Any]) -> None:
    """Refuse a table whose log does not show all its changes to this engine.

    :param subject: what the caller does with it, for messages
    :param problem: what is not possible
    :param protocol: the table's ``protocol`` action
    :raises InvalidRequest: a catalog manages the table, its log points to another table, or the
        engine does not know one of its reader features or its reader version
    """
    _refuse(subject, problem, _elsewhere(protocol) or _unknown(protocol))


def check_commits_here(subject: str, problem: str, protocol: Mapping[str, Any]) -> None:
    """Refuse a table whose commits are not all in its log. Whether Delta can write to it, with all
    its other features, is for Delta to check.

    :param subject: what the caller does with it, for messages
    :param problem: what is not possible
    :param protocol: the table's ``protocol`` action
    :raises InvalidRequest: a catalog manages the table, or its log points to another table
    """
    _refuse(subject, problem, _elsewhere(protocol))


def check_range_readable(stream: Stream, commits: Sequence[Commit], end: Offset) -> None:
    """Refuse a range if its source has come to be unreadable since the stream was created.

    :param commits: the commits of the range
    :param end: the offset after them
    :raises StreamUnusable: what :func:`check_readable` refuses; the message names the feature
    """
    # A catalog that has given a table up has published all commits, so only the end counts.
    found = _elsewhere(end.protocol) or _unknown(end.protocol)
    if found is None:
        # Its files may be of a kind that the engine does not know, even if later ones are not.
        protocols = [commit.protocol for commit in commits if commit.protocol is not None]
        between = next(filter(None, map(_unknown, protocols)), None)
        found = between and _Obstacle(between.cause, stream.way_back)
    if found is not None:
        raise StreamUnusable(
            f"stream {stream.name}",
            f"cannot determine what changed in {stream.source.name}",
            cause=found.cause,
            fix=found.fix,
        )


def _refuse(subject: str, problem: str, found: _Obstacle | None) -> None:
    if found is not None:
        raise InvalidRequest(subject, problem, cause=found.cause, fix=found.fix)


def _elsewhere(protocol: Mapping[str, Any]) -> _Obstacle | None:
    """Why the log does not hold all commits; ``None`` if it holds them."""
    features = _features(protocol, "readerFeatures") | _features(protocol, "writerFeatures")
    if found := _OF_CATALOGS & features:
        return _Obstacle(
            f"only its catalog knows its newest commits: {_list(found)}",
            f"use a table that no catalog manages, or {_DROP}",
        )
    if found := _REDIRECTS & features:
        return _Obstacle(
            f"its log redirects to a table at another place: {_list(found)}",
            f"name the table at that place, or {_DROP}",
        )
    return None


def _unknown(protocol: Mapping[str, Any]) -> _Obstacle | None:
    """What the engine does not know of a reader's part of ``protocol``."""
    version = protocol.get("minReaderVersion") or 0
    if version > NEWEST_READER:
        return _Obstacle(
            f"expected reader version {NEWEST_READER} or lower, found {version}",
            "install a release of airflow-provider-cdc that knows it",
        )
    found = _features(protocol, "readerFeatures") - _READ - _OF_CATALOGS - _REDIRECTS
    if found:
        return _Obstacle(
            f"expected only reader features that this release knows, found {_list(found)}",
            f"{_DROP}, or install a release of airflow-provider-cdc that knows it",
        )
    return None


def _features(protocol: Mapping[str, Any], kind: str) -> frozenset[str]:
    return frozenset(protocol.get(kind) or ())


def _list(features: Iterable[str]) -> str:
    return ", ".join(sorted(features))
