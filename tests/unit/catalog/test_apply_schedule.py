"""The staleness that a table should allow, by the time that applies took."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streams import new_stream

from airflow_provider_cdc.engine.catalog.upsert_jobs import apply_durations, recent_durations
from airflow_provider_cdc.engine.core.model.lifecycle import Transition
from airflow_provider_cdc.engine.core.upserts.apply_schedule import (
    apply_interval,
    percentile_95,
    recommended_max_staleness,
)
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.engine.storage.registry.registry_snapshot import Record
from airflow_provider_cdc.engine.storage.state.apply_times import ApplyTimes

NOON = datetime(2026, 1, 8, 12, tzinfo=UTC)


def seconds(*lengths: float) -> list[timedelta]:
    return [timedelta(seconds=length) for length in lengths]


@pytest.mark.parametrize(
    ("durations", "minutes"),
    [
        (seconds(1), 8),
        (seconds(30), 8),
        (seconds(30.1), 9),
        (seconds(*[60] * 19, 3_600), 9),
        (seconds(*[60] * 18, 3_600, 3_600), 127),
    ],
)
def test_recommendation_is_twice_the_95th_percentile_plus_seven_minutes(
    durations: list[timedelta], minutes: int
) -> None:
    assert recommended_max_staleness(durations) == timedelta(minutes=minutes)


def test_recommendation_is_missing_before_the_first_apply() -> None:
    assert recommended_max_staleness([]) is None


@given(st.lists(st.timedeltas(timedelta(0), timedelta(days=1)), min_size=1))
def test_percentile_is_exceeded_by_at_most_one_duration_in_twenty(
    durations: list[timedelta],
) -> None:
    longest = percentile_95(durations)
    assert longest in durations
    assert sum(each > longest for each in durations) <= len(durations) / 20


@given(
    st.timedeltas(timedelta(minutes=1), timedelta(days=1)),
    st.lists(st.timedeltas(timedelta(0), timedelta(seconds=59)), max_size=50),
)
def test_change_that_just_missed_an_apply_is_applied_in_time(
    max_staleness: timedelta, durations: list[timedelta]
) -> None:
    wait = apply_interval(max_staleness, durations)
    took = percentile_95(durations) if durations else max_staleness / 2
    assert wait + took <= max(max_staleness, took + max_staleness / 12)


def test_interval_is_unchanged_if_applies_take_slightly_longer() -> None:
    ten = timedelta(minutes=10)
    assert {apply_interval(ten, seconds(took)) for took in (51, 70, 100)} == {
        timedelta(minutes=8, seconds=20)
    }


def test_apply_that_exceeds_max_staleness_starts_again_soon() -> None:
    assert apply_interval(timedelta(minutes=1), seconds(90)) == timedelta(seconds=5)
    assert apply_interval(timedelta(seconds=2), seconds(90)) == timedelta(seconds=1)


def record(transition: Transition, minute: float) -> Record:
    moment = NOON + timedelta(minutes=minute)
    return Record(replace(new_stream()), transition, moment, "n", "a")


def test_durations_cover_only_recently_committed_applies() -> None:
    history = [
        record(Transition.CREATED, -60),
        record(Transition.BEGUN, -10),
        record(Transition.COMMITTED, -8),
        record(Transition.BEGUN, -1),
        record(Transition.COMMITTED, 1),
        record(Transition.SKIPPED, 2),
        record(Transition.BEGUN, 3),
        record(Transition.RESOLVING, 4),
        record(Transition.ABORTED, 5),
        record(Transition.BEGUN, 6),
        record(Transition.RESUMED, 8),
        record(Transition.COMMITTED, 9),
        record(Transition.BEGUN, 10),
    ]
    assert apply_durations(history, NOON) == [timedelta(minutes=2), timedelta(minutes=3)]


def test_noted_durations_take_precedence_over_the_history(tmp_path: Path) -> None:
    now = [NOON]
    times = ApplyTimes(str(tmp_path), Files(), lambda: now[0])
    history = [record(Transition.BEGUN, -2), record(Transition.COMMITTED, -1)]

    def found() -> list[timedelta]:
        since = now[0] - timedelta(days=7)
        return recent_durations("s", times, lambda: history, since)

    assert found() == [timedelta(minutes=1)]
    times.note("s", timedelta(minutes=5))
    assert found() == [timedelta(minutes=5)]
    now[0] += timedelta(days=8)
    history += [record(Transition.BEGUN, 11_519), record(Transition.COMMITTED, 11_520)]
    assert found() == [timedelta(minutes=1)]
