"""Switching on what records changes, and since which version they are recorded."""

from __future__ import annotations

from pathlib import Path

import pytest
from feed_lab import by_commit
from pyspark.sql import SparkSession
from stream_lab import StreamLab

from airflow_provider_cdc.engine import (
    ChangeTracking,
    ChangeTrackingDisabled,
    InvalidRequest,
    TableNotFound,
)

FED = "'delta.enableChangeDataFeed' = 'true'"
TRACKED = "'delta.enableRowTracking' = 'true'"


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> StreamLab:
    return StreamLab(spark, tmp_path)


@pytest.mark.parametrize(
    ("row_tracking", "change_feed"), [(True, False), (False, True), (True, True)]
)
def test_changes_are_recorded_since_the_version_that_is_returned(
    lab: StreamLab, row_tracking: bool, change_feed: bool
) -> None:
    lab.make("t", "id INT, v STRING", "INSERT INTO {t} VALUES (1, 'a'), (2, 'b')")
    path = lab.path("t")
    found = lab.engine.enable_change_tracking(
        path, row_tracking=row_tracking, change_feed=change_feed
    )
    assert found.table == lab.name("t")
    since = lab.version("t")
    assert found.row_tracking_since == (since if row_tracking else None)
    assert found.change_feed_since == (since if change_feed else None)
    lab.sql("UPDATE {t} SET v = 'x' WHERE id = 1")
    changes = by_commit(lab.engine.change_feed(path, from_version=since))
    assert list(changes) == [since + 1]
    with pytest.raises(ChangeTrackingDisabled):
        lab.engine.change_feed(path, from_version=1)
    again = lab.engine.enable_change_tracking(
        path, row_tracking=row_tracking, change_feed=change_feed
    )
    assert again == found
    assert lab.version("t") == since + 1


def test_tracking_that_was_interrupted_counts_since_it_came_back(lab: StreamLab) -> None:
    off = "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')"
    on = f"ALTER TABLE {{t}} SET TBLPROPERTIES ({FED})"
    lab.make("t", "id INT", off, on, "INSERT INTO {t} VALUES (1)", properties=f"{FED}, {TRACKED}")
    found = lab.engine.enable_change_tracking(lab.path("t"), change_feed=True)
    assert found == ChangeTracking(lab.name("t"), 0, 2)
    assert lab.version("t") == 3


def test_table_with_a_column_of_the_feed_takes_row_tracking_only(lab: StreamLab) -> None:
    lab.make("t", "id INT, _Change_Type STRING")
    with pytest.raises(InvalidRequest, match="it has a column _Change_Type"):
        lab.engine.enable_change_tracking(lab.path("t"), change_feed=True)
    assert lab.version("t") == 0
    assert lab.engine.enable_change_tracking(lab.path("t")).row_tracking_since is not None


def test_enabling_nothing_or_on_no_table_is_refused(lab: StreamLab) -> None:
    lab.make("t", "id INT")
    with pytest.raises(InvalidRequest, match="found neither"):
        lab.engine.enable_change_tracking(lab.path("t"), row_tracking=False)
    with pytest.raises(TableNotFound):
        lab.engine.enable_change_tracking(lab.path("missing"))
