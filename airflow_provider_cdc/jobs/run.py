"""Run one request on a Spark session: the driver's side of every job.

The entry point of spark-submit calls it. A task calls it on a session over Spark Connect.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow_provider_cdc import engine as cdc
from airflow_provider_cdc.engine.core.arguments.points import point_of
from airflow_provider_cdc.engine.core.errors import CdcError, message_lines
from airflow_provider_cdc.engine.spark.session.failures import reason
from airflow_provider_cdc.engine.spark.tables.delta_tables import Tables
from airflow_provider_cdc.engine.storage.files.stores import Files

from .answer_lines import answer_lines
from .archives import archive_answer
from .change_stream_tasks import ChangeStreamTask
from .change_streams import change_stream_answer
from .export import export
from .functions import check_consume, consume_by_function
from .history import history_answer
from .model import (
    AbortConsumption,
    Answer,
    ArchiveChanges,
    ConsumeStream,
    CreateStream,
    EnableChangeTracking,
    ExportChanges,
    ExportTable,
    HistoryTask,
    JobError,
    MaintainStreams,
    RecoverStream,
    Request,
    RewindStream,
    StreamHasData,
    UpsertTask,
    VerifyTarget,
)
from .slot_meter import slot_meter
from .upserts import upsert_answer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_provider_cdc.engine import Engine

log = logging.getLogger(__name__)

UNEXPECTED = "unexpected"
"""The kind of an error that is not a :class:`CdcError`."""

_MESSAGE_CHARACTERS = 4_000


def run(
    request: Request, spark: SparkSession, storage_options: Mapping[str, str] | None = None
) -> Answer:
    """Run ``request`` with the engine on ``spark``. An error becomes part of the answer.

    An error of the engine is logged as lines. An unexpected error is logged with its traceback.
    Only an exception that ends the process is raised.
    """
    try:
        engine = cdc.Engine(
            spark,
            state=request.state,
            storage_options=dict(storage_options or {}),
            principal=request.principal,
            slot_meter=slot_meter(spark),
        )
        answer = _answer(request, engine, spark, storage_options)
        for line in answer_lines(request, answer):
            log.info("%s", line)
        return answer
    except CdcError as error:
        for line in message_lines(str(error)):
            log.error("%s", line)
        return Answer(request.request_id, JobError(error.kind, str(error), error.retryable))
    except Exception as error:
        log.exception("The %s job failed", request.job)
        message = f"{type(error).__name__}: {reason(error)}"[:_MESSAGE_CHARACTERS]
        return Answer(request.request_id, JobError(UNEXPECTED, message, retryable=True))


def _answer(
    request: Request,
    engine: Engine,
    spark: SparkSession,
    storage_options: Mapping[str, str] | None,
) -> Answer:
    match request.task:
        case CreateStream() as task:
            stream = engine.create_stream(**task.spec.arguments)
            return Answer(request.request_id, stream=stream)
        case ConsumeStream() as task:
            check_consume(task)
            if task.apply is not None:
                return Answer(request.request_id, outcome=consume_by_function(engine, task))
            outcome = engine.consume(
                task.statements,
                consumer=task.consumer,
                max_commits=task.max_commits,
                max_bytes=task.max_bytes,
            )
            return Answer(request.request_id, outcome=outcome)
        case StreamHasData() as task:
            return Answer(
                request.request_id, has_data=engine.stream_has_data(task.stream, exact=True)
            )
        case ExportChanges() | ExportTable() as task:
            export(task, engine, spark, Tables(spark, Files(storage_options)))
            return Answer(request.request_id)
        case MaintainStreams() as task:
            found = engine.maintain_streams(ahead=task.ahead)
            return Answer(request.request_id, maintenance=found)
        case RecoverStream() as task:
            outcome = engine.recover_stream(
                task.stream, task.target, task.key, consumer=task.consumer
            )
            return Answer(request.request_id, outcome=outcome)
        case AbortConsumption() as task:
            return Answer(
                request.request_id, stream=engine.abort_consumption(task.stream, keep=task.keep)
            )
        case RewindStream() as task:
            point = point_of(task.to)
            assert point is not None  # a mapping names a point, or is refused
            return Answer(request.request_id, stream=engine.rewind_stream(task.stream, to=point))
        case EnableChangeTracking() as task:
            tracking = engine.enable_change_tracking(
                task.table, row_tracking=task.row_tracking, change_feed=task.change_feed
            )
            return Answer(request.request_id, tracking=tracking)
        case ArchiveChanges() | VerifyTarget() as task:
            return archive_answer(request.request_id, task, engine)
        case task:
            return _answer_about_tables(request.request_id, task, engine, spark)


def _answer_about_tables(
    request_id: str,
    task: HistoryTask | ChangeStreamTask | UpsertTask,
    engine: Engine,
    spark: SparkSession,
) -> Answer:
    if isinstance(task, HistoryTask):
        return history_answer(request_id, task, engine)
    if isinstance(task, ChangeStreamTask):
        return change_stream_answer(request_id, task, engine)
    return upsert_answer(request_id, task, engine, spark)
