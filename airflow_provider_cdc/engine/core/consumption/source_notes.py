"""What a statement's commit says about its sources, in the user metadata of the commit.

Delta: a writer can add a text of its own to a commit. The text belongs to the user, so it is kept:
an object of JSON gets one more key, and a commit with another text says nothing about its sources.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from ..delta.log_actions import Commit
from .statement_log import is_applied

_KEY = "cdc"


@dataclass(frozen=True, slots=True)
class TakenVersions:
    """What a statement takes of one table through ``stream``: the versions ``after`` (exclusive) to
    ``through`` (inclusive). With ``after`` -1, all rows that the table had at ``through``.
    """

    stream: str
    source: str
    table_id: str
    after: int
    through: int


class _Note(msgspec.Struct, frozen=True):
    sources: tuple[TakenVersions, ...]


class _UserMetadata(msgspec.Struct, frozen=True):
    cdc: _Note


def noted(user_metadata: str | None, taken: Sequence[TakenVersions]) -> str | None:
    """The user metadata of a statement's commit that takes ``taken``.

    :param user_metadata: what the user has set for each commit; ``None``: nothing
    :param taken: may be empty: the statement reads no stream
    :returns: ``user_metadata`` itself if it is a text that cannot hold a note
    """
    own = {} if not user_metadata else _object_in(user_metadata)
    if own is None or _KEY in own:
        return user_metadata
    note = {_KEY: msgspec.to_builtins(_Note(tuple(taken)))}
    return json.dumps(own | note, separators=(",", ":"))


def taken_by(commit: Commit) -> tuple[TakenVersions, ...] | None:
    """What the statement that wrote ``commit`` took of its sources. ``None``: the commit does not
    say it, or no statement of a consumption wrote it.
    """
    if commit.user_metadata is None or not is_applied(commit):
        return None
    try:
        return msgspec.json.decode(commit.user_metadata, type=_UserMetadata).cdc.sources
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeEncodeError):
        return None


def _object_in(text: str) -> dict[str, object] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
