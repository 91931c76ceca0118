"""What an exception shows about a statement that Spark ran."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import AnalysisException, PySparkException
from pyspark.logger import PySparkLogger

from ...core.errors import OutcomeUnknown

# pyspark raises this for JVM exceptions that have no class in pyspark.
_JVM_EXCEPTION = "Py4JJavaError"
# Conditions of the connection. They do not show whether the server still runs the statement: it may
# be another server, or one that has dropped the answer.
_OF_THE_CONNECTION = (
    "INVALID_HANDLE",
    "INVALID_CURSOR",
    "RESPONSE_ALREADY_RECEIVED",
    "OPERATION_CANCELED",
    # A client refuses all calls after another server has answered it.
    "NO_ACTIVE_SESSION",
)
# With these, the session can no longer be used. The first name is that of a Connect client's error,
# the second that of a JVM that no longer answers.
_LOST = ("INVALID_HANDLE", "NO_ACTIVE_SESSION")
_LOST_CLASSES = ("SparkConnectGrpcException", "Py4JNetworkError")
# Delta's conditions for a table whose protocol it does not know, or that contradicts itself.
_OF_THE_PROTOCOL = re.compile(
    r"\[DELTA_(?:UNSUPPORTED_FEATURES_FOR_|INVALID_PROTOCOL_VERSION|FEATURES_PROTOCOL_)"
)
_STACK = re.compile(r"\s+at \S|\s*\.\.\. \d+ (more|common frames)")
_CALL = re.compile(r"An error occurred while calling \S+\.$")
# This text separates the message of an analysis, with its position, from the partly resolved plan.
_PLAN = ";\n"
# This line comes before the text that Spark could not parse.
_STATEMENT = re.compile(r"^== SQL ==$", re.MULTILINE)
_CLASS = re.compile(r"^(?:: |Caused by: )?(?:[\w$]+\.)+[\w$]+: ")


def log_no_query_errors() -> None:
    """Keep pyspark from logging each exception as JSON, with the stack of the JVM."""
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)


def has_ended(error: Exception) -> bool:
    """Whether ``error`` shows that Spark itself ended the statement.

    Spark's own errors have a condition, and JVM exceptions come back as the statement's answer. A
    lost connection is neither: the statement may continue and commit later. The same is true of a
    statement whose answer was lost, or that was asked to stop.
    """
    if isinstance(error, PySparkException):
        condition = error.getCondition()
        return condition is not None and not condition.startswith(_OF_THE_CONNECTION)
    return type(error).__name__ == _JVM_EXCEPTION


def is_session_lost(error: Exception) -> bool:
    """Whether ``error`` shows that the session, its server or its JVM can no longer be used."""
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    if condition is not None:
        return condition.startswith(_LOST)
    return type(error).__name__ in _LOST_CLASSES


@contextmanager
def lost_sessions_explained() -> Iterator[None]:
    """A block whose session may be lost.

    :raises OutcomeUnknown: it was lost
    """
    try:
        yield
    except Exception as error:
        if not is_session_lost(error):
            raise
        raise OutcomeUnknown(
            "Spark session",
            "was lost during the call",
            cause=first_line(error),
            fix="make the same call with a new session; it finds out what was done, and does"
            " the rest",
        ) from error


def reason(error: Exception) -> str:
    """The messages of ``error`` and of its causes, without the JVM's stack, Spark's plan and the
    executed statement. The executed statement is not the user's own text.
    """
    return message(str(error), has_plan=isinstance(error, AnalysisException))


def first_line(error: Exception) -> str:
    """The first line of :func:`reason`, with the position that Spark names."""
    return reason(error).partition("\n")[0].rstrip(".; ")


def protocol_refusal(error: Exception) -> str | None:
    """What Delta says about a table whose features it does not support; ``None``: ``error`` is
    about something else.
    """
    text = first_line(error)
    return text if _OF_THE_PROTOCOL.search(text) else None


def raised_text(error: Exception, mark: str) -> str | None:
    """What SQL's ``raise_error`` said after ``mark``; ``None``: something else failed."""
    _, found, text = reason(error).partition(mark)
    return text.partition("\n")[0].partition(" SQLSTATE: ")[0] if found else None


def message(text: str, *, has_plan: bool) -> str:
    """What :func:`reason` returns for an exception of Spark whose message is ``text``.

    :param has_plan: an analysis failed; then the message may end with Spark's plan
    """
    if has_plan:
        text = text.partition(_PLAN)[0]
    text = _STATEMENT.split(text, maxsplit=1)[0]
    found: dict[str, None] = {}
    for line in text.strip().splitlines():
        if not _STACK.match(line) and not _CALL.match(line):
            found[_CLASS.sub("", line).rstrip()] = None
    return "\n".join(filter(None, found)).rstrip(".; ")
