"""What an exception tells of a statement that Spark ran."""

from __future__ import annotations

import re

from pyspark.errors import PySparkException

# What pyspark raises for the JVM exceptions that it has no class of its own for.
_JVM_EXCEPTION = "Py4JJavaError"
# Conditions that tell of a client and its server, and nothing of what the server still runs: it may
# be another server, or one that has let go of the answer.
_OF_THE_CONNECTION = (
    "INVALID_HANDLE",
    "INVALID_CURSOR",
    "RESPONSE_ALREADY_RECEIVED",
    "OPERATION_CANCELED",
)
_STACK = re.compile(r"\s+at \S|\s*\.\.\. \d+ (more|common frames)")
_CALL = re.compile(r"An error occurred while calling \S+\.$")
_CLASS = re.compile(r"^(?:: |Caused by: )?(?:[\w$]+\.)+[\w$]+: ")


def has_ended(error: Exception) -> bool:
    """Whether ``error`` shows that Spark itself ended the statement.

    Spark's own errors have a condition, and what the JVM threw came back as the statement's answer.
    A lost connection is neither: the statement may go on and land later. So may one whose answer
    was lost, or that was told to stop.
    """
    if isinstance(error, PySparkException):
        condition = error.getCondition()
        return condition is not None and not condition.startswith(_OF_THE_CONNECTION)
    return type(error).__name__ == _JVM_EXCEPTION


def reason(error: Exception) -> str:
    """The messages of ``error`` and of what caused it, without the JVM's stack."""
    found: dict[str, None] = {}
    for line in str(error).strip().splitlines():
        if not _STACK.match(line) and not _CALL.match(line):
            found[_CLASS.sub("", line).rstrip()] = None
    return "\n".join(filter(None, found)).rstrip(".")
