"""Tables whose log a stream cannot follow, or whose features this Delta does not know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from stream_lab import StreamLab
from written_logs import set_protocol

from airflow_provider_cdc.engine import InvalidRequest, InvalidStatement, StreamUnusable, Version
from airflow_provider_cdc.engine.storage.registry.registry import Registry

TRACKED = "'delta.enableRowTracking' = 'true'"
CATALOG = "only its catalog knows its newest commits"
ELSEWHERE = [
    ({"reader": ("catalogManaged",)}, CATALOG),
    ({"reader": ("catalogOwned-preview",)}, CATALOG),
    ({"writer": ("coordinatedCommits-preview",)}, CATALOG),
    ({"writer": ("redirectWriterOnly-preview",)}, "redirects to a table at another place"),
]
UNREADABLE = [
    *ELSEWHERE,
    ({"reader": ("futureReader",)}, "this release knows, found futureReader"),
    ({"reader_version": 4}, "expected reader version 3 or lower, found 4"),
]


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> StreamLab:
    """A tracked table ``src`` with one row, and an empty table ``copy``."""
    lab = StreamLab(spark, tmp_path)
    lab.make("src", "id INT, v STRING", "INSERT INTO {t} VALUES (1, 'a')", properties=TRACKED)
    lab.make("copy", "id INT, v STRING", properties=TRACKED)
    return lab


@pytest.mark.parametrize(("protocol", "cause"), UNREADABLE)
def test_table_with_an_unreadable_log_gets_no_stream(
    lab: StreamLab, protocol: dict[str, Any], cause: str
) -> None:
    set_protocol(lab.path("src"), **protocol)
    before = lab.version("src")

    for ask in (
        lambda: lab.engine.create_stream("s", on_table=lab.path("src")),
        lambda: lab.engine.create_stream("s", on_table=lab.path("src"), at=Version(0)),
        lambda: lab.engine.changes(lab.path("src"), at=Version(0)),
        lambda: lab.engine.change_feed(lab.path("src"), from_version=0),
        lambda: lab.engine.enable_change_tracking(lab.path("src"), change_feed=True),
    ):
        with pytest.raises(InvalidRequest, match=rf"src.*{cause}.*Fix: "):
            ask()
    assert lab.engine.describe_streams() == []
    assert lab.version("src") == before


@pytest.mark.parametrize(("protocol", "cause"), UNREADABLE)
def test_source_that_becomes_unreadable_is_not_consumed(
    lab: StreamLab, protocol: dict[str, Any], cause: str
) -> None:
    stream = lab.engine.create_stream("s", on_table=lab.path("src"))
    lab.sql("INSERT INTO {src} VALUES (2, 'b')")
    set_protocol(lab.path("src"), **protocol)
    before = lab.version("copy")

    with pytest.raises(StreamUnusable, match=rf"stream s: .*{cause}.*Fix: "):
        lab.consume("INSERT INTO {copy} SELECT id, v FROM s")
    with pytest.raises(StreamUnusable, match=cause):
        lab.engine.stream_has_data("s")
    assert lab.version("copy") == before
    assert Registry(str(lab.root / "state")).snapshot().get("s").offset == stream.offset


@pytest.mark.parametrize(("protocol", "cause"), ELSEWHERE)
def test_target_with_commits_elsewhere_is_not_written(
    lab: StreamLab, protocol: dict[str, Any], cause: str
) -> None:
    lab.make("other", "id INT, v STRING", properties=TRACKED)
    lab.engine.create_stream("s", on_table=lab.path("src"))
    lab.sql("INSERT INTO {src} VALUES (2, 'b')")
    set_protocol(lab.path("copy"), **protocol)
    before = lab.version("copy"), lab.version("other")

    with pytest.raises(InvalidRequest, match=rf"target .*copy.*{cause}.*Fix: "):
        lab.consume(
            "INSERT INTO {other} SELECT id, v FROM s", "INSERT INTO {copy} SELECT id, v FROM s"
        )
    assert (lab.version("copy"), lab.version("other")) == before


def test_target_with_an_unknown_reader_feature_is_not_written(lab: StreamLab) -> None:
    lab.engine.create_stream("s", on_table=lab.path("src"))
    lab.sql("INSERT INTO {src} VALUES (2, 'b')")
    set_protocol(lab.path("copy"), reader=("futureReader",))
    before = lab.version("copy")

    with pytest.raises(InvalidStatement, match=r"copy.*futureReader.*nothing was written"):
        lab.consume("INSERT INTO {copy} SELECT id, v FROM s")
    assert lab.version("copy") == before


def test_tracking_is_not_switched_on_for_an_unknown_writer_feature(
    lab: StreamLab,
) -> None:
    lab.make("plain", "id INT")
    set_protocol(lab.path("plain"), writer=("futureWriter",))

    with pytest.raises(InvalidRequest, match=r"cannot be used by this Delta.*futureWriter.*DROP"):
        lab.engine.create_stream("s", on_table=lab.path("plain"))
    assert lab.engine.describe_streams() == []
