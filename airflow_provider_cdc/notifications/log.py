"""A notifier that writes to the log of the task, for collectors of logs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseNotifier

from airflow_provider_cdc.engine.core.model.alerts import Alert, AlertKind

if TYPE_CHECKING:
    from airflow.sdk import Context

MESSAGE = "{{ alert.sentence }}; {{ alert.details }}"


class LogNotifier(BaseNotifier):
    """Writes an alert to the log of the task: a recovery as INFO, any other alert as WARNING.

    As the callback of a deadline alert (``AsyncCallback``), it writes to the log of the triggerer,
    and needs an explicit ``message``.

    :param message: the text to write (templated, see :class:`~..operators.monitor.CheckStreams`)
    """

    template_fields: Sequence[str] = ("message",)

    def __init__(self, message: str = MESSAGE, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.message = message

    def __repr__(self) -> str:
        """Return the same text in each process, because the text distinguishes mapped operators."""
        return f"LogNotifier(message={self.message!r})"

    def notify(self, context: Context) -> None:
        """Write the message."""
        alert = context.get("alert")
        is_good = isinstance(alert, Alert) and alert.kind is AlertKind.RECOVERY
        self.log.log(logging.INFO if is_good else logging.WARNING, "%s", self.message)

    async def async_notify(self, context: Context) -> None:
        """Write the message, without waiting."""
        self.notify(context)
