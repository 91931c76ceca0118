"""Many calls at once, some of which fail or hang."""

from __future__ import annotations

import threading
import time

from airflow_provider_cdc.engine.catalog.bounded_map import bounded_map


def test_bounded_map_returns_results_or_errors_in_order() -> None:
    def work(number: int) -> float:
        time.sleep(0.01 / number if number else 0)
        return 1 / number

    found = bounded_map(work, [3, 0, 1], at_once=2, patience_seconds=60)
    assert (found[0], found[2]) == (1 / 3, 1)
    assert isinstance(found[1], ZeroDivisionError)
    assert bounded_map(work, [], at_once=2, patience_seconds=60) == []


def test_bounded_map_runs_as_many_calls_at_once_as_allowed() -> None:
    barrier, most, now = threading.Barrier(3), [], threading.Semaphore(3)

    def work(_: int) -> None:
        most.append(now.acquire(blocking=False))
        barrier.wait(20)
        now.release()

    assert bounded_map(work, range(9), at_once=3, patience_seconds=60) == [None] * 9
    assert all(most)


def test_hanging_items_do_not_block_the_others() -> None:
    released = threading.Event()

    def work(number: int) -> int:
        if number < 3:
            released.wait(60)
        return number

    found = bounded_map(work, range(6), at_once=2, patience_seconds=1)
    assert [type(each) for each in found[:3]] == [TimeoutError] * 3
    assert found[3:] == [3, 4, 5]
    assert "did not end within" in str(found[0])
    released.set()
    time.sleep(0.05)
    # A result that comes too late changes nothing.
    assert isinstance(found[0], TimeoutError)


def test_bounded_map_ends_within_its_time_limit_even_if_items_hang() -> None:
    released, done = threading.Event(), []

    def work(number: int) -> int:
        if number:
            released.wait(60)
        done.append(number)
        return number

    found = bounded_map(work, range(5), at_once=2, patience_seconds=60, within_seconds=1)
    assert found[0] == 0
    assert [type(each) for each in found[1:]] == [TimeoutError] * 4
    assert "within 1 seconds" in str(found[4])
    released.set()
    time.sleep(0.05)
    # A call that had not begun by then is never made.
    assert sorted(done) == [0, 1, 2]
