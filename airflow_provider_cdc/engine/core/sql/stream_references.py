"""Where the text of a SQL statement reads streams, by character positions in that text.

The text is split into tokens once. If the parser disagrees with Spark's grammar, the tokens are
corrected. So every position found later is a position in the user's text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.databricks import Databricks
from sqlglot.errors import ParseError, TokenError

from ..errors import InvalidStatement
from ..model.stream import METADATA_COLUMNS
from ..names import name_key

_DIALECT = Databricks()
_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
_METADATA_COLUMNS = frozenset(
    name_key(name)
    for columns in METADATA_COLUMNS.values()
    for name in (columns.action, columns.is_update, columns.row_id)
)
_CONTINUED_COMMENT = re.compile(r"--[^\n]*\\\r?\n")
_PARSER_INTERNALS = re.compile(r"\x1b\[[0-9;]*m| but got <Token.*>|<class '[a-z.]*|'>")
_SUBJECT_CHARACTERS = 60
_SCHEMA_EVOLUTION = ["WITH", "SCHEMA", "EVOLUTION"]
_REFUSED_BY_DELTA: dict[tuple[type[exp.Expr], str], str] = {
    (exp.Delete, "where"): "the condition of a DELETE",
    (exp.Delete, "using"): "a DELETE",
    (exp.Delete, "with_"): "a DELETE",
    (exp.Update, "where"): "the condition of an UPDATE",
    (exp.Update, "from_"): "the FROM of an UPDATE",
    (exp.Merge, "on"): "the search condition of a MERGE",
    (exp.When, "condition"): "the condition of a WHEN clause",
    (exp.Insert, "where"): "the condition of REPLACE WHERE",
}


@dataclass(frozen=True, slots=True)
class StreamReference:
    """One place where a statement reads ``stream`` (its registered name).

    The name is in the text from ``start`` up to, not including, ``end``. ``alias`` has to be
    inserted at ``alias_at``, so that qualified columns keep working. It is ``None`` if the table
    already has an alias, or cannot have one.
    """

    stream: str
    start: int
    end: int
    alias: str | None
    alias_at: int


def streams_of(references: Iterable[StreamReference]) -> tuple[str, ...]:
    """The streams that ``references`` name, in the order in which they first appear."""
    return tuple(dict.fromkeys(reference.stream for reference in references))


def subject(text: str) -> str:
    """How a message names the statement ``text``: its beginning, on one line."""
    line = " ".join(text.split())
    if len(line) > _SUBJECT_CHARACTERS:
        line = line[:_SUBJECT_CHARACTERS] + "..."
    return f"statement {line!r}" if line else "statement"


def word(token: Token) -> str:
    """The keyword or unquoted identifier of ``token``, in capitals. Empty for any other token."""
    if token.token_type in (TokenType.STRING, TokenType.RAW_STRING, TokenType.IDENTIFIER):
        return ""
    return token.text.upper()


def top_level(tokens: Sequence[Token]) -> Iterator[tuple[int, Token]]:
    """The tokens outside any brackets, and the outermost brackets, each with its index."""
    depth = 0
    for index, token in enumerate(tokens):
        if token.token_type in _CLOSING:
            depth -= 1
        if depth == 0:
            yield index, token
        if token.token_type in _OPENING:
            depth += 1


def tokenise(text: str) -> list[Token]:
    """The tokens of ``text`` without comments.

    :raises InvalidStatement: a quote or a comment is not closed, or Spark would end a comment at
        another place
    """
    try:
        tokens: list[Token] = _DIALECT.tokenize(text)
    except TokenError as error:
        raise InvalidStatement(
            subject(text),
            "is not SQL",
            cause=f"a quote or a comment is not closed: {_plain(str(error.__cause__ or error))}",
            fix="close it",
        ) from error
    edges = [0, *(edge for token in tokens for edge in (token.start, token.end + 1)), len(text)]
    for start, end in list(pairwise(edges))[::2]:
        if _CONTINUED_COMMENT.search(text, start, end):
            raise InvalidStatement(
                subject(text),
                "has a comment that ends in a backslash",
                cause="Spark reads the line after it as part of the comment",
                fix="remove the backslash",
            )
    return tokens


def unquoted_metadata_columns(tokens: Sequence[Token]) -> list[tuple[int, int]]:
    """The metadata columns of change sets that lack the backticks which Spark requires.

    The result has their starts and ends (exclusive) in the text.
    """
    return [
        (column[0].start, column[-1].end + 1)
        for index in range(len(tokens))
        if (column := _metadata_column(tokens, index))
    ]


def parse(text: str, tokens: Sequence[Token]) -> exp.Expr:
    """The syntax tree of ``tokens``, which are all or some of those of ``text``.

    :raises InvalidStatement: they are not one SQL statement
    """
    try:
        trees = _DIALECT.parser().parse(_adapted(tokens), text)
    except ParseError as error:
        first = error.errors[0]
        raise InvalidStatement(
            subject(text),
            "cannot be parsed",
            cause=f"{_plain(first['description'])} at line {first['line']}, "
            f"column {first['col']}, near {_plain(first['highlight'])!r}",
            fix="correct the SQL",
        ) from error
    except RecursionError as error:
        raise InvalidStatement(
            subject(text), "cannot be parsed", cause="it is nested too deeply", fix="split it"
        ) from error
    if len(trees) == 1 and isinstance(trees[0], exp.Expr):
        return trees[0]
    raise InvalidStatement(
        subject(text),
        "cannot be parsed",
        cause="it is not one statement",
        fix="write one statement, in Spark's SQL",
    )


def stream_references(
    text: str,
    tokens: Sequence[Token],
    tree: exp.Expr,
    target: exp.Expr | None,
    streams: Mapping[str, str],
) -> tuple[StreamReference, ...]:
    """The places where ``tree``, made of ``tokens`` of ``text``, reads a stream, in text order.

    A table name of one part is a stream unless a CTE in scope has the same name.

    :param target: the node that is written and not read
    :param streams: the name of each stream by its key
    :raises InvalidStatement: a stream is read where Delta or Spark cannot read one
    """
    _refuse_dynamic_names(text, tokens, streams)
    by_start = {token.start: index for index, token in enumerate(tokens)}
    found = {}
    for table in tree.find_all(exp.Table):
        key = name_key(table.name)
        is_stream = len(table.parts) == 1 and isinstance(table.this, exp.Identifier)
        if table is target or not is_stream or key not in streams:
            continue
        if table.find_ancestor(exp.Hint) or _is_shadowed(table, key):
            continue
        _refuse_unreadable(text, table, streams[key])
        index = by_start.get(table.this.meta.get("start", -1))
        if index is None or name_key(tokens[index].text) != key:
            raise InvalidStatement(
                subject(text),
                f"reads stream {streams[key]} where it cannot be located",
                fix="read the stream in a sub-query: (SELECT * FROM the_stream)",
            )
        found[tokens[index].start] = _reference(tokens, index, table, streams[key])
    return tuple(found[start] for start in sorted(found))


def other_tables(
    tree: exp.Expr, target: exp.Expr | None, streams: Mapping[str, str]
) -> tuple[str, ...]:
    """The tables that ``tree`` reads besides streams: the last part of each name, once.

    The arguments are those of :func:`stream_references`.
    """
    found: dict[str, None] = {}
    for table in tree.find_all(exp.Table):
        key = name_key(table.name)
        is_stream = len(table.parts) == 1 and key in streams
        if table is not target and key and not is_stream and not _is_shadowed(table, key):
            found[table.name] = None
    return tuple(found)


def _reference(
    tokens: Sequence[Token], index: int, table: exp.Table, stream: str
) -> StreamReference:
    token = tokens[index]
    after_table = index > 0 and word(tokens[index - 1]) == "TABLE"
    alias = None if table.alias or after_table else token.text
    last = _end_of_sample(tokens, index) if alias and table.args.get("sample") else index
    return StreamReference(stream, token.start, token.end + 1, alias, tokens[last].end + 1)


def _end_of_sample(tokens: Sequence[Token], index: int) -> int:
    """The index of the last token of the TABLESAMPLE (...) [REPEATABLE (...)] after ``index``.

    In Spark the alias follows the sample.
    """
    last = index
    while last + 1 < len(tokens) and word(tokens[last + 1]) in ("TABLESAMPLE", "REPEATABLE"):
        brackets = (
            offset
            for offset, token in top_level(tokens[last + 2 :])
            if token.token_type == TokenType.R_PAREN
        )
        last += 2 + next(brackets)
    return last


def _adapted(tokens: Sequence[Token]) -> list[Token]:
    """``tokens`` with words that the parser knows in place of those that it does not know."""
    adapted: list[Token] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        words = [word(following) for following in tokens[index : index + 3]]
        if column := _metadata_column(tokens, index):
            name = "".join(part.text for part in column)
            adapted.append(_replacement(token, TokenType.IDENTIFIER, name, column[-1].end))
            index += len(column)
        elif words == _SCHEMA_EVOLUTION:
            index += len(words)
        elif _is_table_query(tokens, index):
            adapted += [
                _replacement(token, TokenType.SELECT, "SELECT"),
                _replacement(token, TokenType.STAR, "*"),
                _replacement(token, TokenType.FROM, "FROM"),
            ]
            index += 1
        else:
            adapted.append(token)
            index += 1
    return adapted


def _replacement(token: Token, kind: TokenType, text: str, end: int | None = None) -> Token:
    last = token.end if end is None else end
    return Token(kind, text, token.line, token.col, token.start, last, [])


def _metadata_column(tokens: Sequence[Token], index: int) -> Sequence[Token]:
    """The tokens from ``index`` on that form ``name$column`` without spaces.

    Empty if they form something else.
    """
    column = tokens[index : index + 3]
    if name_key("".join(map(word, column))) not in _METADATA_COLUMNS:
        return ()
    if any(left.end + 1 != right.start for left, right in pairwise(column)):
        return ()
    following = tokens[index + 3 : index + 4]
    if any(token.text == "$" and token.start == column[-1].end + 1 for token in following):
        return ()
    return column


def _is_table_query(tokens: Sequence[Token], index: int) -> bool:
    """Whether the token at ``index`` is the TABLE of ``TABLE name``, which is a query."""
    if word(tokens[index]) != "TABLE" or index + 1 == len(tokens):
        return False
    before = word(tokens[index - 1]) if index else ""
    return before not in ("INTO", "OVERWRITE", ".") and tokens[index + 1].token_type in (
        TokenType.VAR,
        TokenType.IDENTIFIER,
    )


def _is_shadowed(table: exp.Table, key: str) -> bool:
    """Whether a CTE in scope of ``table`` has the name ``key``."""
    child: exp.Expr = table
    while child.parent:
        parent = child.parent
        common = parent.args.get("with_")
        if isinstance(parent, exp.With):
            own = parent.expressions.index(child)
            visible = parent.expressions[: own + 1 if parent.recursive else own]
        elif common and common is not child:
            visible = common.expressions
        else:
            visible = []
        if any(name_key(cte.alias) == key for cte in visible):
            return True
        child = parent
    return False


def _refuse_unreadable(text: str, table: exp.Table, stream: str) -> None:
    if table.args.get("version") or table.find_ancestor(exp.Stream):
        raise InvalidStatement(
            subject(text),
            f"reads stream {stream} at a version of its own, or as a streaming table",
            cause="a stream is always read from its offset to the end of the consumption",
            fix="write only the name of the stream",
        )
    node: exp.Expr = table
    while node.parent:
        place = _REFUSED_BY_DELTA.get((type(node.parent), node.arg_key or ""))
        if place:
            raise InvalidStatement(
                subject(text),
                f"reads stream {stream} in {place}",
                cause="Delta does not allow a sub-query there (DELTA_UNSUPPORTED_SUBQUERY)",
                fix=f"write MERGE INTO the_target USING {stream} ON ... WHEN MATCHED THEN ...",
            )
        node = node.parent


def _refuse_dynamic_names(text: str, tokens: Sequence[Token], streams: Mapping[str, str]) -> None:
    """Refuse table names that the syntax tree does not show."""
    for index in range(len(tokens) - 2):
        first, opening, argument = tokens[index : index + 3]
        if opening.token_type != TokenType.L_PAREN:
            continue
        if word(first) == "IDENTIFIER":
            raise InvalidStatement(
                subject(text),
                "has an IDENTIFIER clause",
                cause="only Spark knows which table it names",
                fix="write the name itself",
            )
        if word(first) == "TABLE" and name_key(argument.text) in streams:
            raise InvalidStatement(
                subject(text),
                f"passes stream {streams[name_key(argument.text)]} to a function with TABLE(...)",
                fix="write TABLE(SELECT * FROM the_stream)",
            )


def _plain(text: str) -> str:
    return _PARSER_INTERNALS.sub("", text)
