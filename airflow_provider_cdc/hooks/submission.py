"""One request to Spark. Each way to submit it has a module of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod

from airflow_provider_cdc.jobs.model import Answer, Request

from .connection import CdcConnection
from .failures import CdcJobFailed


class Submission(ABC):
    """One request to Spark, and its answer.

    If ``logs_here``, the log of the task contains the driver's log.
    """

    logs_here = True

    def __init__(self, request: Request, connection: CdcConnection) -> None:
        self.request = request
        self.connection = connection
        self._was_killed = False

    @abstractmethod
    def run(self) -> Answer:
        """Run the request and wait for its answer.

        :raises CdcJobFailed: Spark ended without an answer, or the request was killed before it was
            submitted
        """

    def kill(self) -> None:
        """Stop everything that :meth:`run` started, and prevent it from starting more."""
        self._was_killed = True
        self._stop()

    @abstractmethod
    def _stop(self) -> None: ...

    def _check_alive(self) -> None:
        if self._was_killed:
            raise CdcJobFailed(
                f"{self.request.job} job {self.request.request_id}: was killed before it was"
                " submitted; nothing was done."
            )
