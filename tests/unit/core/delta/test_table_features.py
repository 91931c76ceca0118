"""Which tables the engine refuses to read or to write, by their protocol."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from streams import new_offset, new_stream

from airflow_provider_cdc.engine.core.delta.log_actions import Commit, parse_commit
from airflow_provider_cdc.engine.core.delta.table_features import (
    check_commits_here,
    check_range_readable,
    check_readable,
)
from airflow_provider_cdc.engine.core.errors import InvalidRequest, StreamUnusable
from airflow_provider_cdc.engine.core.model.sources import Offset

KNOWN = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["columnMapping", "deletionVectors", "variantType"],
    "writerFeatures": ["columnMapping", "deletionVectors", "icebergCompatV2", "notYetInvented"],
}
CATALOG = "only its catalog knows its newest commits"
REDIRECT = "its log redirects to a table at another place"
ELSEWHERE = [
    ({"readerFeatures": ["catalogManaged"]}, f"{CATALOG}: catalogManaged"),
    ({"writerFeatures": ["catalogManaged"]}, f"{CATALOG}: catalogManaged"),
    ({"readerFeatures": ["catalogOwned-preview"]}, f"{CATALOG}: catalogOwned-preview"),
    ({"writerFeatures": ["coordinatedCommits-preview"]}, f"{CATALOG}: coordinatedCommits-preview"),
    ({"readerFeatures": ["redirectReaderWriter-preview"]}, f"{REDIRECT}: redirectReaderWriter"),
    ({"writerFeatures": ["redirectWriterOnly-preview"]}, f"{REDIRECT}: redirectWriterOnly"),
]
UNKNOWN = [
    ({"readerFeatures": ["b", "variantType", "a"]}, "that this release knows, found a, b"),
    ({"readerFeatures": ["adaptiveMetadata-preview"]}, "found adaptiveMetadata-preview"),
    ({"minReaderVersion": 4}, "expected reader version 3 or lower, found 4"),
]


def commit(version: int, protocol: dict[str, Any]) -> Commit:
    return parse_commit(version, json.dumps({"protocol": protocol}).encode())


def end(version: int, protocol: dict[str, Any]) -> Offset:
    return replace(new_offset(version), protocol=protocol)


@pytest.mark.parametrize("protocol", [KNOWN, {}, {"minReaderVersion": 2, "minWriterVersion": 5}])
def test_table_with_features_that_do_not_change_its_log_is_read(protocol: dict[str, Any]) -> None:
    check_readable("table t", "cannot be read", protocol)
    check_commits_here("target t", "cannot be written", protocol)


@pytest.mark.parametrize(("change", "cause"), ELSEWHERE + UNKNOWN)
def test_table_with_an_unreadable_log_is_refused(change: dict[str, Any], cause: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"^table t: cannot be read\. Cause: .*{cause}.*Fix"):
        check_readable("table t", "cannot be read", KNOWN | change)


@pytest.mark.parametrize(("change", "cause"), ELSEWHERE)
def test_target_with_commits_elsewhere_is_refused(change: dict[str, Any], cause: str) -> None:
    with pytest.raises(InvalidRequest, match=f"target t: cannot be written. Cause: {cause}"):
        check_commits_here("target t", "cannot be written", KNOWN | change)


@pytest.mark.parametrize(("change", "cause"), UNKNOWN)
def test_target_with_unknown_features_is_left_to_delta(change: dict[str, Any], cause: str) -> None:
    check_commits_here("target t", "cannot be written", KNOWN | change)


@pytest.mark.parametrize(("change", "cause"), ELSEWHERE + UNKNOWN)
def test_range_that_ends_unreadable_is_refused(change: dict[str, Any], cause: str) -> None:
    with pytest.raises(StreamUnusable, match=rf"what changed in .*{cause}.*Fix: "):
        check_range_readable(new_stream(), [], end(1, KNOWN | change))


def test_range_with_an_unknown_feature_in_between_is_refused() -> None:
    commits = [commit(1, KNOWN | {"readerFeatures": ["new"]}), commit(2, KNOWN)]
    with pytest.raises(StreamUnusable, match=r"found new.*Fix: recover each target"):
        check_range_readable(new_stream(), commits, end(2, KNOWN))


def test_range_that_a_catalog_has_given_up_is_read() -> None:
    commits = [commit(1, KNOWN | {"readerFeatures": ["catalogManaged"]}), commit(2, KNOWN)]
    check_range_readable(new_stream(), commits, end(2, KNOWN))
