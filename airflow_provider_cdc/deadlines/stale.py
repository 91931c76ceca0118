"""A deadline reference: the moment at which a stream goes stale."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk.definitions.deadline import BaseDeadlineReference

from airflow_provider_cdc.hooks import DEFAULT_CONN_ID
from airflow_provider_cdc.hooks.stale_after_variable import read_stale_after, variable_key

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

_log = logging.getLogger(__name__)


class StreamStaleDeadline(BaseDeadlineReference):
    """``stale_after`` of a stream, for a ``DeadlineAlert`` of a DAG that consumes it.

    With a negative interval, the alert's callback is called if a run has not ended that long before
    the stream goes stale. If that time has already passed, the callback is called at once. The
    reference uses the ``stale_after`` that ``CheckStreams`` of the connection saw last before the
    run was created. A run that was created before any check has no deadline. If no run exists, a
    deadline cannot help: use ``stale_stream_monitor`` for this case.

    :param stream: the name of the stream
    :param conn_id: a connection of type ``cdc``
    """

    def __init__(self, stream: str, conn_id: str = DEFAULT_CONN_ID) -> None:
        self.stream = stream
        self.conn_id = conn_id

    def serialize_reference(self) -> dict[str, Any]:
        """Return the reference in the form that a serialised DAG stores."""
        fields = {"stream": self.stream, "conn_id": self.conn_id}
        return {**super().serialize_reference(), **fields}

    @classmethod
    def deserialize_reference(cls, reference_data: dict[str, Any]) -> StreamStaleDeadline:
        """Return the reference from the data of a serialised DAG."""
        return cls(reference_data["stream"], reference_data["conn_id"])

    def _evaluate_with(self, *, session: Session, **_: Any) -> datetime | None:
        # An exception here would stop the scheduler. ``None`` only means that there is no deadline.
        try:
            from airflow.models.variable import Variable  # noqa: PLC0415 - the scheduler's own
            from sqlalchemy import select  # noqa: PLC0415 - a worker needs none

            key = variable_key(self.conn_id)
            found = session.scalar(select(Variable).where(Variable.key == key))
            return read_stale_after(None if found is None else found.get_val(), self.stream)
        except Exception:
            _log.warning(
                "no deadline for stream %s of %s", self.stream, self.conn_id, exc_info=True
            )
            return None
