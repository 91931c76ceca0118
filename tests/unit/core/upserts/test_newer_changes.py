"""Whether statistics show that changes are newer than all rows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_cdc.engine.core.delta.log_actions import DataFile
from airflow_provider_cdc.engine.core.upserts.newer_changes import are_newer


def row_file(newest: str | None) -> dict[str, Any]:
    stats = {} if newest is None else {"maxValues": {"_cdc": {"sequence": newest}}}
    return {"path": "f", "size": 1, "stats": json.dumps(stats)}


def change_file(oldest: str | None) -> DataFile:
    stats = {} if oldest is None else {"minValues": {"_cdc_sequence": oldest}}
    return DataFile.of({"path": "f", "size": 1, "stats": json.dumps(stats)})


@pytest.mark.parametrize(
    ("base", "changes", "expected"),
    [
        (["1", "3"], ["4", "5"], True),
        (["1", "4"], ["4", "5"], False),
        ([], ["1"], True),
        ([], [""], False),
        (["1"], [], False),
        (["1", None], ["4"], False),
        (["1"], ["4", None], False),
        # Delta cuts a long value off and appends a character that is greater than any digit.
        (["0" * 31 + "1\x7f"], ["0" * 31 + "1"], False),
        (["0" * 31 + "1\x7f"], ["0" * 31 + "2"], True),
    ],
)
def test_changes_are_newer_if_the_oldest_is_newer_than_the_newest_row(
    base: list[str | None], changes: list[str | None], expected: bool
) -> None:
    assert are_newer(map(change_file, changes), map(row_file, base)) is expected


def test_changes_are_not_newer_if_statistics_are_missing() -> None:
    bare = {"path": "f", "size": 1}
    assert not are_newer([change_file("1")], [bare])
    assert not are_newer([DataFile.of(bare)], [])
