"""Which version of a log a point means."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streams import new_offset, new_stream
from written_logs import START, WrittenLog, after

from airflow_provider_cdc.engine.core.arguments.points import (
    Bound,
    OffsetOf,
    Point,
    Timestamp,
    Version,
)
from airflow_provider_cdc.engine.core.errors import InvalidRange
from airflow_provider_cdc.engine.core.model.serialization import stream_text
from airflow_provider_cdc.engine.core.model.sources import Offset, Source
from airflow_provider_cdc.engine.storage.delta.commit_times import CommitTimes
from airflow_provider_cdc.engine.storage.delta.delta_log import DeltaLog
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.registry.registry_snapshot import RegistrySnapshot, Row
from airflow_provider_cdc.engine.storage.sources.source_history import SourceHistory

NOW = START + timedelta(days=1)
OWN_TIMES = {"delta.enableInCommitTimestamps": "true"}


class Log(WrittenLog):
    """A log, and what its points mean."""

    def newest(self, seconds: float, *, is_inclusive: bool = True) -> int | None:
        times = CommitTimes(DeltaLog(str(self.root), Files()))
        return times.newest(after(seconds), is_inclusive=is_inclusive)

    def version(self, point: Point, *, at: bool = True, named: int | None = None) -> int:
        return self.offset(point, at=at, named=named).version

    def offset(
        self,
        point: Point,
        *,
        at: bool = True,
        named: int | None = None,
        may_precede_all: bool = False,
    ) -> Offset:
        history = SourceHistory(Files(), lambda: NOW)
        source = Source("t", str(self.root), "t")
        other = new_stream("o", source=source, offset=new_offset(named or 0))
        streams = RegistrySnapshot(0, [Row("1", "o", 1, stream_text(other))], None)
        return history.offset(
            "stream s", source, Bound(point, at), streams, may_precede_all=may_precede_all
        )


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "t")


@pytest.fixture
def three(log: Log) -> Log:
    for version in range(3):
        log.commit(version, seconds=10 * (version + 1))
    return log


@pytest.mark.parametrize(
    ("seconds", "at", "before"),
    [(9, -1, -1), (10, 0, -1), (15, 0, 0), (20, 1, 0), (30, 2, 1), (99, 2, 2)],
)
def test_time_resolves_to_the_newest_commit_written_by_then(
    three: Log, seconds: int, at: int | None, before: int | None
) -> None:
    assert three.newest(seconds) == at
    assert three.newest(seconds, is_inclusive=False) == before


def test_commit_of_a_clock_set_back_follows_the_last_one_by_a_millisecond(
    log: Log,
) -> None:
    for version, seconds in enumerate([10, 5, 10.0005, 20]):
        log.commit(version, seconds)
    assert [log.newest(10 + tick / 1000) for tick in range(4)] == [0, 1, 2, 2]


def test_in_commit_timestamps_take_precedence_over_file_times(log: Log) -> None:
    log.commit(0, seconds=500, own_seconds=10, settings=OWN_TIMES)
    log.commit(1, seconds=400, own_seconds=20)
    assert [log.newest(seconds) for seconds in (9, 10, 19, 20, 450)] == [-1, 0, 0, 1, 1]
    assert log.newest(20, is_inclusive=False) == 0


def test_in_commit_timestamps_count_from_their_enablement_version(log: Log) -> None:
    since = OWN_TIMES | {"delta.inCommitTimestampEnablementVersion": "2"}
    log.commit(0, seconds=10)
    log.commit(1, seconds=20)
    log.commit(2, seconds=900, own_seconds=30, settings=since)
    log.commit(3, seconds=901, own_seconds=40)
    assert [log.newest(s) for s in (9, 10, 29, 30, 39, 40)] == [-1, 0, 1, 2, 2, 3]


def test_commits_before_a_gap_do_not_count(three: Log) -> None:
    (three.folder / f"{1:020d}.json").unlink()
    three.commit(2, seconds=30, settings={})
    assert three.newest(25) is None
    assert three.newest(30) == 2


@given(st.lists(st.integers(0, 20), min_size=1, max_size=8), st.integers(0, 40), st.booleans())
def test_time_agrees_with_a_check_of_every_commit(
    tmp_path_factory: pytest.TempPathFactory, seconds: Sequence[int], moment: int, at: bool
) -> None:
    log = Log(tmp_path_factory.mktemp("log") / "t")
    times: list[datetime] = []
    for version, each in enumerate(seconds):
        log.commit(version, each)
        earliest = times[-1] + timedelta(milliseconds=1) if times else START
        times.append(max(after(each), earliest))
    by_then = [
        version
        for version, time in enumerate(times)
        if time < after(moment) or (at and time == after(moment))
    ]
    assert log.newest(moment, is_inclusive=at) == (by_then[-1] if by_then else -1)


def test_bound_at_a_point_includes_it_and_bound_before_it_excludes_it(three: Log) -> None:
    assert three.version(Version(1)) == 1
    assert three.version(Version(1), at=False) == 0
    assert three.version(Timestamp(after(20))) == 1
    assert three.version(Timestamp(after(20)), at=False) == 0
    assert three.version(OffsetOf("o"), named=2) == 2
    assert three.version(OffsetOf("o"), at=False, named=2) == 1


def test_bound_at_another_stream_does_not_need_the_commit_of_its_offset(three: Log) -> None:
    assert three.version(OffsetOf("o"), named=0) == 0
    (three.folder / f"{0:020d}.json").unlink()
    assert three.version(OffsetOf("o"), named=0) == 0


@pytest.mark.parametrize(
    ("point", "at", "cause"),
    [
        (Version(3), True, "from 0 to 2"),
        (Version(0), False, "before version 0"),
        (OffsetOf("o"), False, "before version 0"),
        (Timestamp(after(9)), True, "before version 0"),
        (Timestamp(after(10)), False, "before version 0"),
        (Timestamp(NOW + timedelta(seconds=1)), True, "is in the future"),
    ],
)
def test_bound_outside_of_the_history_is_refused(
    three: Log, point: Point, at: bool, cause: str
) -> None:
    with pytest.raises(InvalidRange, match=cause):
        three.version(point, at=at)


@pytest.mark.parametrize(
    ("point", "at"),
    [
        (Version(0), False),
        (OffsetOf("o"), False),
        (Timestamp(after(9)), True),
        (Timestamp(after(10)), False),
    ],
)
def test_bound_before_version_0_has_its_metadata_and_no_row_ids(
    three: Log, point: Point, at: bool
) -> None:
    first = three.offset(Version(0))
    found = three.offset(point, at=at, may_precede_all=True)

    assert (found.version, found.row_id_high_water_mark) == (-1, -1)
    assert (found.metadata, found.protocol) == (first.metadata, first.protocol)


def test_bound_before_a_cleaned_up_log_is_refused(three: Log) -> None:
    three.commit(1, seconds=20, settings={})
    (three.folder / f"{0:020d}.json").unlink()
    for point, cause in (
        (Version(0), "no longer holds version 0"),
        (Timestamp(after(9)), "the log begins later"),
    ):
        with pytest.raises(InvalidRange, match=cause):
            three.offset(point, at=False, may_precede_all=True)


def test_bound_before_a_table_replaced_since_is_refused(three: Log) -> None:
    content = (three.folder / f"{0:020d}.json").read_text(encoding="utf-8")
    replacement = content.replace('"id": "t"', '"id": "another"')
    (three.folder / f"{0:020d}.json").write_text(replacement, encoding="utf-8")
    with pytest.raises(InvalidRange, match="was a different table then"):
        three.offset(Version(0), at=False, may_precede_all=True)


def test_bound_at_a_version_of_a_table_replaced_since_is_refused(three: Log) -> None:
    content = (three.folder / f"{0:020d}.json").read_text(encoding="utf-8")
    replacement = content.replace('"id": "t"', '"id": "another"')
    (three.folder / f"{0:020d}.json").write_text(replacement, encoding="utf-8")
    with pytest.raises(InvalidRange, match="was a different table then"):
        three.version(Version(1))


def test_times_of_files_are_rounded_down_to_the_millisecond(log: Log) -> None:
    log.commit(0, seconds=0)
    nanoseconds = int(after(10).timestamp()) * 10**9 + 857_999_954
    os.utime(log.folder / f"{0:020d}.json", ns=(nanoseconds, nanoseconds))
    assert (log.newest(10.856), log.newest(10.857)) == (-1, 0)


def test_bound_at_a_version_that_was_cleaned_up_is_refused(three: Log) -> None:
    (three.folder / f"{0:020d}.json").unlink()
    with pytest.raises(InvalidRange, match="no longer holds version 0"):
        three.version(Version(1))
