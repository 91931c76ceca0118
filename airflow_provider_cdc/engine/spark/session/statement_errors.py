"""Errors of statements that Spark or Delta refuses, independent of the rows."""

from __future__ import annotations

from pyspark.errors import PySparkException

from ...core.errors import InvalidStatement, StreamConflict
from ...core.sql.error_positions import in_own_text
from ...core.sql.statements import Statement
from .failures import first_line, message

_EXISTS = ("TABLE_OR_VIEW_ALREADY_EXISTS", "DELTA_TABLE_ALREADY_EXISTS")


def refused(statement: Statement, error: Exception, text: str | None = None) -> InvalidStatement:
    """The error of ``statement`` if Spark raised ``error`` instead of running it.

    :param text: the text that Spark read, if ``error`` names a position in it
    """
    return _refusal(statement, first_line(error), text)


def plan_refused(statement: Statement, found: str, text: str) -> InvalidStatement:
    """The error of ``statement`` if EXPLAIN returned the error message ``found``.

    :param text: the text that Spark read
    """
    return _refusal(statement, message(found, has_plan=True).partition("\n")[0], text)


def created_meanwhile(statement: Statement) -> StreamConflict:
    """The error of a CREATE TABLE AS whose table somebody else created a moment before."""
    return StreamConflict(
        f"target {statement.target.sql}",
        "was created by somebody else",
        cause="there was no such table a moment before",
        fix="run the consumer again; nothing was begun",
    )


def exists(error: Exception) -> bool:
    """Whether Spark refuses to create a table because it exists."""
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    return (condition or "").startswith(_EXISTS)


def _refusal(statement: Statement, cause: str, text: str | None) -> InvalidStatement:
    return InvalidStatement(
        f"statement on {statement.target.sql}",
        "is refused by Spark",
        cause=cause if text is None else in_own_text(cause, text, statement.text),
        fix="correct the statement; nothing was written and no offset moved",
    )
