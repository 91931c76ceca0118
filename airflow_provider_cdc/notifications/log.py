"""A notifier that writes to the log of the task, for those who collect logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseNotifier

if TYPE_CHECKING:
    from airflow.sdk import Context

MESSAGE = (
    "{{ alert.promise }} {{ alert.kind }}: stream {{ stream }} on {{ source }}"
    "{% if upsert_table %} of upsert table {{ upsert_table }}{% endif %}, {{ reason }};"
    " {{ lag_commits }} commits, {{ lag_bytes }} bytes and {{ lag_seconds | int }} seconds behind,"
    " stale after {{ stale_after }}, last consumed by {{ last_consumer }}"
)


class LogNotifier(BaseNotifier):
    """Writes an alert to the log of the task that tells it, as a warning. As the callback of a
    deadline alert (``AsyncCallback``) it writes to the triggerer's, and needs a message of its own.

    :param message: what to write (templated, see :class:`~..operators.monitor.CheckStreams`)
    """

    template_fields: Sequence[str] = ("message",)

    def __init__(self, message: str = MESSAGE, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.message = message

    def __repr__(self) -> str:
        """The same in each process: mapped operators are told from one another by it."""
        return f"LogNotifier(message={self.message!r})"

    def notify(self, context: Context) -> None:
        """Write the message."""
        self.log.warning("%s", self.message)

    async def async_notify(self, context: Context) -> None:
        """Write the message; it waits for nothing."""
        self.notify(context)
