"""The SQL statements of one consumption: what each does, what it writes and which streams it reads.

SQL is parsed only to understand it. Spark runs the user's text, in which only the names of streams
and unquoted metadata columns are replaced. If Delta refuses a DELETE or an UPDATE, a MERGE made of
its parts runs instead.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import Token, TokenType, exp

from ..errors import InvalidStatement
from ..model.consumption import StatementKind
from ..names import TableName, name_key, qualified_name
from ..near_names import advice_on_tables
from .binding import bound
from .create_heads import CreateHead, create_head, data_source
from .insert_clauses import insert_clauses, insert_first
from .stream_references import (
    StreamReference,
    other_tables,
    parse,
    stream_references,
    streams_of,
    subject,
    tokenise,
    top_level,
    unquoted_metadata_columns,
    word,
)
from .subquery_rewrites import as_merge

_DML = {
    "INSERT": (StatementKind.INSERT, exp.Insert),
    "MERGE": (StatementKind.MERGE, exp.Merge),
    "UPDATE": (StatementKind.UPDATE, exp.Update),
    "DELETE": (StatementKind.DELETE, exp.Delete),
}
QUERY_WORDS = ("SELECT", "FROM", "VALUES", "TABLE", "MAP", "REDUCE", "(")
_ACCEPTED = "INSERT, MERGE, UPDATE, DELETE and CREATE TABLE ... AS"


@dataclass(frozen=True, slots=True)
class CreateTable:
    """The two halves of a CREATE TABLE ... AS, as the user wrote them.

    ``definition`` is the part before the AS, and ``query`` the part after it. In the statement, the
    table's name starts at ``name_start`` and the query at ``query_start``. ``data_source`` is what
    follows USING, if there is one.
    """

    or_replace: bool
    definition: str
    query: str
    name_start: int
    query_start: int
    data_source: str | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that can take part in a consumption.

    ``text`` is the user's, trimmed, without a semicolon at its end. ``fingerprint`` is its SHA-256
    in hexadecimal digits. ``streams`` are the registered names of the streams that it reads, in the
    order in which they first appear. ``create`` is set for a CREATE TABLE ... AS.
    ``metadata_columns`` are the starts and ends (exclusive) of those without backticks.
    ``rewritten_as`` is set if ``text`` is not the user's but a MERGE that does the same. The
    fingerprint is still that of the user's text. ``other_tables`` are the last parts of the names
    of what it reads besides streams.
    """

    kind: StatementKind
    text: str
    fingerprint: str
    target: TableName
    streams: tuple[str, ...]
    references: tuple[StreamReference, ...]
    metadata_columns: tuple[tuple[int, int], ...]
    create: CreateTable | None = None
    rewritten_as: str | None = None
    other_tables: tuple[str, ...] = ()


def analyse(sql: str, stream_names: Collection[str]) -> Statement:
    """The statement ``sql``, analysed.

    The engine accepts INSERT, also after its FROM, MERGE, UPDATE, DELETE and CREATE [OR REPLACE]
    TABLE ... AS (Snowflake: DML and CTAS move an offset, a query does not).

    :param stream_names: the registered streams
    :raises InvalidStatement: ``sql`` is another statement, holds several or none, cannot be parsed,
        writes to a stream, or reads a stream where Delta cannot
    :raises InvalidName: its target has more than 3 parts
    """
    text, tokens = one_statement(sql)
    streams = {name_key(name): name for name in stream_names}
    verb = verb_of(tokens)
    clauses = insert_clauses(tokens, verb)
    if len(clauses) == 1:
        return _dml(text, tokens, streams, "INSERT", insert_first(tokens, clauses[0]))
    if verb in _DML:
        return _dml(text, tokens, streams, verb, tokens)
    if verb == "CREATE" and (head := create_head(tokens)):
        return _create_table(text, tokens, streams, head)
    raise _refusal(text, tokens, verb)


def bind(statement: Statement, views: Mapping[str, str]) -> str:
    """The SQL text to run: ``statement`` with every stream replaced by its view.

    :param views: the name of a temporary view for each of ``statement.streams``
    """
    return bound(statement, views, 0, len(statement.text))


def creation_text(statement: Statement, views: Mapping[str, str]) -> str:
    """The SQL text that creates the table of a CREATE TABLE ... AS without rows.

    It creates the table only if it does not exist. It never replaces an existing table, even if the
    statement does.

    :param views: the name of a temporary view for each of ``statement.streams``
    :raises InvalidStatement: ``statement`` is not a CREATE TABLE ... AS
    """
    definition, query = _halves(statement, views)
    # Both halves may end in a comment, so each ends its line.
    return f"CREATE TABLE {definition}\nAS SELECT * FROM (\n{query}\n) WHERE 1 = 0"


