"""Intervals of staleness, as users write and read them."""

from __future__ import annotations

from datetime import timedelta

import pendulum
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_cdc.engine.core.arguments.intervals import (
    interval_iso,
    interval_of,
    interval_text,
)
from airflow_provider_cdc.engine.core.errors import InvalidRequest


@pytest.mark.parametrize(
    "written",
    [
        "INTERVAL 10 MINUTE",
        "interval '10' minute",
        "INTERVAL 600 SECOND",
        "PT10M",
        "PT600S",
        timedelta(minutes=10),
        pendulum.duration(minutes=10),
    ],
)
def test_ten_minutes_are_shown_as_bigquery_shows_them(written: timedelta | str) -> None:
    assert interval_of(written, "max_staleness") == timedelta(minutes=10)
    assert interval_text(interval_of(written, "max_staleness")) == "0-0 0 0:10:0 (10 minutes)"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("INTERVAL 15 MINUTE", "0-0 0 0:15:0 (15 minutes)"),
        ("INTERVAL 1 DAY", "0-0 1 0:0:0 (1 day)"),
        ("INTERVAL 2 WEEK", "0-0 14 0:0:0 (2 weeks)"),
        ("P1DT2H3M4S", "0-0 1 2:3:4 (1 day 2 hours 3 minutes 4 seconds)"),
        ("PT0.5S", "0-0 0 0:0:0.5 (0.5 seconds)"),
        ("PT0S", "0-0 0 0:0:0 (0 seconds)"),
    ],
)
def test_interval_is_shown_by_days_and_by_time(written: str, shown: str) -> None:
    assert interval_text(interval_of(written, "max_staleness")) == shown


@pytest.mark.parametrize(
    "written",
    [
        "",
        "10 minutes",
        "INTERVAL 1 MONTH",
        "INTERVAL 1 YEAR",
        "INTERVAL -1 MINUTE",
        "INTERVAL 1.5 HOUR",
        "INTERVAL x MINUTE",
        "INTERVAL 10",
        "INTERVAL '1 2:3:4' DAY TO SECOND",
        "INTERVAL 99999999999999999999 DAY",
        "SELECT 1",
        "P1M",
        "P1Y",
        "PT",
        "P",
        "P1D/2020-01-01",
        timedelta(seconds=-1),
        pendulum.duration(months=1),
        600,
    ],
)
def test_interval_that_is_not_a_length_of_time_is_refused(written: timedelta | str) -> None:
    with pytest.raises(InvalidRequest, match="is not a length of time"):
        interval_of(written, "max_staleness")


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=36_500)))
def test_interval_is_kept_to_the_microsecond(length: timedelta) -> None:
    assert interval_of(interval_iso(length), "max_staleness") == length
