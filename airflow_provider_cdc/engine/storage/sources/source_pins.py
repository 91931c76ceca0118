"""The newest versions of all sources at one moment: the end of what a transaction reads."""

from __future__ import annotations

from collections.abc import Iterable

from ...core.consumption.batches import BatchLimit
from ...core.errors import StreamConflict
from ...core.model.stream import Stream
from ..files.stores import each
from ..files.uris import store_key
from .source_log import SourceLog, StreamSpan


class SourcePins:
    """The newest version of every source, listed when a transaction starts. Folders are refreshed.

    Snowflake: in a transaction a stream returns the records from its offset to the transaction's
    start. All streams of one table end at the same version. A source that cannot be listed fails
    only the streams that read it.
    """

    def __init__(self, sources: SourceLog, streams: Iterable[Stream]) -> None:
        self._sources = sources
        # Any stream of a table or folder gives its newest version, in any spelling of the location.
        self._streams = {
            store_key(found.source.location): found
            for stream in streams
            for found in stream.by_base()
        }
        self._ends = each(self._end, self._streams)

    def span(self, stream: Stream, limit: BatchLimit) -> StreamSpan:
        """What ``stream`` has not consumed, up to the start of the transaction.

        :param limit: how much of the range to take at most
        :raises StreamConflict: the stream has moved past that moment, or its source could not be
            listed
        :raises StreamUnusable: its change set can no longer be read
        """
        through = [self._version(stream, base.source.location) for base in stream.bases]
        for base, end in zip(stream.bases, through, strict=True):
            if end < base.offset.version:
                raise StreamConflict(
                    f"stream {stream.name}",
                    "was moved past the start of the transaction",
                    cause=f"the transaction ends with version {end} of {base.source.name}, the"
                    f" stream is at version {base.offset.version}",
                    fix="run the transaction again",
                )
        return self._sources.span(stream, through=through, limit=limit, is_open=True)

    def _version(self, stream: Stream, location: str) -> int:
        found = self._ends[store_key(location)]
        if isinstance(found, int):
            return found
        # If the source still has a problem, this call raises the error.
        self._sources.span(stream)
        raise StreamConflict(
            f"stream {stream.name}",
            "cannot be read in this transaction",
            cause=f"its source could not be listed when the transaction started, {found!r}",
            fix="run the transaction again",
        )

    def _end(self, key: str) -> int | Exception:
        try:
            return self._sources.newest_version(self._streams[key])
        except Exception as error:  # kept until a stream reads that source
            return error