def replacement_text(statement: Statement, views: Mapping[str, str]) -> str:
    """The SQL text that replaces the existing table of a CREATE TABLE ... AS in one commit.

    :param views: the name of a temporary view for each of ``statement.streams``
    :raises InvalidStatement: ``statement`` is not a CREATE TABLE ... AS
    """
    definition, query = _halves(statement, views)
    return f"CREATE OR REPLACE TABLE {definition}\nAS\n{query}"


def insertion_text(statement: Statement, views: Mapping[str, str]) -> str:
    """The SQL text that fills the table that :func:`creation_text` created.

    :param views: the name of a temporary view for each of ``statement.streams``
    :raises InvalidStatement: ``statement`` is not a CREATE TABLE ... AS
    """
    _, query = _halves(statement, views)
    return f"INSERT INTO {statement.target.sql}\n{query}"


def text_to_run(statement: Statement, views: Mapping[str, str], *, created: bool) -> str:
    """The SQL text that applies ``statement``.

    :param views: the name of a temporary view for each of ``statement.streams``
    :param created: its target was just created for it, and is empty
    """
    if statement.create is None:
        return bind(statement, views)
    return (insertion_text if created else replacement_text)(statement, views)


def plan_streams(
    statements: Sequence[Statement], stream_names: Collection[str] = ()
) -> tuple[str, ...]:
    """All streams that a consumption of ``statements`` reads, in order of appearance.

    A statement that reads no stream is allowed if another one reads a stream.

    :param stream_names: the registered streams, for a message
    :raises InvalidStatement: there is no statement, or none of them reads a stream
    """
    streams = tuple(dict.fromkeys(name for item in statements for name in item.streams))
    if streams:
        return streams
    if not statements:
        raise InvalidStatement("consumption", "has no statement", fix="give at least one")
    others = dict.fromkeys(name for item in statements for name in item.other_tables)
    raise InvalidStatement(
        subject(statements[0].text),
        "is part of a consumption in which no statement reads a stream",
        cause="a statement reads a stream by its name, as a table of one part that is not a CTE",
        fix=advice_on_tables(others, stream_names),
    )


def one_statement(sql: str) -> tuple[str, list[Token]]:
    """The one statement in ``sql``, trimmed and without a semicolon, and its tokens.

    :raises InvalidStatement: ``sql`` holds no statement or several, or is not SQL
    """
    if not isinstance(sql, str):
        raise InvalidStatement(
            "statement",
            "is not text",
            cause=f"expected one statement as a text, found {type(sql).__name__} {sql!r}",
            fix="give each statement as its own text",
        )
    text = sql.strip()
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidStatement(
            subject(text),
            "is not text",
            cause="it holds half of a surrogate pair",
            fix="write the character itself, such as by chr(128512), or leave it out",
        )
    tokens = tokenise(text)
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        text = text[: tokens.pop().start].rstrip()
    if not tokens:
        raise InvalidStatement(subject(text), "is empty", fix=f"pass one of {_ACCEPTED}")
    if any(token.token_type == TokenType.SEMICOLON for token in tokens):
        raise InvalidStatement(
            subject(text),
            "holds several statements",
            cause="expected one statement in each string",
            fix="give them one by one: they are still consumed together",
        )
    return text, tokens


def verb_of(tokens: Sequence[Token]) -> str:
    """The word that names what a statement does: its first, or the first after its CTEs."""
    first = word(tokens[0])
    if first != "WITH":
        return first
    previous = ""
    for _, token in top_level(tokens):
        if previous == ")" and word(token) in (*_DML, *QUERY_WORDS):
            return word(token)
        previous = word(token)
    return "SELECT"


def _refusal(text: str, tokens: Sequence[Token], verb: str) -> InvalidStatement:
    fix = f"consume with {_ACCEPTED}"
    if len(insert_clauses(tokens, verb)) > 1:
        problem = "inserts into several tables at once, or several times into one"
        fix = "write one INSERT for each: statements of one consumption are consumed together"
    elif verb in QUERY_WORDS:
        problem = "does not consume: it is a query"
        fix = "use read_stream to read a stream, or INSERT INTO ... SELECT to consume it"
    elif verb == "TRUNCATE":
        problem, fix = "cannot take part in a consumption", "write DELETE FROM the_table"
    elif verb == "REPLACE":
        problem, fix = "cannot take part in a consumption", "write CREATE OR REPLACE TABLE ... AS"
    elif verb == "CREATE":
        problem = "does not create a table from a query"
        fix = "write CREATE [OR REPLACE] TABLE [IF NOT EXISTS] name ... AS SELECT"
    else:
        problem = "is not DML"
    found = f"found {verb}" if verb.isidentifier() else "found something else"
    return InvalidStatement(subject(text), problem, cause=f"expected {_ACCEPTED}, {found}", fix=fix)


