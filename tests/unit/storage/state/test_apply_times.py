"""The record of how long applies took."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.state.apply_times import KEPT_FOR, ApplyTimes

SECOND = timedelta(seconds=1)


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def test_notes_of_each_stream_are_kept_for_seven_days(tmp_path: Path) -> None:
    clock = Clock()
    times = ApplyTimes(str(tmp_path), Files(), clock)
    times.note("a", 1 * SECOND)
    clock.now += KEPT_FOR / 2
    times.note("a", 2.5 * SECOND)
    times.note("b", 3 * SECOND)

    assert times.read(["a", "b", "c"]) == {"a": [SECOND, 2.5 * SECOND], "b": [3 * SECOND], "c": []}
    clock.now += KEPT_FOR / 2
    assert times.read(["a"]) == {"a": [2.5 * SECOND]}
    assert times.read([]) == {}


def test_notes_of_a_stream_are_limited_to_the_newest_500(tmp_path: Path) -> None:
    times = ApplyTimes(str(tmp_path), Files(), Clock())
    for number in range(503):
        times.note("a", number * SECOND)

    assert times.read(["a"])["a"] == [number * SECOND for number in range(3, 503)]
