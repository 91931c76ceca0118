"""Suggests the stream that a user may have meant, if no stream has the given name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from difflib import get_close_matches

from .names import stream_key

SHOWN_NAMES = 10
"""The most streams that a message lists."""

_NEAR = 3


def near_names(name: str, names: Iterable[str]) -> list[str]:
    """The names that the user may have meant if ``name`` is misspelled, the nearest first."""
    by_key = {stream_key(each): each for each in names}
    return [by_key[key] for key in get_close_matches(stream_key(name), by_key, n=_NEAR)]


def advice_on(name: str, names: Collection[str], shown: Callable[[str], str] = str) -> str:
    """What to do if no stream has ``name``.

    :param names: the names of all streams, or their keys
    :param shown: returns the name as it was registered
    """
    if near := near_names(name, names):
        return f"did you mean {' or '.join(map(shown, near))}"
    if not names:
        return "create it: there is no stream yet"
    if len(names) <= SHOWN_NAMES:
        return f"create it, or name an existing one: {', '.join(map(shown, sorted(names)))}"
    return "create it, or name one that engine.show_streams() or the command streams lists"


def stream_meant(tables: Iterable[str], names: Collection[str]) -> str | None:
    """The advice if one of ``tables`` may be a misspelled stream. ``None``: no such table."""
    for table in tables:
        if near := near_names(table, names):
            if stream_key(near[0]) == stream_key(table):
                return f"write only {near[0]}: the name of a stream has one part"
            return f"did you mean {' or '.join(near)} instead of {table}"
    return None


def advice_on_tables(tables: Iterable[str], names: Collection[str]) -> str:
    """What to do if statements read no stream.

    :param tables: the tables that they read, by the last part of each name
    :param names: the streams that exist
    """
    if meant := stream_meant(tables, names):
        return meant
    if not names:
        return "create the stream first: the state folder has no streams"
    if len(names) <= SHOWN_NAMES:
        return f"name one of the existing streams: {', '.join(sorted(names))}"
    return "name the stream to consume in one of the statements, or create it first"