def _dml(
    text: str,
    tokens: Sequence[Token],
    streams: Mapping[str, str],
    verb: str,
    parsed: Sequence[Token],
) -> Statement:
    """The analysed ``verb``. ``parsed`` are ``tokens`` in the order that the parser knows."""
    kind, expected = _DML[verb]
    _refuse_directory(text, tokens)
    tree = parse(text, parsed)
    written = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    if not isinstance(tree, expected) or not isinstance(written, exp.Table):
        raise InvalidStatement(
            subject(text),
            "cannot be parsed",
            cause=f"it is not a complete {verb}",
            fix=f"write a complete {verb}, with the name of its target",
        )
    if written.find(exp.Parameter):
        raise _with_a_variable(text)
    target = _target(text, tuple(part.name for part in written.parts), streams)
    merge = as_merge(text, tokens, tree)
    if merge is not None:
        rewrite = tokenise(merge)
        rewritten = _dml(merge, rewrite, streams, "MERGE", rewrite)
        return replace(
            rewritten, kind=kind, fingerprint=_fingerprint(text), rewritten_as=rewritten.text
        )
    references = stream_references(text, tokens, tree, written, streams)
    others = other_tables(tree, written, streams)
    return _statement(text, tokens, references, others, kind=kind, target=target)


def _create_table(
    text: str, tokens: Sequence[Token], streams: Mapping[str, str], head: CreateHead
) -> Statement:
    split = next(
        (
            index
            for index, token in top_level(tokens)
            if index >= head.name_end and word(token) in ("AS", "WITH", *QUERY_WORDS[:-1])
        ),
        None,
    )
    if split is None or word(tokens[split]) != "AS" or split + 1 == len(tokens):
        raise _refusal(text, tokens, "CREATE")
    query_tokens = tokens[split + 1 :]
    tree = parse(text, query_tokens)
    if not isinstance(tree, (exp.Query, exp.Values)):
        raise _refusal(text, tokens, "CREATE")
    references = stream_references(text, query_tokens, tree, None, streams)
    start = query_tokens[0].start
    if any(token.token_type is TokenType.PARAMETER for token in tokens[: head.name_end + 1]):
        raise _with_a_variable(text)
    create = CreateTable(
        head.or_replace,
        definition=text[: tokens[split].start].rstrip(),
        query=text[start:],
        name_start=tokens[head.name_at].start,
        query_start=start,
        data_source=data_source(tokens[head.name_end : split]),
    )
    target = _target(text, head.parts, streams)
    kind = StatementKind.CREATE_TABLE
    others = other_tables(tree, None, streams)
    return _statement(text, tokens, references, others, kind=kind, target=target, create=create)


def _statement(
    text: str,
    tokens: Sequence[Token],
    references: tuple[StreamReference, ...],
    others: tuple[str, ...],
    *,
    kind: StatementKind,
    target: TableName,
    create: CreateTable | None = None,
) -> Statement:
    return Statement(
        kind=kind,
        text=text,
        fingerprint=_fingerprint(text),
        target=target,
        streams=streams_of(references),
        references=references,
        metadata_columns=tuple(unquoted_metadata_columns(tokens)),
        create=create,
        other_tables=others,
    )


def _fingerprint(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _target(text: str, parts: tuple[str, ...], streams: Mapping[str, str]) -> TableName:
    if len(parts) == 1 and name_key(parts[0]) in streams:
        raise InvalidStatement(
            subject(text),
            f"writes to stream {streams[name_key(parts[0])]}",
            cause="a stream is read only",
            fix="write to a table; if a table has that name, write schema.table",
        )
    return qualified_name(parts)


def _with_a_variable(text: str) -> InvalidStatement:
    return InvalidStatement(
        subject(text),
        "has a variable in the name of its target",
        cause="only Spark knows which table it names",
        fix="write the name itself",
    )


def _refuse_directory(text: str, tokens: Sequence[Token]) -> None:
    words = [word(token) for _, token in top_level(tokens)]
    for index, token in enumerate(words):
        if token == "OVERWRITE" and "DIRECTORY" in words[index + 1 : index + 3]:
            raise InvalidStatement(
                subject(text),
                "writes files into a folder",
                cause="a consumption is applied exactly once to Delta tables only",
                fix="write INSERT INTO delta.`/a/path`",
            )


def _halves(statement: Statement, views: Mapping[str, str]) -> tuple[str, str]:
    """The parts before and after the AS of a CREATE TABLE ... AS, from the table's name on."""
    create = statement.create
    if create is None:
        raise InvalidStatement(subject(statement.text), "is not CREATE TABLE ... AS")
    definition = bound(statement, views, create.name_start, len(create.definition))
    return definition, bound(statement, views, create.query_start, len(statement.text))
