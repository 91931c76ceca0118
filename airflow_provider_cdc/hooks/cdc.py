"""The hook of a ``cdc`` connection: it submits jobs and opens the stream registry."""

from __future__ import annotations

import uuid
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import amask_secret, mask_secret
from msgspec import MsgspecError

from airflow_provider_cdc.engine.catalog.monitoring import StreamMonitor
from airflow_provider_cdc.engine.core.errors import CdcError, InvalidRequest
from airflow_provider_cdc.engine.core.model.json_text import from_json, to_json
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.jobs.model import (
    Answer,
    Request,
    Task,
)

from . import DEFAULT_CONN_ID
from .connection import CdcConnection
from .failures import CdcJobFailed, logged, task_errors, task_failure

if TYPE_CHECKING:
    from airflow.sdk import Connection, Context

    from airflow_provider_cdc.engine.catalog.change_stream_catalog import ChangeStreamCatalog
    from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog

    from .submission import Submission


class CdcHook(BaseHook):
    """The state folder of a ``cdc`` connection and the Spark connection for its jobs.

    :param conn_id: a connection of type ``cdc``; see :class:`CdcConnection` for its fields
    """

    conn_name_attr = "conn_id"
    default_conn_name = DEFAULT_CONN_ID
    conn_type = "cdc"
    hook_name = "Change data capture"

    def __init__(self, conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.conn_id = conn_id
        self._submission: Submission | None = None
        self._was_killed = False

    @cached_property
    def settings(self) -> CdcConnection:
        """The parsed connection. After the first use, its secrets are masked in logs.

        :raises InvalidRequest: the connection is incomplete or malformed
        """
        extra = self.get_connection(self.conn_id).extra_dejson
        settings = CdcConnection.from_extra(self.conn_id, extra)
        for secret in settings.secrets:
            mask_secret(secret)
        return settings

    def get_conn(self) -> StreamCatalog:
        """Return the same as :meth:`catalog`."""
        return self.catalog()

    def catalog(self) -> StreamCatalog:
        """The stream registry of the state folder, read and written without a JVM."""
        return self.settings.catalog()

    def change_streams(self) -> ChangeStreamCatalog:
        """The change streams of the state folder, read and handed out without a JVM."""
        return self.settings.change_streams()

    @classmethod
    async def asettings(cls, conn_id: str) -> CdcConnection:
        """Return :attr:`settings` in the event loop of a triggerer.

        :raises InvalidRequest: the connection is incomplete or malformed
        """
        connection = await cls.aget_connection(conn_id)
        settings = CdcConnection.from_extra(conn_id, await connection.aextra_dejson())
        for secret in settings.secrets:
            await amask_secret(secret)
        return settings

    def monitor(self) -> StreamMonitor:
        """The monitor of the streams of the state folder, without a JVM."""
        settings = self.settings
        return StreamMonitor(settings.state, storage_options=settings.store_options)

    def submit(self, task: Task, *, context: Context | None = None) -> Answer:
        """Run ``task`` on Spark, and return its answer, which has no error.

        :param context: the context of the Airflow task, for its pool and for OpenLineage if that is
            configured
        :raises AirflowFailException: the job failed, and a retry cannot help
        :raises CdcJobFailed: the job failed, and a retry is safe and may help
        """
        # Parsing a DAG needs no provider of lineage.
        from . import lineage  # noqa: PLC0415

        with task_errors():
            request = replace(
                request_for(self.settings, task), wants_lineage=lineage.is_lineage_sent()
            )
            self._submission = self.submission(request, context)
        if self._was_killed:
            # The kill came before there was a submission to stop.
            self._submission.kill()
        answer = self._submission.run()
        if answer.error:
            failure = task_failure(answer.error.message, retryable=answer.error.retryable)
            raise logged(failure) if self._submission.logs_here else failure
        return answer

    def submission(self, request: Request, context: Context | None = None) -> Submission:
        """The submission of ``request`` for the type of the Spark connection.

        :raises InvalidRequest: the worker lacks what it needs
        :raises CdcJobFailed: no Spark connection was found
        """
        # Parsing a DAG needs no Spark provider.
        from . import connect_submission, lineage, spark_submission  # noqa: PLC0415

        spark = self._spark_connection()
        conf = self._pool_conf(context) | lineage.lineage_conf(context)
        if spark.conn_type == "spark_connect":
            return connect_submission.ConnectSubmission(request, self.settings, conf=conf)
        return spark_submission.SparkSubmission(
            request, self.settings, spark=spark, conf=conf, job_name=_job_name(context)
        )

    def _pool_conf(self, context: Context | None) -> dict[str, str]:
        """The Spark settings of the task's pool."""
        task = None if context is None else context.get("task")
        return {} if task is None else dict(self.settings.pool_conf.get(task.pool, {}))

    def kill(self) -> None:
        """Stop the job that :meth:`submit` waits for or is about to start."""
        self._was_killed = True
        if self._submission is not None:
            self._submission.kill()

    def on_kill(self) -> None:
        """Do the same as :meth:`kill`."""
        self.kill()

    def test_connection(self) -> tuple[bool, str]:
        """Check that the state folder can be listed and that the Spark connection exists.

        Returns whether both are true, and a message.
        """
        try:
            self._list_state()
            found = self._found()
            spark = self._spark_connection()
        except (CdcError, CdcJobFailed) as error:
            return False, str(error)
        except Exception as error:
            return False, f"state folder of {self.conn_id}: {type(error).__name__}: {error}"
        return True, f"{found} in {self.settings.state}, Spark connection {spark.conn_id}"

    def _found(self) -> str:
        streams = self.catalog().list_streams_if_begun()
        return "no registry of streams yet" if streams is None else f"{len(streams)} streams"

    def _list_state(self) -> None:
        files = Files(self.settings.store_options)
        if files.exists(self.settings.state):
            files.names(self.settings.state)

    def _spark_connection(self) -> Connection:
        conn_id = self.settings.spark_conn_id
        try:
            return self.get_connection(conn_id)
        except AirflowNotFoundException:
            raise CdcJobFailed(
                f"Spark connection {conn_id}: was not found. Cause: it does not exist, or"
                " Airflow's store of connections did not answer; without it the Spark provider"
                " would submit to a YARN cluster. Fix: create it, or correct spark_conn_id in the"
                f" connection {self.conn_id}; running the task again is safe."
            ) from None


def _job_name(context: Context | None) -> str | None:
    """The name of the job of a task, the same in each of its runs."""
    instance = None if context is None else context.get("ti")
    if instance is None:
        return None
    return f"{instance.dag_id}.{instance.task_id}[{instance.map_index}]"


def request_for(settings: CdcConnection, task: Task) -> Request:
    """The request for ``task`` with a new id, in the form that a driver reads.

    :raises InvalidRequest: an argument has the wrong type
    """
    request = Request(uuid.uuid4().hex, settings.state, task, settings.principal)
    try:
        return from_json(to_json(request), Request)
    except (TypeError, ValueError, OverflowError, RecursionError, MsgspecError) as error:
        raise InvalidRequest(
            f"{task.job} job",
            "has an argument of the wrong type",
            cause=str(error),
            fix="correct the operator's argument; a flag is True or False",
        ) from error
