"""The captures of change streams: files of rows, and one file for each capture that names them.

The file of a capture is its commit. Its name has both stamps of the capture, and a store creates it
once. So of two captures of the same commits one wins, and the rows of the other one, like those of
a killed capture, are never read.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...core.change_streams.captures import Capture, CapturedFile, covering
from ...core.change_streams.definition import ChangeStream
from ...core.change_streams.stamps import MICROSECONDS_A_DAY
from ...core.errors import StreamUnreadable
from ..files.best_effort import log_failures
from ..files.stores import Files
from ..files.uris import join
from .change_streams import ChangeStreams
from .stored_values import NotReadable, read_back, stored

_DIGITS = 20
_NAME = re.compile(rf"(\d{{{_DIGITS}}})-(\d{{{_DIGITS}}})\.json")
_CAPTURES, _ROWS = "captures", "rows"
_Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Captures:
    """Reads, publishes and removes captures, without a JVM."""

    streams: ChangeStreams
    files: Files

    def between(self, stream: ChangeStream, begin: int, through: int) -> list[Capture]:
        """The captures that hold the stamps from ``begin`` to ``through``, in their order.

        :raises StreamUnreadable: one cannot be read
        """
        spans = covering(self._spans(stream), begin, through)
        return [self._read(stream, span) for span in spans]

    def new_folder(self, now: int) -> str:
        """The name of a folder for the rows of a new capture.

        :param now: the stamp of this moment
        """
        return f"{now:0{_DIGITS}d}-{uuid.uuid4().hex}"

    def rows_in(self, stream: ChangeStream, folder: str) -> str:
        """Where the rows of a capture are."""
        return join(self.streams.folder_of(stream), _ROWS, folder)

    def written(self, stream: ChangeStream, folder: str) -> tuple[CapturedFile, ...]:
        """The files of rows in a folder; a folder without rows may be missing."""
        try:
            found = self.files.below(self.rows_in(stream, folder))
        except FileNotFoundError:
            found = []
        rows = sorted((file.path, file.size_bytes) for file in found)
        return tuple(CapturedFile(*row) for row in rows if row[0].endswith(".parquet"))

    def is_published(self, stream: ChangeStream, span: _Span) -> bool:
        """Whether a capture of that first and last stamp is published."""
        return self.files.exists(self._file(stream, span))

    def publish(self, stream: ChangeStream, capture: Capture) -> bool:
        """Publish a capture. Returns whether this call did; otherwise another one was first."""
        uri = self._file(stream, (capture.begin, capture.through))
        return self.files.claim(uri, stored(capture))

    def remove_rows(self, stream: ChangeStream, folder: str) -> None:
        """Remove the rows of a capture that was not published."""
        with log_failures(f"removing {folder} of {stream.subject}"):
            self.files.remove(self.rows_in(stream, folder))

    def expire(self, stream: ChangeStream, before: int, now: int) -> None:
        """Remove captures whose records are all older than a stamp, captures that a wider one
        holds, and rows that a killed capture left a day ago.

        :param now: the stamp of this moment
        """
        spans = self._spans(stream)
        kept = covering(spans, before, max((end for _, end in spans), default=before))
        for span in sorted(set(spans).difference(kept)):
            with log_failures(f"removing capture {span} of {stream.subject}"):
                # Without its rows no reader needs it, and without it nothing would find its rows.
                self.files.remove(self.rows_in(stream, self._read(stream, span).folder))
                self.files.remove(self._file(stream, span))
        used = {self._read(stream, span).folder for span in kept}
        for folder in self._names(join(self.streams.folder_of(stream), _ROWS)):
            is_old = folder[:_DIGITS] < f"{now - MICROSECONDS_A_DAY:0{_DIGITS}d}"
            if is_old and folder not in used:
                self.remove_rows(stream, folder)

    def _spans(self, stream: ChangeStream) -> Sequence[_Span]:
        names = self._names(join(self.streams.folder_of(stream), _CAPTURES))
        matched = filter(None, map(_NAME.fullmatch, names))
        return [(int(match[1]), int(match[2])) for match in matched]

    def _read(self, stream: ChangeStream, span: _Span) -> Capture:
        uri = self._file(stream, span)
        try:
            return read_back(self.files.read(uri), Capture)
        except NotReadable as error:
            cause = str(error)
        raise StreamUnreadable(
            stream.subject,
            f"cannot be read, its capture {uri} is not valid",
            cause=cause,
            fix="upgrade airflow-provider-cdc here to the version that wrote it",
        )

    def _names(self, folder: str) -> Iterable[str]:
        try:
            return self.files.names(folder)
        except FileNotFoundError:
            return []

    def _file(self, stream: ChangeStream, span: _Span) -> str:
        begin, through = (f"{stamp:0{_DIGITS}d}" for stamp in span)
        return join(self.streams.folder_of(stream), _CAPTURES, f"{begin}-{through}.json")
