"""Streams on random views: the change set applied to the old view gives the new one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, note
from profiles import examples
from pyspark.sql import SparkSession
from random_views import NESTED, TABLES, VIEWS, WRITES
from stream_lab import StreamLab

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(0)]


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> Iterator[StreamLab]:
    spark.sql("CREATE SCHEMA IF NOT EXISTS random_views")
    spark.sql("USE random_views")
    lab = StreamLab(spark, tmp_path)
    for number, table in enumerate(TABLES):
        lab.make(table, "k INT, v INT", properties="'delta.enableRowTracking' = 'true'")
        lab.sql(f"INSERT INTO {{{table}}} VALUES (0, {number}), (1, 1), (2, NULL), (NULL, 2)")
    yield lab
    spark.sql("USE default")
    spark.sql("DROP SCHEMA random_views CASCADE")


def rows_of(lab: StreamLab, view: str) -> Counter[Any]:
    return Counter(tuple(row) for row in lab.spark.table(view).collect())


@examples(1)
@given(text=VIEWS, nested=NESTED, writes=WRITES)
def test_change_set_of_a_random_view_leads_from_old_rows_to_new_rows(
    lab: StreamLab, text: str, nested: str, writes: list[str]
) -> None:
    note(f"{text}\nnested: {nested}\n{writes}")
    lab.sql(f"CREATE OR REPLACE VIEW nested AS {nested}", f"CREATE OR REPLACE VIEW v AS {text}")
    lab.engine.create_stream("s", on_view="v", or_replace=True)
    lab.engine.create_stream("initial", on_view="v", or_replace=True, show_initial_rows=True)
    rows = {change.row_id: change.values for change in lab.changes("initial")}
    assert Counter(rows.values()) == rows_of(lab, "v")

    lab.sql(*writes)
    changes = lab.changes("s")

    deleted = {each.row_id: each for each in changes if each.action == "DELETE"}
    inserted = {each.row_id: each for each in changes if each.action == "INSERT"}
    assert len(deleted) + len(inserted) == len(changes)
    for row_id, change in deleted.items():
        assert rows.pop(row_id) == change.values
    for row_id, change in inserted.items():
        assert row_id not in rows
        rows[row_id] = change.values
        assert change.is_update == (row_id in deleted)
        assert row_id not in deleted or deleted[row_id].values != change.values
    assert Counter(rows.values()) == rows_of(lab, "v")
    assert lab.engine.stream_has_data("s") == bool(changes)
