"""An exception of a job as a part of its answer."""

from __future__ import annotations

import logging

from airflow_provider_cdc.engine.core.errors import CdcError, message_lines
from airflow_provider_cdc.engine.spark.session.failures import reason

from .model import JobError

log = logging.getLogger(__name__)

UNEXPECTED = "unexpected"
"""The kind of an error that is not a :class:`CdcError`."""

_MESSAGE_CHARACTERS = 4_000


def job_error(error: Exception, what: str) -> JobError:
    """Log ``error``, and return it as an answer holds it.

    An error of the engine is logged as lines, any other error with its traceback.

    :param what: what failed, as the subject of a log line
    """
    if isinstance(error, CdcError):
        for line in message_lines(str(error)):
            log.error("%s", line)
        return JobError(error.kind, str(error), error.retryable)
    log.error("%s failed", what, exc_info=error)
    message = f"{type(error).__name__}: {reason(error)}"[:_MESSAGE_CHARACTERS]
    return JobError(UNEXPECTED, message, retryable=True)
