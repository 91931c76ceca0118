"""Change streams without Spark: consumers that begin, and how far they are."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from partitions import new_change_stream

from airflow_provider_cdc.engine.catalog.change_stream_catalog import ChangeStreamCatalog
from airflow_provider_cdc.engine.clock import utc_now
from airflow_provider_cdc.engine.core.change_streams.captures import Capture, CapturedGroup
from airflow_provider_cdc.engine.core.change_streams.definition import ChangeStream
from airflow_provider_cdc.engine.core.change_streams.stamps import moment_of, stamp_of
from airflow_provider_cdc.engine.core.errors import InvalidRequest
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.state.captures import Captures
from airflow_provider_cdc.engine.storage.state.change_streams import ChangeStreams


class Lab:
    """A change stream ``cs`` of no table, with two partitions, and a clock that can be ahead."""

    def __init__(self, root: Path) -> None:
        self.now = utc_now()
        self.catalog = ChangeStreamCatalog(str(root), clock=lambda: self.now)
        self.streams = ChangeStreams(str(root), Files())
        self.captures = Captures(self.streams, Files())
        self.begin = stamp_of(self.now)
        self.streams.create(replace(new_change_stream(self.begin), tables=()), None)

    def tick(self) -> ChangeStream:
        return self.streams.update("cs", lambda known: known.ticked([], stamp_of(self.now)))

    def capture(self, stamp: int, *groups: CapturedGroup) -> None:
        stream = self.streams.get("cs")
        assert self.captures.publish(stream, Capture(stamp, stamp, "f", (), (), (), groups))


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_partitions_are_handed_out_if_they_have_records(lab: Lab) -> None:
    at = lab.begin + 10
    lab.capture(at, CapturedGroup(at, 0, 1, "INSERT", "*", 2048, 3))
    lab.now += timedelta(seconds=1)
    stream = lab.tick()

    assert lab.catalog.ready_partitions("cs", "c") == 1
    (read,) = lab.catalog.list_partitions("cs", "c")
    assert stream.token_key.partition(read.partition_token).keys.low == 2048
    (status,) = lab.catalog.describe_change_streams()
    assert [(each.partitions, each.waiting) for each in status.consumers] == [(2, 1)]


def test_begin_of_a_consumer_is_sealed(lab: Lab) -> None:
    # The clock of this machine is ahead of the one that splits.
    lab.now += timedelta(hours=1)
    start = stamp_of(lab.now) - 5
    lab.catalog.list_partitions("cs", "c", start_timestamp=moment_of(start))
    stream = lab.streams.get("cs")

    assert stream.next_step_at(lab.begin + 20) > start


def test_published_watermark_is_the_least_of_all_consumers(lab: Lab) -> None:
    lab.now += timedelta(seconds=1)
    lab.tick()
    lab.catalog.list_partitions("cs", "one")
    first = lab.now
    lab.now += timedelta(seconds=1)
    lab.tick()
    lab.catalog.list_partitions("cs", "two")

    assert lab.catalog.published_watermark("cs", ["two"]) == lab.now
    assert lab.catalog.published_watermark("cs", ["two", "one"]) == first
    for names, text in (([], "without a consumer"), (["one", "three"], "has not begun")):
        with pytest.raises(InvalidRequest, match=text):
            lab.catalog.published_watermark("cs", names)
