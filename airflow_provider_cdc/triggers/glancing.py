"""How a trigger waits between two checks: it glances at logs until one of them has grown."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

from .threads import in_own_thread

LEAST_SECONDS = 0.2
"""The shortest time between two glances at a disk."""

# A glance takes at most this share of a core. A busy machine must not stop the glances.
_SHARE, _MOST_SECONDS = 0.01, 1.0
# Requests to an object store are paid for, and take about 50 ms.
_REMOTE_SECONDS = 5.0
_PATIENCE_SECONDS = 5.0
_log = logging.getLogger(__name__)

Seen = TypeVar("Seen")


class Glancing:
    """Takes glances in threads. If a store does not answer, there are no glances until it does, and
    only the checks are repeated.
    """

    def __init__(self) -> None:
        self._last: asyncio.Future[Any] | None = None

    async def take(self, glance: Callable[[], Seen]) -> Seen | None:
        """Return what ``glance`` returns, or ``None`` if a store does not answer.

        :raises Exception: the exception of ``glance``
        """
        if self._last is not None and not self._last.done():
            return None
        last: asyncio.Future[Seen] = asyncio.ensure_future(in_own_thread(glance))
        self._last = last
        done, _ = await asyncio.wait({last}, timeout=_PATIENCE_SECONDS)
        return last.result() if done else None

    async def wait_for_growth(
        self, glance: Callable[[], Seen], seen: Seen, until: float, *, is_local: bool, spent: float
    ) -> None:
        """Wait until ``glance`` returns something else than ``seen``, or until a moment.

        A glance that fails is repeated: the check after the wait reports what is wrong.

        :param until: the end of the wait, by the monotonic clock
        :param is_local: whether the logs are on a disk
        :param spent: how long the last check took, in seconds. Checks and glances both take a small
            share of the time
        """
        pause = _pause(spent, is_local=is_local)
        while (left := until - time.monotonic()) > pause:
            await asyncio.sleep(pause)
            begun = time.monotonic()
            try:
                found = await self.take(glance)
                if found is not None and found != seen:
                    return
            except Exception:
                _log.debug("could not glance at logs", exc_info=True)
            pause = _pause(time.monotonic() - begun, is_local=is_local)
        await asyncio.sleep(max(0, left))


def _pause(spent: float, *, is_local: bool) -> float:
    least = LEAST_SECONDS if is_local else _REMOTE_SECONDS
    return max(least, min(spent / _SHARE, _MOST_SECONDS))
