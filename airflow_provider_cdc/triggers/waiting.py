"""The base class of triggers that wait until a check of the state folder finds something."""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_cdc.engine.core.errors import CdcError
from airflow_provider_cdc.hooks.cdc import CdcHook

from .threads import in_own_thread

if TYPE_CHECKING:
    from airflow_provider_cdc.hooks.connection import CdcConnection

Check = Callable[[], dict[str, Any] | None]
"""Checks once. It returns the fields of the event, or ``None`` to check again later."""

_log = logging.getLogger(__name__)


class WaitingTrigger(BaseTrigger):
    """Base class of triggers that fire once: when a check succeeds, or when waiting cannot help.

    The event is a dict: ``status`` is ``ready`` (with what the check found) or ``failed`` (with
    ``message`` and ``retryable``). It always has ``waiting_since`` and what :attr:`subject` has.
    Only the id of the connection is serialised, never its content.

    :param conn_id: a connection of type ``cdc``
    :param poll_interval: the most seconds before the first check, and between two checks
    :param waiting_since: when the wait began, ISO 8601; the event repeats it
    """

    def __init__(self, *, conn_id: str, poll_interval: float, waiting_since: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's own
        self.conn_id = conn_id
        self.poll_interval = poll_interval
        self.waiting_since = waiting_since

    @property
    @abstractmethod
    def subject(self) -> dict[str, str]:
        """What the trigger waits for, in the event and in the log."""

    @abstractmethod
    def check_of(self, settings: CdcConnection) -> Check:
        """Return the check on the state folder of a connection. It runs in a thread.

        :raises CdcError: the returned check raises it if waiting cannot help
        """

    async def rest(self) -> None:
        """Wait before the next check, for at most ``poll_interval`` seconds."""
        await asyncio.sleep(self.poll_interval)

    def fired(self, event: dict[str, Any]) -> TriggerEvent:
        """Return the event of the trigger that has the fields of ``event``."""
        return TriggerEvent(event)  # type: ignore[no-untyped-call]  # Airflow's own

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Check after each :meth:`rest`, in a thread, until there is an event.

        If a store or a connection cannot be reached, this is logged. The timeout of the task limits
        the wait.
        """
        check = event = None
        while event is None:
            # The task checked just before it deferred, so the first step is to wait.
            await self.rest()
            try:
                check = check or self.check_of(await CdcHook.asettings(self.conn_id))
                found = await in_own_thread(check)
                event = None if found is None else {"status": "ready", **found}
            except CdcError as error:
                event = {"status": "failed", "message": str(error), "retryable": error.retryable}
            except Exception:
                _log.warning("could not check %s", self.subject, exc_info=True)
                # The connection may be wrong and corrected later, so it is read again.
                check = None
        yield self.fired({**event, **self.subject, "waiting_since": self.waiting_since})
