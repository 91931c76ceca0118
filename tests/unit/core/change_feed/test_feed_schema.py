"""Which columns a feed has if its table changed them, and since when changes are recorded."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from streams import new_commit

from airflow_provider_cdc.engine.core.change_feed.feed_schema import (
    first_alike,
    with_dropped_columns,
)
from airflow_provider_cdc.engine.core.change_feed.tracked_since import (
    RecordedSince,
    change_feed_since,
    row_tracking_since,
)
from airflow_provider_cdc.engine.core.delta.log_actions import ROW_ID_SETTING, Commit, DataFile
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


def settings(is_on: bool | None, table: str = "t", column: str = "ids") -> dict[str, Any]:
    value = {} if is_on is None else {"delta.enableChangeDataFeed": str(is_on).lower()}
    value |= {"delta.enableRowTracking": "true", ROW_ID_SETTING: column}
    return {"id": table, "configuration": value}


def since(finder: RecordedSince, newest_first: Iterable[Commit]) -> int | None:
    for commit in newest_first:
        finder.take(commit)
    return finder.version


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([True, None, None], 0),
        ([None, True, None], 1),
        ([True, False, True], 2),
        ([True, None, True], 0),
        ([True, None, False], None),
    ],
)
def test_feed_is_on_since_the_last_commit_that_switched_it_on(
    history: list[bool | None], expected: int | None
) -> None:
    # Version 0 always has metadata; ``None`` means that a later commit has none.
    commits = [
        new_commit(version, metadata=settings(value) if version == 0 or value is not None else None)
        for version, value in enumerate(history)
    ]
    newest = next(each.metadata for each in reversed(commits) if each.metadata is not None)
    assert since(change_feed_since(newest), reversed(commits)) == expected


def test_recording_from_before_the_log_begins_counts_since_its_oldest_commit() -> None:
    assert since(change_feed_since(settings(True)), [new_commit(9), new_commit(8)]) == 8


@pytest.mark.parametrize("other", [settings(True, "other"), settings(True, column="other")])
def test_rows_are_tracked_since_the_table_and_its_columns_of_ids_are_the_same(
    other: dict[str, Any],
) -> None:
    commits = [new_commit(3), new_commit(2, metadata=settings(True)), new_commit(1)]
    commits.append(new_commit(0, metadata=other))
    assert since(row_tracking_since(settings(True)), commits) == 2


def test_rows_are_tracked_since_the_commit_after_one_that_lost_row_ids() -> None:
    files = [DataFile(path, {}, 1, True, None, 0, 1) for path in "ab"]
    lossy = new_commit(2, "UPDATE", removes=(files[0],), adds=(files[1],))
    commits = [new_commit(3), lossy, new_commit(1), new_commit(0, metadata=settings(True))]
    assert since(row_tracking_since(settings(True)), commits) == 3
    assert since(change_feed_since(settings(True)), commits) == 0


def test_layouts_that_differ_only_in_what_writers_need_are_one_run() -> None:
    numbered = [replace(layout(a=1), configuration={"highest": str(n)}) for n in range(3)]
    other_ids = replace(layout(a=1), configuration={ROW_ID_SETTING: "ids"})
    assert first_alike([*numbered, layout(a=1, b=2), other_ids]) == (0, 0, 0, 3, 4)
