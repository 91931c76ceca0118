"""Runs the same work for many items at once. An item that hangs does not block the others."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from threading import Condition, Thread
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def bounded_map(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    at_once: int,
    patience_seconds: float,
    within_seconds: float = float("inf"),
) -> list[Result | Exception]:
    """The results of ``work`` for each of ``items``, or the exceptions that it raised.

    An item that has not ended ``patience_seconds`` after its begin counts as ``TimeoutError``. Its
    thread cannot be stopped and continues. The process does not wait for it.

    :param at_once: how many items are worked on at once
    :param patience_seconds: how long one item may take
    :param within_seconds: how long all items may take; items that have not begun or not ended by
        then count as ``TimeoutError`` too
    """
    return _DaemonPool(work, items, patience_seconds, within_seconds).done(at_once)


class _DaemonPool(Generic[Item, Result]):
    def __init__(
        self,
        work: Callable[[Item], Result],
        items: Sequence[Item],
        patience_seconds: float,
        within_seconds: float,
    ) -> None:
        self._work = work
        self._items = items
        self._patience_seconds = patience_seconds
        self._within_seconds = within_seconds
        self._ends = time.monotonic() + within_seconds
        self._changed = Condition()
        self._left = deque(range(len(items)))
        self._begun: dict[int, float] = {}
        self._found: dict[int, Result | Exception] = {}

    def done(self, at_once: int) -> list[Result | Exception]:
        for _ in range(min(at_once, len(self._items))):
            self._start()
        with self._changed:
            while len(self._found) < len(self._items):
                self._changed.wait(self._give_up())
        return [self._found[place] for place in range(len(self._items))]

    def _start(self) -> None:
        Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._left:
                    return
                place = self._left.popleft()
                self._begun[place] = time.monotonic()
            try:
                outcome: Result | Exception = self._work(self._items[place])
            except Exception as error:
                outcome = error
            with self._changed:
                if place in self._found:
                    # The item timed out, and another thread took over.
                    return
                self._end(place, outcome)

    def _give_up(self) -> float:
        """Time out the items that take too long. Returns the seconds until the next timeout."""
        now = time.monotonic()
        if now >= self._ends:
            self._end_all()
            return 0
        for place, since in list(self._begun.items()):
            if now - since >= self._patience_seconds:
                late = TimeoutError(f"did not end within {self._patience_seconds:.0f} seconds")
                self._end(place, late)
                self._start()
        oldest = min(self._begun.values(), default=now)
        return max(min(oldest + self._patience_seconds, self._ends) - now, 0.01)

    def _end_all(self) -> None:
        self._left.clear()
        for place in range(len(self._items)):
            late = TimeoutError(f"not all ended within {self._within_seconds:.0f} seconds")
            self._found.setdefault(place, late)

    def _end(self, place: int, outcome: Result | Exception) -> None:
        del self._begun[place]
        self._found[place] = outcome
        self._changed.notify()
