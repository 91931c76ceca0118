"""Run work of triggers in separate threads.

asyncio has few threads, and all triggers of a triggerer share them. If a store does not answer,
reads from it would take all of these threads, and no trigger would check again.
"""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop, Future, Semaphore
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from threading import Thread
from typing import ParamSpec, TypeVar
from weakref import WeakKeyDictionary

Given = ParamSpec("Given")
Result = TypeVar("Result")

_AT_ONCE = 16
_PATIENCE_SECONDS = 30.0
_places: WeakKeyDictionary[AbstractEventLoop, Semaphore] = WeakKeyDictionary()


async def in_own_thread(
    work: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs
) -> Result:
    """Return the result of ``work``, which runs in a daemon thread. The process can end without it.

    At most 16 threads run at once. After 30 seconds a thread continues, but no longer counts.

    :raises Exception: the exception of ``work``
    """
    loop = asyncio.get_running_loop()
    places = _places.setdefault(loop, Semaphore(_AT_ONCE))
    async with places:
        found = _begun(loop, partial(work, *args, **kwargs))
        await asyncio.wait({found}, timeout=_PATIENCE_SECONDS)
    return await found


def _begun(loop: AbstractEventLoop, work: Callable[[], Result]) -> Future[Result]:
    found: Future[Result] = loop.create_future()
    # A cancelled caller does not fetch the exception. Without this call, asyncio would warn.
    found.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    context = copy_context()

    def run() -> None:
        settle: Callable[[], None]
        try:
            settle = partial(found.set_result, context.run(work))
        except Exception as error:
            settle = partial(found.set_exception, error)
        # The loop may have been closed in the meantime.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(lambda: None if found.done() else settle())

    Thread(target=run, daemon=True).start()
    return found
