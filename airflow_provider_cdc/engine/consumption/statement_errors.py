"""Errors of statements that are refused, independent of the rows."""

from __future__ import annotations

from ..core.errors import InvalidStatement, StreamConflict
from ..core.sql.error_positions import in_own_text
from ..core.sql.statements import Statement


def refused(statement: Statement, cause: str, text: str | None = None) -> InvalidStatement:
    """The error of a ``statement`` that Spark refuses to run.

    :param text: the text that Spark read, if ``cause`` names a position in it
    """
    return InvalidStatement(
        f"statement on {statement.target.sql}",
        "is refused by Spark",
        cause=cause if text is None else in_own_text(cause, text, statement.text),
        fix="correct the statement; nothing was written and no offset moved",
    )


def created_meanwhile(statement: Statement) -> StreamConflict:
    """The error of a CREATE TABLE AS whose table somebody else created a moment before."""
    return StreamConflict(
        f"target {statement.target.sql}",
        "was created by somebody else",
        cause="the table did not exist a moment before",
        fix="run the consumer again; no consumption was begun",
    )
