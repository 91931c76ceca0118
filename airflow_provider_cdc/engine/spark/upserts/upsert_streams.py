"""The stream on the changes of each upsert table."""

from __future__ import annotations

from contextlib import suppress

from ...catalog.stream_catalog import StreamCatalog
from ...catalog.stream_status import StreamStatus
from ...core.errors import InvalidRequest, StreamNotFound, StreamStale
from ...core.model.stream import Stream
from ...core.upserts.definition import UpsertTable
from ...storage.files.uris import store_key


class UpsertStreams:
    """Finds the streams of upsert tables, and checks that each is on the changes of its table."""

    def __init__(self, catalog: StreamCatalog) -> None:
        self._catalog = catalog

    def get(self, table: UpsertTable) -> Stream:
        """The stream on the changes of ``table``.

        :raises StreamNotFound: it has none
        :raises InvalidRequest: the stream is on changes at another location
        """
        stream = self._catalog.get_stream(table.stream)
        if not is_on(stream, table):
            raise InvalidRequest(
                f"upsert table {table.name}",
                "was copied or moved",
                cause=f"it is at {table.location}, and its changes come from"
                f" {stream.source.location}",
                fix="use it at its original location, by the path or name that it was created with;"
                " to make a copy, use create_upsert_table and write_changes",
            )
        return stream

    def find(self, table: UpsertTable) -> Stream | None:
        """Like :meth:`get`; ``None`` if the table has no stream. A write needs none."""
        with suppress(StreamNotFound):
            return self.get(table)
        return None

    def status(self, table: UpsertTable, stream: Stream) -> StreamStatus:
        """The status of the ``stream`` of ``table``.

        :raises StreamStale: the waiting changes can no longer be determined
        """
        status = self._catalog.status_of(stream)
        if status.invalid_reason is not None:
            raise StreamStale(
                f"upsert table {table.name}",
                "cannot determine which changes are not yet applied",
                cause=status.invalid_reason,
                fix="create the table again and load it from the origin of its changes; its base"
                " has the changes that were applied",
            )
        return status


def is_on(stream: Stream, table: UpsertTable) -> bool:
    """Whether ``stream`` is on the changes of ``table``."""
    return store_key(stream.source.location) == store_key(table.changes)
