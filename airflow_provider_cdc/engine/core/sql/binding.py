"""Replaces the streams that a SQL text names by the views of a consumption."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ..names import quote
from .stream_references import StreamReference


class StreamText(Protocol):
    """A SQL ``text``, with its references to streams and its metadata columns without backticks."""

    @property
    def text(self) -> str:
        """The text, as the user wrote it."""

    @property
    def references(self) -> tuple[StreamReference, ...]:
        """The places where it reads streams."""

    @property
    def metadata_columns(self) -> tuple[tuple[int, int], ...]:
        """The starts and ends (exclusive) of metadata columns without backticks."""


def bound(found: StreamText, views: Mapping[str, str], start: int, end: int) -> str:
    """The part of a text from ``start`` to ``end``, with every stream replaced by its view.

    :param views: the name of a temporary view for each stream that the text names
    """
    text = found.text
    edits = [(first, last, quote(text[first:last])) for first, last in found.metadata_columns]
    for reference in found.references:
        edits.append((reference.start, reference.end, quote(views[reference.stream])))
        if reference.alias is not None:
            alias = f" AS {quote(reference.alias)}"
            edits.append((reference.alias_at, reference.alias_at, alias))
    pieces = []
    for first, last, replacement in sorted(edits):
        if start <= first and last <= end:
            pieces += [text[start:first], replacement]
            start = last
    return "".join([*pieces, text[start:end]])
