"""How an error of the engine ends a task: at once, or with a retry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_cdc.engine.core.errors import CdcError


class CdcJobFailed(AirflowException):
    """A job failed in a way that running the same task again can mend."""


@contextmanager
def task_errors() -> Iterator[None]:
    """Turn errors of the engine into what Airflow acts on.

    :raises AirflowFailException: for an error that no retry can mend
    :raises CdcJobFailed: for an error that a retry can mend
    """
    try:
        yield
    except CdcError as error:
        raise task_failure(str(error), retryable=error.retryable) from error


def task_failure(message: str, *, retryable: bool) -> AirflowException:
    """The exception that ends a task with ``message``, with or without its retries."""
    return CdcJobFailed(message) if retryable else AirflowFailException(message)
