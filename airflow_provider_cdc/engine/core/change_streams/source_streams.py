"""The streams that let the tables of a change stream keep what is not captured."""

from __future__ import annotations

import hashlib
import re

from ..names import name_key

_DIGEST_CHARACTERS = 16
_COMMENT = re.compile(r"feeds change stream (\w+); .*", re.DOTALL)


def source_prefix(change_stream: str) -> str:
    """How the names of the streams of a change stream begin."""
    digest = hashlib.sha256(name_key(change_stream).encode()).hexdigest()[:_DIGEST_CHARACTERS]
    return f"change_stream_{digest}_"


def source_comment(change_stream: str) -> str:
    """The comment of the streams of a change stream."""
    return f"feeds change stream {change_stream}; only advance_change_stream moves it"


def change_stream_of(stream: str, comment: str | None) -> str | None:
    """The change stream that a stream belongs to; ``None``: to no change stream.

    :param stream: the name of the stream
    """
    found = _COMMENT.fullmatch(comment or "")
    if found is None or not stream.startswith(source_prefix(found[1])):
        return None
    return found[1]
