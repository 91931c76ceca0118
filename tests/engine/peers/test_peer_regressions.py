"""Bugs of other systems (named by their issues), and the right behaviour here."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from stream_lab import StreamLab

from airflow_provider_cdc.engine import Version

LOG = "INSERT INTO {log} SELECT id, v, METADATA$ACTION FROM s"


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> StreamLab:
    lab = StreamLab(spark, tmp_path)
    lab.make("src", "id INT, v STRING", properties="'delta.enableRowTracking' = 'true'")
    lab.make("log", "id INT, v STRING, action STRING")
    lab.sql("INSERT INTO {src} VALUES (1, 'a')")
    return lab


def create(lab: StreamLab, **options: bool) -> None:
    lab.engine.create_stream("s", on_table=lab.path("src"), **options)


@pytest.mark.thorough
def test_rows_of_the_bootstrap_are_not_read_again_as_changes(lab: StreamLab) -> None:
    """delta#4391: the start version was read again after the bootstrap."""
    create(lab, show_initial_rows=True)
    lab.consume(LOG)
    lab.sql("INSERT INTO {src} VALUES (2, 'b')")
    lab.consume(LOG)
    assert lab.rows("log") == [(1, "a", "INSERT"), (2, "b", "INSERT")]


def test_range_without_an_end_reaches_to_now(lab: StreamLab) -> None:
    """iceberg#11922: without an end timestamp the answer was empty."""
    create(lab)
    lab.sql("INSERT INTO {src} VALUES (2, 'b')")
    rows = lab.engine.changes(lab.path("src"), at=Version(1)).collect()
    assert [tuple(row[:3]) for row in rows] == [(2, "b", "INSERT")]


def test_key_deleted_and_inserted_in_one_commit_returns_both_changes(lab: StreamLab) -> None:
    """airbyte#32930: a delete was lost in the batch of its insert."""
    create(lab)
    lab.sql("INSERT OVERWRITE {src} VALUES (1, 'a')")
    changes = lab.changes("s")
    assert [(each.values, each.action, each.is_update) for each in changes] == [
        ((1, "a"), "DELETE", False),
        ((1, "a"), "INSERT", False),
    ]
    assert changes[0].row_id != changes[1].row_id


@pytest.mark.thorough
def test_rollback_inside_the_range_is_seen(lab: StreamLab) -> None:
    """iceberg#10247: a rollback was ignored."""
    create(lab)
    lab.sql("INSERT INTO {src} VALUES (2, 'b')")
    lab.consume(LOG)
    lab.sql("RESTORE TABLE {src} TO VERSION AS OF 1")
    assert lab.seen("s") == [(2, "b", "DELETE", False)]


@pytest.mark.thorough
def test_equal_rows_have_distinct_row_ids(lab: StreamLab) -> None:
    create(lab)
    lab.sql("INSERT INTO {src} VALUES (2, 'b'), (2, 'b')", "INSERT INTO {src} VALUES (2, 'b')")
    changes = lab.changes("s")
    assert [change.values for change in changes] == [(2, "b")] * 3
    assert len({change.row_id for change in changes}) == 3
    lab.sql("DELETE FROM {src} WHERE id = 2")
    assert lab.seen("s") == []


def test_value_that_became_null_is_a_change(lab: StreamLab) -> None:
    """sqlmesh#5332: NULL was taken for "unchanged"."""
    create(lab)
    lab.sql("UPDATE {src} SET v = NULL")
    assert lab.seen("s") == [(1, "a", "DELETE", True), (1, None, "INSERT", True)]


@pytest.mark.thorough
def test_failed_consumption_leaves_its_rows_for_the_next_one(lab: StreamLab) -> None:
    """databend#15581: a stream was consumed although its transaction failed."""
    create(lab)
    lab.make("numbers", "n INT NOT NULL")
    lab.sql("INSERT INTO {src} VALUES (2, 'b')")
    with pytest.raises(Exception, match="numbers"):
        lab.consume(LOG, "INSERT INTO {numbers} SELECT CAST(v AS INT) FROM s")
    assert lab.rows("log") == []
    lab.consume(LOG)
    assert lab.rows("log") == [(2, "b", "INSERT")]
