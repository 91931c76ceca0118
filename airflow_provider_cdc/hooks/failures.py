"""End a task after an error of the engine: at once or with a retry, and without a traceback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSensorTimeout

from airflow_provider_cdc.engine.core.errors import CdcError, message_lines

# Airflow calls these methods of a task in the process of the task.
_CALLED = ("execute", "execute_complete")
_LOGGED = "_is_logged_by_cdc"


class CdcJobFailed(AirflowException):
    """A job failed, and a retry of the same task can succeed."""


@contextmanager
def task_errors() -> Iterator[None]:
    """Turn errors of the engine into exceptions that Airflow handles.

    :raises AirflowFailException: a retry cannot fix the error
    :raises CdcJobFailed: a retry can fix the error
    """
    try:
        yield
    except CdcError as error:
        raise task_failure(str(error), retryable=error.retryable) from error


def task_failure(message: str, *, retryable: bool) -> AirflowException:
    """The exception that ends a task with ``message``.

    :param retryable: whether Airflow may retry the task
    """
    return CdcJobFailed(message) if retryable else AirflowFailException(message)


def logged(error: AirflowException) -> AirflowException:
    """Mark that the lines of ``error`` are already in the task's log, and return ``error``."""
    setattr(error, _LOGGED, True)
    return error


class FailsPlainly:
    """Base class of operators and sensors that logs errors of this package as plain lines.

    It logs one line each for what happened, for the cause and for the fix. Airflow logs a traceback
    of every exception that ends a task. For an error of this package, the traceback has only the
    frames of Airflow. Any other error, for example of a notifier, keeps its traceback.
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
