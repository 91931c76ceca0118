"""The place in the user's text of an error that Spark found in another text.

The text that Spark reads has the names of views in place of streams, and words from the engine.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher

_POSITION = re.compile(r"line (?P<line>\d+),? pos(?:ition)? (?P<column>\d+)")
_WORD = re.compile(r"\w+|\S")


def in_own_text(message: str, read: str, written: str) -> str:
    """``message`` with the place that it names in ``read`` replaced by the place in ``written``.

    Lines count from 1 and positions from 0, as in Spark. If the word at that place is not the
    user's, the position is that of the word before it.

    :param read: the text that Spark read
    :param written: the text that the user wrote
    """
    match = _POSITION.search(message)
    if match is None:
        return message
    offset = _offset(read, int(match["line"]), int(match["column"]))
    line, column = _place(written, _same_word(offset, read, written))
    return f"{message[: match.start()]}line {line} pos {column}{message[match.end() :]}"


def _same_word(offset: int, read: str, written: str) -> int:
    """The offset in ``written`` of the word at ``offset`` in ``read``."""
    theirs, own = list(_WORD.finditer(read)), list(_WORD.finditer(written))
    wanted = max(sum(word.start() <= offset for word in theirs) - 1, 0)
    matcher = SequenceMatcher(
        None, [word[0] for word in theirs], [word[0] for word in own], autojunk=False
    )
    at = 0
    for block in matcher.get_matching_blocks():
        if block.a > wanted:
            break
        if block.size:
            at = own[block.b + min(wanted - block.a, block.size - 1)].start()
    return at


def _offset(text: str, line: int, column: int) -> int:
    lines = text.splitlines(keepends=True)
    return sum(map(len, lines[: line - 1])) + column


def _place(text: str, offset: int) -> tuple[int, int]:
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1)
