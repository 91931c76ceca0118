"""The layouts of a range: which one came from which, by its commits and by RESTORE."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from streams import new_commit, new_offset

from airflow_provider_cdc.engine.core.delta.layout_history import (
    LayoutHistory,
    keeps_fields,
    layout_history,
)
from airflow_provider_cdc.engine.core.delta.log_actions import Commit

START = 3


def metadata(*names: str, **properties: str) -> dict[str, Any]:
    fields = [{"name": n, "type": "string", "nullable": True, "metadata": {}} for n in names]
    schema = json.dumps({"type": "struct", "fields": fields})
    return {"schemaString": schema, "configuration": properties}


def altered(version: int, *names: str, **properties: str) -> Commit:
    return new_commit(version, "CHANGE", metadata=metadata(*names, **properties))


def restored(at: int, *names: str, **to: Any) -> Commit:
    commit = new_commit(at, "RESTORE", metadata=metadata(*names))
    return replace(commit, operation_parameters={"version": None, "timestamp": None} | to)


def history(*commits: Commit) -> LayoutHistory:
    return layout_history(new_offset(START, metadata("a")), commits)


def steps(found: LayoutHistory, place: int = 0) -> list[str]:
    return ["".join(layout.column_names) for layout in found.steps(place)]


def test_layouts_come_from_one_another_in_the_order_of_the_commits() -> None:
    found = history(altered(4, "b"), new_commit(5, "WRITE"), altered(6, "c"))
    assert ["".join(layout.column_names) for layout in found.layouts] == ["a", "b", "c"]
    assert [steps(found, place) for place in range(3)] == [["a", "b", "c"], ["b", "c"], ["c"]]
    assert steps(history()) == ["a"]


def test_restored_layout_comes_from_the_one_at_the_restored_version() -> None:
    # Version 6 wrote no metadata, so that of version 5 was in force.
    found = history(altered(4, "b"), altered(5, "a"), altered(7, "c"), restored(8, "a", version=6))
    assert steps(found) == ["a", "b", "a", "a"]
    assert steps(history(altered(4, "b"), restored(5, "a", version=START))) == ["a", "a"]


def test_layout_that_a_restore_removed_leads_back_to_its_origin() -> None:
    found = history(altered(4, "b"), altered(5, "c"), restored(6, "b", version=4), altered(7, "d"))
    assert steps(found, 2) == ["c", "b", "b", "d"]
    assert steps(found, 1) == ["b", "b", "d"]
    assert steps(found) == ["a", "b", "b", "d"]


def test_layout_restored_from_before_the_range_comes_from_the_first() -> None:
    found = history(altered(4, "b"), restored(5, "z", version=1))
    assert steps(found) == ["a", "z"]
    assert steps(found, 1) == ["b", "a", "z"]
    assert steps(history(altered(4, "b"), restored(5, "z", timestamp="yesterday"))) == ["a", "z"]


def test_layout_restored_by_timestamp_is_the_newest_equal_one() -> None:
    found = history(altered(4, "b"), altered(5, "a"), restored(6, "b", timestamp="a minute ago"))
    assert steps(found) == ["a", "b", "b"]


def test_fields_are_kept_if_only_properties_change() -> None:
    start = new_offset(START, metadata("a"))
    assert keeps_fields(start, [])
    assert keeps_fields(start, [new_commit(4), altered(5, "a", x="1"), altered(6, "a", x="2")])
    assert not keeps_fields(start, [altered(4, "a", "b"), altered(5, "a")])
