"""Reads the text of a view, token by token."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import UnsupportedView
from .unsupported_queries import CLAUSES, ViewText

QUERY_WORDS = ("SELECT", "WITH", "TABLE", "FROM", "VALUES")
_AFTER_QUERY = (
    *("UNION", "INTERSECT", "EXCEPT", "MINUS", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT"),
    *("OFFSET", "WINDOW", "|>", ")"),
)
_LEAVE_OUT = "leave it out of the view, and apply it to the rows of the stream"


class TokenReader:
    """Keeps a place in a text. It takes the tokens that it expects there, and refuses others."""

    def __init__(self, source: ViewText) -> None:
        self._source = source
        self._closings = _closings(source)
        self._at = 0

    def _end(self, index: int) -> int:
        """The end of the token before ``index``, exclusive."""
        return self._source.tokens[index - 1].end + 1

    def _word(self, offset: int = 0) -> str:
        return self._source.word(self._at + offset)

    def _take(self, wanted: str) -> bool:
        found = self._word() == wanted
        self._at += found
        return found

    def _close(self) -> None:
        if not self._take(")"):
            raise self._unexpected()

    def _name(self) -> str:
        if not self._source.is_name(self._at):
            raise self._unexpected()
        self._at += 1
        return self._source.tokens[self._at - 1].text

    def _opens_query(self, index: int) -> bool:
        """Whether the parenthesis that opens at ``index`` holds a query and not a relation."""
        source = self._source
        if source.word(index + 1) != "(":
            return source.word(index + 1) in QUERY_WORDS and source.word(index + 2) != "."
        closing = self._closings.get(index + 1, len(source.tokens))
        return source.word(closing + 1) in _AFTER_QUERY and self._opens_query(index + 1)

    def _refusal(
        self, what: str, index: int | None = None, why: str = "", fix: str = ""
    ) -> UnsupportedView:
        return self._source.refusal(self._at if index is None else index, what, why, fix)

    def _unexpected(self) -> UnsupportedView:
        found = self._word()
        if found not in CLAUSES:
            return self._refusal("unknown syntax")
        what = CLAUSES[found] or f"an unexpected {found}"
        return self._refusal(
            what, None, "", f"{_LEAVE_OUT}, or put it in backticks if it is a name"
        )


def _closings(source: ViewText) -> Mapping[int, int]:
    """For each opening parenthesis, the index of the one that closes it."""
    closings = {}
    opened = []
    for index in range(len(source.tokens)):
        if source.word(index) == "(":
            opened.append(index)
        elif source.word(index) == ")" and opened:
            closings[opened.pop()] = index
    return closings
