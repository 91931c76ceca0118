"""Consuming a part of a stream: whole commits, the same ones on each attempt."""

from __future__ import annotations

import pytest
from scenes import LOG, OTHER, before, offset
from stream_lab import Crash, CrashAt, StreamLab

from airflow_provider_cdc.engine import InvalidRequest, ProtocolPoint


@pytest.fixture
def five(lab: StreamLab) -> StreamLab:
    """The lab's stream with five commits: an insert of two rows, of 3, of 4, the update of 3, an
    insert of 5.
    """
    lab.sql(
        "INSERT INTO {src} VALUES (3, '30')",
        "INSERT INTO {src} VALUES (4, '40')",
        "UPDATE {src} SET v = '33' WHERE id = 3",
        "INSERT INTO {src} VALUES (5, '50')",
    )
    return lab


def new_ids(lab: StreamLab) -> list[int]:
    return [row[0] for row in lab.rows("log")]


@pytest.mark.thorough
def test_consumption_of_at_most_two_commits_takes_two_and_leaves_the_rest(five: StreamLab) -> None:
    first = offset(five)
    five.consume(LOG, max_commits=2)
    assert (new_ids(five), offset(five)) == ([1, 2, 3], first + 2)
    assert sorted({row[0] for row in five.seen("s")}) == [3, 4, 5]


@pytest.mark.thorough
def test_consecutive_batches_cover_every_commit_once(five: StreamLab) -> None:
    while five.engine.stream_has_data("s"):
        five.consume(LOG, max_commits=2)
    assert new_ids(five) == [1, 2, 3, 3, 3, 4, 5]
    assert sorted(five.rows("log"))[2:5] == [
        (3, "30", "DELETE"),
        (3, "30", "INSERT"),
        (3, "33", "INSERT"),
    ]


@pytest.mark.thorough
def test_batch_bounded_by_bytes_holds_at_least_one_commit(five: StreamLab) -> None:
    first = offset(five)
    five.consume(LOG, max_bytes=1)
    assert offset(five) == first + 1
    five.consume(LOG, max_bytes=1 << 40)
    assert five.engine.stream_has_data("s") is False


@pytest.mark.thorough
def test_batch_stays_the_same_after_a_crash_even_if_retry_bounds_differ(five: StreamLab) -> None:
    engine = five.new_engine(CrashAt(ProtocolPoint.AFTER_STATEMENT, 0))
    with pytest.raises(Crash):
        five.consume(LOG, OTHER, engine=engine, max_commits=2)
    five.sql("INSERT INTO {src} VALUES (6, '60')")

    five.consume(LOG, OTHER)

    assert new_ids(five) == [1, 2, 3]
    assert five.rows("log") == five.rows("other")
    assert sorted({row[0] for row in five.seen("s")}) == [3, 4, 5, 6]


@pytest.mark.thorough
def test_statements_of_a_batch_see_the_same_records(five: StreamLab) -> None:
    write = before(
        ProtocolPoint.BEFORE_STATEMENT, lambda: five.sql("DELETE FROM {src} WHERE id = 1"), 1
    )
    five.consume(LOG, OTHER, engine=five.new_engine(write), max_commits=1)
    assert five.rows("log") == five.rows("other")
    assert new_ids(five) == [1, 2]


def test_invalid_bounds_are_refused_before_anything_is_written(
    five: StreamLab,
) -> None:
    first = offset(five)
    for bounds in ({"max_commits": 0}, {"max_bytes": -1}):
        with pytest.raises(InvalidRequest, match="whole number"):
            five.consume(LOG, **bounds)
    assert (five.rows("log"), offset(five)) == ([], first)
