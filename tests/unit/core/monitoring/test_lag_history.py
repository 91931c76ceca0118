"""The short history of lags: which checks add a point, and what is kept."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from status_lines import new_line, new_snapshot
from streams import NOON

from airflow_provider_cdc.engine.core.monitoring.lag_history import (
    KEPT_FOR,
    MOST_POINTS,
    LagHistory,
    with_snapshot,
)

MINUTE = timedelta(minutes=1)
START = int(NOON.timestamp())


def test_history_has_a_point_for_each_change_of_a_lag() -> None:
    history = LagHistory()
    lags = [0, 0, 2, 2, 3, 0]
    for minute, commits in enumerate(lags):
        line = new_line(commits_behind=commits, bytes_behind=10 * commits)
        history = with_snapshot(history, new_snapshot(line, as_of=NOON + minute * MINUTE))
    found = [((point[0] - START) // 60, point[2], point[3]) for point in history.points["id of s"]]
    assert found == [(0, 0, 0), (2, 2, 20), (4, 3, 30), (5, 0, 0)]


def test_history_forgets_dropped_streams() -> None:
    history = with_snapshot(LagHistory(), new_snapshot(new_line()))
    assert with_snapshot(history, new_snapshot()).points == {}


def test_history_shows_unknown_lags() -> None:
    line = new_line(commits_behind=None, bytes_behind=None)
    (point,) = with_snapshot(LagHistory(), new_snapshot(line)).points["id of s"]
    assert point[2:4] == (-1, -1)


@given(st.lists(st.tuples(st.integers(0, 3 * 24 * 60), st.integers(0, 3)), max_size=30))
def test_history_gives_the_lag_at_each_moment_of_its_time(checks: list[tuple[int, int]]) -> None:
    """The point that is valid at a moment has the lag that the last check until then found."""
    history, now, seen = LagHistory(), NOON, []
    for minutes, commits in checks:
        now += minutes * MINUTE
        seen.append((now, commits))
        history = with_snapshot(history, new_snapshot(new_line(commits_behind=commits), as_of=now))
    points = history.points.get("id of s", ())
    for moment, commits in seen:
        if moment > now - KEPT_FOR and not any(m == moment and c != commits for m, c in seen):
            valid = [point for point in points if point[0] <= moment.timestamp()]
            assert valid[-1][2] == commits


def test_history_of_a_busy_stream_is_bounded() -> None:
    history = LagHistory()
    for number in range(MOST_POINTS + 10):
        line = new_line(commits_behind=number)
        history = with_snapshot(history, new_snapshot(line, as_of=NOON + number * MINUTE / 60))
    points = history.points["id of s"]
    assert len(points) == MOST_POINTS
    assert points[-1][2] == MOST_POINTS + 9
