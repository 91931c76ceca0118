"""The bounds of a feed as a caller gives them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from airflow_provider_cdc.engine.core.change_feed.feed_request import FeedEdge, checked_prefix
from airflow_provider_cdc.engine.core.errors import InvalidRange, InvalidRequest

MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def local(text: str) -> datetime | None:
    """What a session says of a text; it knows no February 30."""
    return None if "02-30" in text else MOMENT


def point(version: int | None = None, timestamp: str | datetime | None = None) -> object:
    return FeedEdge("from", version, timestamp).point("change feed of t", local)


def test_edge_is_a_version_a_moment_or_nothing() -> None:
    assert point() is None
    assert point(0) == 0
    assert point(timestamp=MOMENT) == MOMENT
    assert point(timestamp="2026-01-02T03:04:05Z") == MOMENT


@pytest.mark.parametrize(
    "text", ["2026-01-02", "2026-01-02 03:04:05", "2026-01-02 03:04:05.1", " 2026-01-02 "]
)
def test_text_without_an_offset_is_a_time_of_the_session(text: str) -> None:
    assert point(timestamp=text) == MOMENT


@pytest.mark.parametrize(
    "text", ["", "2026-1-2", "2026-01-02 03:04", "2026-01-02 03:04:05.1234", "2026-01-02T03:04:05"]
)
def test_text_in_no_documented_form_is_refused(text: str) -> None:
    with pytest.raises(InvalidRange, match="not a point in time"):
        point(timestamp=text)


def test_time_that_the_calendar_lacks_is_refused() -> None:
    with pytest.raises(InvalidRange, match="the calendar has no such time"):
        point(timestamp="2026-02-30")


def test_two_bounds_for_one_edge_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="pass one of them"):
        point(1, "2026-01-02")


def test_prefix_is_part_of_a_name() -> None:
    assert checked_prefix("change feed of t", "feed_1") == "feed_1"
    for bad in ("a b", "a`", "ä", "x" * 101, "a\n"):
        with pytest.raises(InvalidRequest, match="column_prefix"):
            checked_prefix("change feed of t", bad)
