"""``FROM source INSERT INTO target SELECT ...``: an INSERT that names its source first."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import Token

from .stream_references import top_level, word


def insert_clauses(tokens: Sequence[Token], verb: str) -> list[int]:
    """The indices of the tokens at which INSERT clauses begin after a FROM. Empty for a query.

    Spark runs each clause as a separate write, so only a statement with one clause is one write.

    :param verb: the word that names what the statement does
    """
    if verb != "FROM":
        return []
    return [
        index
        for index, token in top_level(tokens)
        if word(token) == "INSERT" and _word_at(tokens, index + 1) in ("INTO", "OVERWRITE")
    ]


def insert_first(tokens: Sequence[Token], clause: int) -> list[Token]:
    """``tokens`` in the order that the parser knows: INSERT, then FROM, then SELECT.

    Each token keeps its position in the text.

    :param clause: the only result of :func:`insert_clauses`
    """
    words = [(index, word(token)) for index, token in top_level(tokens)]
    source = next(index for index, found in words if found == "FROM")
    rows = next(
        (index for index, found in words if index > clause and found == "SELECT"), len(tokens)
    )
    return [*tokens[:source], *tokens[clause:rows], *tokens[source:clause], *tokens[rows:]]


def _word_at(tokens: Sequence[Token], index: int) -> str:
    return word(tokens[index]) if index < len(tokens) else ""
