"""Which columns a feed has if its table changed them, and since when changes are recorded."""

from __future__ import annotations

import json
from typing import Any

import pytest
from streams import new_commit

from airflow_provider_cdc.engine.core.change_feed.feed_schema import with_dropped_columns
from airflow_provider_cdc.engine.core.change_feed.recordings import is_fed
from airflow_provider_cdc.engine.core.change_feed.tracked_since import switched_on_at
from airflow_provider_cdc.engine.core.delta.table_schema import FIELD_ID, MAPPING_MODE, Layout
from airflow_provider_cdc.engine.core.errors import InvalidRequest


def layout(**columns: int) -> Layout:
    """A layout of columns by name, each with its id."""
    fields = [
        {"name": name, "type": "long", "nullable": True, "metadata": {FIELD_ID: number}}
        for name, number in columns.items()
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    return Layout.of({"schemaString": schema, "configuration": {MAPPING_MODE: "name"}})


def names(*layouts: Layout) -> list[tuple[str, ...]]:
    return [each.column_names for each in with_dropped_columns("change feed of t", layouts)]


def test_dropped_columns_come_after_the_columns_of_each_layout() -> None:
    assert names(layout(a=1, b=2), layout(a=1), layout(a=1, c=3)) == [
        ("a", "b"),
        ("a", "b"),
        ("a", "c", "b"),
    ]


def test_renamed_columns_have_their_last_names() -> None:
    assert names(layout(a=1, b=2), layout(a=1, d=2), layout(a=1)) == [
        ("a", "b"),
        ("a", "d"),
        ("a", "d"),
    ]


def test_column_that_comes_back_with_its_id_is_one_column() -> None:
    assert names(layout(a=1, b=2), layout(a=1), layout(a=1, b=2))[-1] == ("a", "b")


@pytest.mark.parametrize("again", ["b", "B"])
def test_other_column_with_the_name_of_a_dropped_one_is_refused(again: str) -> None:
    with pytest.raises(InvalidRequest, match=f"column b was dropped.*another column {again}"):
        names(layout(a=1, b=2), layout(a=1), layout(**{"a": 1, again: 3}))


def settings(is_on: bool | None) -> dict[str, Any]:
    value = {} if is_on is None else {"delta.enableChangeDataFeed": str(is_on).lower()}
    return {"id": "t", "configuration": value}


@pytest.mark.parametrize(
    ("history", "since"),
    [
        ([True, None, None], 0),
        ([None, True, None], 1),
        ([True, False, True], 2),
        ([True, None, True], 0),
        ([True, None, False], None),
    ],
)
def test_switch_is_on_since_the_last_commit_that_switched_it_on(
    history: list[bool | None], since: int | None
) -> None:
    # Version 0 always has metadata; ``None`` means that a later commit has none.
    commits = [
        new_commit(version, metadata=settings(value) if version == 0 or value is not None else None)
        for version, value in enumerate(history)
    ]
    newest = next(each.metadata for each in reversed(commits) if each.metadata is not None)
    assert switched_on_at(newest, reversed(commits), is_fed) == since


def test_switch_that_was_on_before_the_log_begins_counts_since_its_oldest_commit() -> None:
    assert switched_on_at(settings(True), [new_commit(9), new_commit(8)], is_fed) == 8
