"""How the lag of each stream changed over the last days."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from .status_snapshot import StatusSnapshot, StreamLine

KEPT_FOR = timedelta(days=7)
"""How long a point is kept."""

MOST_POINTS = 500
"""How many points are kept of one stream. Each is a check that found another lag."""

_NONE_WAITS = 0

LagPoint = tuple[int, int, int, int, int]
"""What a check found: its time, the time of the oldest change that waited (0: none waited), the
commits and the bytes that waited (-1: unknown), and the time of the last consumption (0: none). All
times are seconds since 1970 in UTC.
"""


@dataclass(frozen=True, slots=True)
class LagHistory:
    """The points of each stream, by its id, the oldest first. A check that found the same as the
    one before it adds no point.
    """

    points: Mapping[str, tuple[LagPoint, ...]] = field(default_factory=dict)


def with_snapshot(history: LagHistory, snapshot: StatusSnapshot) -> LagHistory:
    """``history`` with the points of ``snapshot``, without old points and without streams that no
    longer exist.
    """
    lines = {line.stream_id: line for line in snapshot.lines}
    oldest = int((snapshot.as_of - KEPT_FOR).timestamp())
    kept: dict[str, tuple[LagPoint, ...]] = {}
    for stream_id, line in lines.items():
        points = history.points.get(stream_id, ())
        point = _point(line, snapshot.as_of)
        if not points or points[-1][1:] != point[1:]:
            points = (*points, point)
        # The last point before the oldest moment is the lag at that moment.
        first = next((i for i, each in enumerate(points[1:]) if each[0] > oldest), len(points) - 1)
        kept[stream_id] = points[first:][-MOST_POINTS:]
    return LagHistory(kept)


def _point(line: StreamLine, at: datetime) -> LagPoint:
    return (
        int(at.timestamp()),
        _NONE_WAITS if line.waiting_since is None else int(line.waiting_since.timestamp()),
        -1 if line.commits_behind is None else line.commits_behind,
        -1 if line.bytes_behind is None else line.bytes_behind,
        0 if line.last_consumed_at is None else int(line.last_consumed_at.timestamp()),
    )
