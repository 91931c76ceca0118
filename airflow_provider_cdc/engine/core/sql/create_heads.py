"""The part of a CREATE TABLE ... AS before the AS, by its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import Token

from .stream_references import top_level, word


@dataclass(frozen=True, slots=True)
class CreateHead:
    """``CREATE [OR REPLACE] TABLE [IF NOT EXISTS] name``.

    ``parts`` are the parts of the name. ``name_at`` is the index of its first token, and
    ``name_end`` that of the token after it.
    """

    or_replace: bool
    parts: tuple[str, ...]
    name_at: int
    name_end: int


def create_head(tokens: Sequence[Token]) -> CreateHead | None:
    """The head of a CREATE TABLE that begins with ``tokens``.

    ``None`` if they are something else.
    """
    words = [word(token) for token in tokens]
    position = 1
    or_replace = words[position : position + 2] == ["OR", "REPLACE"]
    position += 2 * or_replace
    if words[position : position + 1] != ["TABLE"]:
        return None
    position += 1
    position += 3 * (words[position : position + 3] == ["IF", "NOT", "EXISTS"])
    parts = [token.text for token in tokens[position : position + 1]]
    name_at = position
    position += 1
    while words[position : position + 1] == ["."]:
        parts += [token.text for token in tokens[position + 1 : position + 2]]
        position += 2
    return CreateHead(or_replace, tuple(parts), name_at, position)


def data_source(definition: Sequence[Token]) -> str | None:
    """What follows USING in ``definition``, the tokens between the name and the AS."""
    for index, token in top_level(definition):
        if word(token) == "USING" and index + 1 < len(definition):
            return definition[index + 1].text
    return None
