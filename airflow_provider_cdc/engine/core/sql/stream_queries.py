"""Queries that read streams. They read what a consumption would read, and consume nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlglot import exp

from ..errors import InvalidStatement
from ..names import name_key
from .binding import bound
from .insert_clauses import insert_clauses
from .statements import QUERY_WORDS, one_statement, verb_of
from .stream_references import (
    StreamReference,
    other_tables,
    parse,
    stream_references,
    streams_of,
    subject,
    unquoted_metadata_columns,
)

_QUERY_VERBS = ("SELECT", "FROM", "VALUES")


@dataclass(frozen=True, slots=True)
class Query:
    """A query. ``streams`` are the streams that it reads.

    Its fields have the same meaning as those of a ``Statement``.
    """

    text: str
    streams: tuple[str, ...]
    references: tuple[StreamReference, ...]
    metadata_columns: tuple[tuple[int, int], ...]
    other_tables: tuple[str, ...] = ()


def is_query(text: str) -> bool:
    """Whether ``text`` is a query, and not the name of a table."""
    try:
        _, tokens = one_statement(text)
    except InvalidStatement:
        return False
    return len(tokens) > 1 and verb_of(tokens) in _QUERY_VERBS


def analyse_query(sql: str, stream_names: Collection[str]) -> Query | None:
    """What the query ``sql`` reads. ``None`` if it is not a query.

    Snowflake: a query does not move an offset, not even in a transaction.

    :param stream_names: the registered streams
    :raises InvalidStatement: ``sql`` holds several statements or none, or cannot be parsed
    """
    text, tokens = one_statement(sql)
    verb = verb_of(tokens)
    if verb not in QUERY_WORDS or insert_clauses(tokens, verb):
        return None
    tree = parse(text, tokens)
    if not isinstance(tree, (exp.Query, exp.Values)):
        return None
    streams = {name_key(name): name for name in stream_names}
    references = stream_references(text, tokens, tree, None, streams)
    columns = tuple(unquoted_metadata_columns(tokens))
    others = other_tables(tree, None, streams)
    return Query(text, streams_of(references), references, columns, others)


def only_query(sql: str) -> str:
    """``sql`` without a semicolon, if it is a query.

    Spark runs any other statement as soon as its result is asked for.

    :raises InvalidStatement: ``sql`` is another statement, or holds several statements or none
    """
    text, tokens = one_statement(sql)
    verb = verb_of(tokens)
    inserts = insert_clauses(tokens, verb)
    if verb not in QUERY_WORDS or inserts:
        raise InvalidStatement(
            subject(text),
            "is not a query",
            cause=f"expected SELECT, found {'INSERT' if inserts else verb}",
            fix="give a query of the rows; nothing was written",
        )
    return text


def bind_query(query: Query, views: Mapping[str, str]) -> str:
    """The SQL text to run: ``query`` with every stream replaced by its view.

    :param views: the name of a temporary view for each of ``query.streams``
    """
    return bound(query, views, 0, len(query.text))
