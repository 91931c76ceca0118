"""Streams go on beside a stream whose record cannot be read, and one takes its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from registry_scenes import damage, mistyped
from stream_lab import StreamLab

from airflow_provider_cdc.engine import OffsetOf, StreamExists, StreamUnreadable


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> StreamLab:
    """The streams ``bad``, which cannot be read, and ``good``, both with one row to consume."""
    lab = StreamLab(spark, tmp_path)
    lab.make("src", "id INT", properties="'delta.enableRowTracking' = 'true'")
    lab.make("log", "id INT")
    for name in ("bad", "good"):
        lab.engine.create_stream(name, on_table=lab.path("src"))
    lab.sql("INSERT INTO {src} VALUES (1)")
    damage(str(tmp_path / "state"), lab.engine._parts.catalog.get_stream("bad"), mistyped)
    with pytest.raises(StreamUnreadable):
        lab.engine.read_stream("bad")
    return lab


def test_other_stream_is_consumed_and_copied_beside_an_unreadable_one(lab: StreamLab) -> None:
    lab.engine.create_stream("copy", on_table=lab.path("src"), at=OffsetOf("good"))
    lab.consume("INSERT INTO {log} SELECT id FROM good")

    assert lab.rows("log") == [(1,)]
    assert lab.seen("copy") == [(1, "INSERT", False)]
    assert {status.name for status in lab.engine.describe_streams()} == {"bad", "copy", "good"}


def test_unreadable_stream_is_replaced_by_a_new_one(lab: StreamLab) -> None:
    with pytest.raises((StreamExists, StreamUnreadable)):
        lab.engine.create_stream("bad", on_table=lab.path("src"))

    lab.engine.create_stream("bad", on_table=lab.path("src"), or_replace=True)

    lab.sql("INSERT INTO {src} VALUES (2)")
    assert lab.seen("bad") == [(2, "INSERT", False)]
