"""Streams that name their readers and consumers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from stream_lab import StreamLab

from airflow_provider_cdc.engine import Engine, OffsetOf, StreamAccessDenied, Version
from airflow_provider_cdc.engine.catalog.show_streams import shown

LOG = "INSERT INTO {log} SELECT id FROM s"


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> StreamLab:
    """Olga's stream ``s``, which Ralf may read and Carla consume."""
    lab = StreamLab(spark, tmp_path)
    lab.make("src", "id INT", properties="'delta.enableRowTracking' = 'true'")
    lab.make("log", "id INT")
    of(lab, "olga").create_stream(
        "s", on_table=lab.path("src"), readers=["ralf"], consumers=["carla"]
    )
    lab.sql("INSERT INTO {src} VALUES (1)")
    return lab


def of(lab: StreamLab, principal: str) -> Engine:
    return Engine(lab.spark, str(lab.root / "state"), principal=principal)


def test_reader_reads_and_does_not_consume(lab: StreamLab) -> None:
    ralf = of(lab, "ralf")
    assert ralf.read_stream("s").count() == 1
    assert ralf.stream_has_data("s") is True
    acts: list[Callable[[], object]] = [
        lambda: lab.consume(LOG, engine=ralf),
        lambda: ralf.advance_stream("s"),
        lambda: ralf.abort_consumption("s"),
        lambda: ralf.drop_stream("s"),
        lambda: ralf.alter_stream("s", readers=None),
        lambda: ralf.rename_stream("s", "mine"),
        lambda: ralf.create_stream("s", on_table=lab.path("src"), or_replace=True),
    ]
    for act in acts:
        with pytest.raises(StreamAccessDenied, match="ralf may not"):
            act()
    assert lab.rows("log") == []


@pytest.mark.thorough
def test_consumer_reads_and_consumes(lab: StreamLab) -> None:
    carla = of(lab, "carla")
    assert carla.read_stream("s").count() == 1
    lab.consume(LOG, engine=carla)
    assert lab.rows("log") == [(1,)]


def test_others_neither_read_nor_consume_nor_clone(lab: StreamLab) -> None:
    emil = of(lab, "emil")
    acts: list[Callable[[], object]] = [
        lambda: emil.read_stream("s"),
        lambda: emil.stream_has_data("s", exact=False),
        lambda: emil.explain_stream("s"),
        lambda: emil.clone_stream("mine", "s"),
        lambda: lab.consume(LOG, engine=emil),
    ]
    for act in acts:
        with pytest.raises(StreamAccessDenied, match="emil may not"):
            act()


def test_owner_can_change_readers_and_a_clone_keeps_them(lab: StreamLab) -> None:
    olga = of(lab, "olga")
    olga.alter_stream("s", readers=["emil"])
    assert of(lab, "emil").read_stream("s").count() == 1
    altered = olga.alter_stream("s", comment="for emil")
    assert (altered.readers, altered.consumers, altered.comment) == (
        ("emil",),
        ("carla",),
        "for emil",
    )
    clone = of(lab, "emil").clone_stream("mine", "s")
    assert (clone.owner, clone.readers, clone.consumers) == ("emil", ("emil",), ("carla",))


def test_streams_as_a_data_frame_have_the_columns_of_show(lab: StreamLab) -> None:
    frame = lab.engine.show_streams()
    (row,) = frame.collect()
    (status,) = lab.engine.describe_streams()
    assert frame.columns == list(shown(status))
    assert (row["name"], row["owner"], row["offset"], row["stale"]) == ("s", "olga", 0, False)


def test_streams_as_a_data_frame_show_as_a_table_in_a_notebook(lab: StreamLab) -> None:
    frame = lab.engine.show_streams()
    shown = vars(frame)["_repr_html_"]()
    assert shown.startswith("<table><caption>1 stream</caption>")
    assert f">{lab.path('src')}<" in shown
    other = frame.where("stale").alias("a").join(frame.alias("b"), "name").select("a.name")
    assert (type(other), other.count()) == (type(frame), 0)
    assert other._repr_html_() is None


def test_offset_of_a_stream_is_usable_only_by_its_readers(lab: StreamLab) -> None:
    emil = of(lab, "emil")
    acts: list[Callable[[], object]] = [
        lambda: emil.create_stream("mine", on_table=lab.path("src"), at=OffsetOf("s")),
        lambda: emil.changes(lab.path("src"), at=OffsetOf("s")),
        lambda: emil.changes(lab.path("src"), at=Version(0), end=OffsetOf("s")),
    ]
    for act in acts:
        with pytest.raises(StreamAccessDenied, match="emil may not read"):
            act()
    of(lab, "ralf").create_stream("mine", on_table=lab.path("src"), at=OffsetOf("s"))
    assert lab.seen("mine") == [(1, "INSERT", False)]
