"""A DELETE or UPDATE with a sub-query in its condition, as a MERGE that does the same.

Delta refuses a sub-query in the condition of a DELETE or an UPDATE, although users of other systems
write it. The rewrite is possible if the condition is ``x IN (SELECT ...)``. AND may join it with
conditions that have no sub-query. Then a MERGE with the distinct rows of the sub-query changes the
same rows: in both, NULL equals nothing, and no row of the target matches two of these rows. (If the
types differ, two keys can become equal to one value. Delta then refuses the UPDATE, and nothing is
changed.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import Token, TokenType, exp

from .stream_references import top_level, word

_KEYS, _KEY = "__cdc_keys", "__cdc_key_"


@dataclass(frozen=True, slots=True)
class _Membership:
    """The texts of both sides of ``values`` IN (``query``)."""

    values: tuple[str, ...]
    query: str


def as_merge(text: str, tokens: Sequence[Token], tree: exp.Expr) -> str | None:
    """The MERGE that does what ``text`` does.

    ``None`` if ``text`` is not a DELETE or UPDATE with such a condition.

    :param tokens: the tokens of ``text``
    :param tree: the syntax tree of ``text``
    """
    condition = tree.args.get("where")
    where = _place(tokens, "WHERE")
    if word(tokens[0]) not in ("DELETE", "UPDATE") or condition is None or where is None:
        return None
    if any(tree.args.get(name) for name in ("using", "from_", "with_")):
        return None
    conjuncts = _conjuncts(tokens[where + 1 :])
    trees = _flat(condition.this)
    asking = [index for index, each in enumerate(trees) if each.find(exp.Query)]
    if conjuncts is None or len(conjuncts) != len(trees) or len(asking) != 1:
        return None
    (at,) = asking
    found = _membership(text, conjuncts[at], trees[at])
    if found is None:
        return None
    if word(tokens[0]) == "DELETE":
        change, target = "DELETE", tokens[2:where]
    else:
        assigned = _place(tokens[2:], "SET")
        if assigned is None:
            return None
        change = f"UPDATE SET {_text(text, tokens[assigned + 3 : where])}"
        target = tokens[1 : assigned + 2]
    others = [part for index, part in enumerate(conjuncts) if index != at]
    names = [f"{_KEY}{number}" for number in range(1, len(found.values) + 1)]
    matches = [
        *[f"({value}) = {_KEYS}.{name}" for value, name in zip(found.values, names, strict=True)],
        *[f"({_text(text, part)})" for part in others],
    ]
    return (
        f"MERGE INTO {_text(text, target)}\n"
        f"USING (SELECT DISTINCT * FROM (\n{found.query}\n) AS {_KEYS}({', '.join(names)}))"
        f" AS {_KEYS}\nON {' AND '.join(matches)}\nWHEN MATCHED THEN {change}"
    )


def _flat(condition: exp.Expr) -> list[exp.Expr]:
    return list(condition.flatten()) if isinstance(condition, exp.And) else [condition]


def _conjuncts(tokens: Sequence[Token]) -> list[list[Token]] | None:
    """The conditions that AND joins on the top level. ``None`` if OR joins some."""
    ends: list[int] = []
    cases = betweens = 0
    for index, token in top_level(tokens):
        kind = word(token)
        cases += (kind == "CASE") - (kind == "END")
        if cases:
            continue
        if kind == "OR":
            return None
        if kind == "BETWEEN":
            betweens += 1
        elif kind == "AND" and betweens:
            betweens -= 1
        elif kind == "AND":
            ends.append(index)
    return _split(tokens, ends)


def _split(tokens: Sequence[Token], places: Sequence[int]) -> list[list[Token]]:
    """The tokens before, between and after those at ``places``."""
    starts = [0, *(place + 1 for place in places)]
    ends = [*places, len(tokens)]
    return [list(tokens[start:end]) for start, end in zip(starts, ends, strict=True)]


def _membership(text: str, tokens: Sequence[Token], tree: exp.Expr) -> _Membership | None:
    """The values and the sub-query of ``tokens``.

    ``None`` if ``tree`` is not an IN that can be rewritten.
    """
    if not isinstance(tree, exp.In) or tree.args.get("query") is None:
        return None
    places = [index for index, token in top_level(tokens) if word(token) == "IN"]
    # Spark allows one predicate in an expression. sqlglot allows several.
    is_predicate = isinstance(tree.this, (exp.Predicate, exp.Not))
    if len(places) != 1 or is_predicate or tree.this.find(exp.Query):
        return None
    (at,) = places
    values = list(tokens[:at])
    if isinstance(tree.this, exp.Tuple):
        inner = values[1:-1]
        commas = [i for i, token in top_level(inner) if token.token_type == TokenType.COMMA]
        parts = _split(inner, commas)
    else:
        parts = [values]
    if not all(parts):
        return None
    return _Membership(
        tuple(_text(text, part) for part in parts), _text(text, tokens[at + 2 : len(tokens) - 1])
    )


def _place(tokens: Sequence[Token], wanted: str) -> int | None:
    """The index of the first word ``wanted`` outside any brackets."""
    return next((index for index, token in top_level(tokens) if word(token) == wanted), None)


def _text(text: str, tokens: Sequence[Token]) -> str:
    return text[tokens[0].start : tokens[-1].end + 1]
