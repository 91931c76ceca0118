"""Queries that read streams: they look at what a consumption sees, and consume nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlglot import exp

from .binding import bound
from .names import stream_key
from .statements import QUERY_WORDS, one_statement, verb_of
from .stream_references import (
    StreamReference,
    parse,
    stream_references,
    streams_of,
    unquoted_metadata_columns,
)


@dataclass(frozen=True, slots=True)
class Query:
    """A query; ``streams`` are those that it reads, the fields as of a ``Statement``."""

    text: str
    streams: tuple[str, ...]
    references: tuple[StreamReference, ...]
    metadata_columns: tuple[tuple[int, int], ...]


def analyse_query(sql: str, stream_names: Collection[str]) -> Query | None:
    """What the query ``sql`` reads, where ``stream_names`` are the registered streams; ``None``
    where it is no query.

    Seed 000: a query alone moves no offset, not even in a transaction.

    :raises InvalidStatement: it holds several statements, or none; it cannot be parsed
    """
    text, tokens = one_statement(sql)
    if verb_of(tokens) not in QUERY_WORDS:
        return None
    tree = parse(text, tokens)
    if not isinstance(tree, (exp.Query, exp.Values)):
        return None
    streams = {stream_key(name): name for name in stream_names}
    references = stream_references(text, tokens, tree, None, streams)
    columns = tuple(unquoted_metadata_columns(tokens))
    return Query(text, streams_of(references), references, columns)


def bind_query(query: Query, views: Mapping[str, str]) -> str:
    """The SQL text to run: ``query`` with every stream replaced by its view.

    :param views: the name of a temporary view for each of ``query.streams``
    """
    return bound(query, views, 0, len(query.text))
