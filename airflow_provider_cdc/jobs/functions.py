"""Find a user's function by name, and let it consume streams in a transaction."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from airflow_provider_cdc.engine.core.errors import InvalidRequest

from .model import ConsumeStream

if TYPE_CHECKING:
    from airflow_provider_cdc.engine import Engine, Outcome

_NAME = re.compile(r"(?P<module>[^\W\d]\w*(\.[^\W\d]\w*)*):(?P<function>[^\W\d]\w*(\.[^\W\d]\w*)*)")


def check_consume(task: ConsumeStream) -> None:
    """Check that a task gives exactly one way to consume.

    :raises InvalidRequest: the task has both statements and a function, or neither; the name of the
        function is malformed; or the function has no stream
    """
    if bool(task.statements) == (task.apply is not None):
        raise InvalidRequest(
            f"consumption of {task.consumer}",
            "is not defined",
            cause="expected either statements or a function, found"
            f" {'both' if task.statements else 'neither'}",
            fix="pass one of them",
        )
    if task.apply is not None:
        _parts(task.apply)
        if not task.streams:
            raise InvalidRequest(
                f"function {task.apply}", "has nothing to consume", fix="name at least one stream"
            )


def check_work(subject: str, statements: Sequence[str], work: str | None) -> None:
    """Check that a read of a partition gives exactly one way to process it.

    :raises InvalidRequest: it has both statements and a function, or neither; or the name of the
        function is malformed
    """
    if bool(statements) == (work is not None):
        raise InvalidRequest(
            subject,
            "cannot read a partition",
            cause="expected either statements or a function, found"
            f" {'both' if statements else 'neither'}",
            fix="pass one of them",
        )
    if work is not None:
        _parts(work)


def consume_by_function(engine: Engine, task: ConsumeStream) -> Outcome:
    """Call the function with the change set of each stream, in order, and the transaction.

    If the function raises an exception, nothing is consumed, and the exception reaches the caller;
    see ``Engine.transaction``.

    :raises InvalidRequest: the function does not exist, or it consumed no stream
    """
    function = function_named(task.apply or "")
    with engine.transaction(
        consumer=task.consumer, max_commits=task.max_commits, max_bytes=task.max_bytes
    ) as transaction:
        function(*map(transaction.stream, task.streams), transaction)
    outcome = transaction.outcome
    if outcome is None:
        raise InvalidRequest(f"function {task.apply}", "consumed no stream")
    return outcome


def function_named(name: str) -> Callable[..., Any]:
    """The function that ``package.module:function`` names.

    :raises InvalidRequest: there is no such function
    """
    module, path = _parts(name)
    try:
        found = attrgetter(path)(import_module(module))
    except (ImportError, AttributeError) as error:
        raise InvalidRequest(
            f"function {name}",
            "cannot be imported by the driver",
            cause=str(error),
            fix="install its module where the driver runs, or ship it as py_files",
        ) from error
    if not callable(found):
        raise InvalidRequest(
            f"function {name}",
            "cannot be called",
            cause=f"found {type(found).__name__}",
            fix="name a function of the module",
        )
    function: Callable[..., Any] = found
    return function


def _parts(name: str) -> tuple[str, str]:
    match = _NAME.fullmatch(name)
    if match is None:
        raise InvalidRequest(
            f"function {name!r}",
            "is not a valid name",
            cause="expected package.module:function",
            fix="name the module and the function in it, with a colon between them",
        )
    return match["module"], match["function"]
