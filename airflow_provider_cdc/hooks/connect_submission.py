"""Submission over Spark Connect: the request runs in the worker, on a session of a server."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook

from airflow_provider_cdc.jobs import entry_point
from airflow_provider_cdc.jobs.model import Answer, Request
from airflow_provider_cdc.jobs.run import run

from .connection import CdcConnection
from .submission import Submission

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_SESSION_SETTINGS = ("spark.sql.", "spark.databricks.")


class ConnectSubmission(Submission):
    """A request run in this process on a session over Spark Connect. No JVM is started.

    :param conf: Spark settings that override those of the connection
    """

    def __init__(
        self,
        request: Request,
        connection: CdcConnection,
        *,
        conf: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(request, connection)
        self.conf = {**connection.conf, **connection.secret_conf, **(conf or {})}
        self._sessions: list[SparkSession] = []

    def run(self) -> Answer:
        """See :meth:`Submission.run`. It does not set the settings that only a server can have."""
        try:
            return run(
                self.request,
                self._open_session(),
                self.connection.store_options,
                new_session=self._open_session,
            )
        finally:
            # A stopped session runs nothing, and cannot be interrupted.
            sessions, self._sessions = self._sessions, []
            with _quiet_client():
                for session in sessions:
                    session.stop()

    def _stop(self) -> None:
        """Interrupt everything that the sessions run on the server."""
        sessions = tuple(self._sessions)
        for session in sessions:
            try:
                session.interruptAll()
            except Exception:
                log.warning("The Spark Connect server did not interrupt the job", exc_info=True)
        for session in sessions[1:]:
            # Otherwise its thread would begin the next piece of work.
            session.stop()

    def _open_session(self) -> SparkSession:
        session = self._new_session()
        self._sessions.append(session)
        # A kill that came before has not seen this session.
        self._check_alive()
        return session

    def _new_session(self) -> SparkSession:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - only this way needs it in a worker

        url = SparkConnectHook(self.connection.spark_conn_id).get_connection_url()
        runtime: dict[str, bool | float | int | str | None] = {
            key: value
            for key, value in self.conf.items()
            if key.startswith(_SESSION_SETTINGS) and key not in entry_point.DELTA_CONF
        }
        return SparkSession.builder.remote(url).config(map=runtime).create()


@contextmanager
def _quiet_client() -> Iterator[None]:
    """Keep warnings of Spark's client out of the log. A session that ends releases its results in
    other threads. They warn if the server has already dropped the results with the session.
    """
    logger = logging.getLogger("pyspark.sql.connect.logging")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
