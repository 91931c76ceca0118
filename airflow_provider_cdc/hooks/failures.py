"""How an error of the engine ends a task: at once or with a retry, and without a traceback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSensorTimeout

from airflow_provider_cdc.engine.core.errors import CdcError, message_lines

# The methods of a task that Airflow calls in the task's own process.
_CALLED = ("execute", "execute_complete")
_LOGGED = "_is_logged_by_cdc"


class CdcJobFailed(AirflowException):
    """A job failed in a way that running the same task again can fix."""


@contextmanager
def task_errors() -> Iterator[None]:
    """Turn errors of the engine into exceptions that Airflow acts on.

    :raises AirflowFailException: for an error that no retry can fix
    :raises CdcJobFailed: for an error that a retry can fix
    """
    try:
        yield
    except CdcError as error:
        raise task_failure(str(error), retryable=error.retryable) from error


def task_failure(message: str, *, retryable: bool) -> AirflowException:
    """The exception that ends a task with ``message``, with or without its retries."""
    return CdcJobFailed(message) if retryable else AirflowFailException(message)


def logged(error: AirflowException) -> AirflowException:
    """Mark ``error`` as one whose lines are in the task's log already; returns it."""
    setattr(error, _LOGGED, True)
    return error


class FailsPlainly:
    """Base of operators and sensors. An error of this package is logged as one line each for what
    happened, the cause and the fix. It ends the task without the frames of this package.

    Airflow logs a traceback of every exception that ends a task. Only Airflow's own frames are left
    in it. An error from elsewhere, such as a notifier, keeps its traceback.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in _CALLED:
            if name in vars(cls):
                setattr(cls, name, _plainly(vars(cls)[name]))


def _plainly(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except CdcError as error:
            failure = task_failure(str(error), retryable=error.retryable)
        except (AirflowFailException, AirflowSensorTimeout, CdcJobFailed) as error:
            if not _is_ours(error.__cause__):
                raise
            failure = error
        if not getattr(failure, _LOGGED, False):
            for line in message_lines(str(failure)):
                self.log.error("%s", line)
            logged(failure)
        raise failure.with_traceback(None) from None

    return called


def _is_ours(cause: BaseException | None) -> bool:
    return cause is None or isinstance(cause, (CdcError, AirflowException, ValueError))
