"""The hook for the staleness of streams, for monitors that must not start a JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseHook

from .cdc import CdcHook

if TYPE_CHECKING:
    from airflow_provider_cdc.engine.catalog.monitoring import StreamMonitor
    from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
    from airflow_provider_cdc.engine.catalog.stream_status import StreamStatus


class StaleStreamHook(BaseHook):
    """The status of the streams of a ``cdc`` connection, from only the registry and the Delta
    logs.

    :param conn_id: a connection of type ``cdc``
    """

    conn_name_attr = "conn_id"
    default_conn_name = CdcHook.default_conn_name
    conn_type = CdcHook.conn_type
    hook_name = "Stale streams"

    def __init__(self, conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.conn_id = conn_id

    def get_conn(self) -> StreamCatalog:
        """The stream registry from which the statuses are read."""
        return CdcHook(self.conn_id).catalog()

    def monitor(self) -> StreamMonitor:
        """The monitor, which reports each change of an objective's status once."""
        return CdcHook(self.conn_id).monitor()

    def describe_streams(self) -> list[StreamStatus]:
        """The status of every stream."""
        return self.get_conn().describe_streams()

    def describe_stream(self, name: str) -> StreamStatus:
        """The status of one stream.

        :raises StreamNotFound: there is no stream of that name
        """
        return self.get_conn().describe_stream(name)

    def stale_streams(self) -> list[StreamStatus]:
        """The statuses of the streams that are stale, or whose ``stale_after`` has passed."""
        return [status for status in self.describe_streams() if status.stale]
